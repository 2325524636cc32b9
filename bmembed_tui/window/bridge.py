"""The bridge between the page of a window and the app: all that the page can call."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

from bmembed_tui.window.child import AppProcess

WAIT_SECONDS = 20.0  # for output, before an empty answer
MAX_INPUT_LENGTH = 4 * 2**20  # characters
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Columns, and rows.
_MIN_SIZE = 2
_MAX_SIZE = 1000

Starter = Callable[
    [str | None, tuple[int, int], Callable[[str], None], Callable[[dict[str, Any]], None]],
    AppProcess,
]
"""Starts the app, with the arguments of `AppProcess`."""


class Nothing:
    """An object without any attribute.

    pywebview looks up in its API object whatever name the page sends, with underscores and dots, up
    to the classes that start programs. It therefore gets this object, and the functions of
    `list_page_functions` separately.
    """

    def __getattribute__(self, name: str) -> Any:
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return []


NOTHING = Nothing()


class Bridge:
    """Connects one page with one app.

    The page asks for more output when it has shown the last, so that none piles up in it. `size`:
    columns and rows of the terminal. `wait_seconds`: how long `read` waits for output.
    """

    def __init__(
        self,
        project: str | None,
        size: tuple[int, int] = (124, 36),
        start: Starter = AppProcess,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._wait_seconds = wait_seconds
        self._news = threading.Condition()  # guards, and announces, output and messages
        self._size = size
        self._output: list[str] = []
        self._messages: list[dict[str, Any]] = []
        self.choose_folder: Callable[[], str | None] = lambda: None
        self.to_clipboard: Callable[[str], None] = lambda _text: None
        self.on_end: Callable[[], None] = lambda: None
        self.app = start(
            project,
            size,
            self.add_output,
            self.add_message,
        )

    def read(self) -> dict[str, Any]:
        """Return the output and messages of the app since the last call; wait a while for some."""
        with self._news:
            self._news.wait_for(lambda: self._output or self._messages, self._wait_seconds)
            output = "".join(self._output)
            self._output = []
            messages = self._messages
            self._messages = []
        return {"output": output, "messages": messages}

    def type(self, text: str) -> None:
        """Send what the user types to the app."""
        self.app.type(str(text)[:MAX_INPUT_LENGTH])

    def resize(self, columns: int, rows: int) -> None:
        """Set the size of the app's terminal, kept within limits, if it has changed."""
        width = max(_MIN_SIZE, min(_MAX_SIZE, int(columns)))
        height = max(_MIN_SIZE, min(_MAX_SIZE, int(rows)))
        if (width, height) != self._size:
            self._size = width, height
            self.app.send(
                type="resize",
                width=width,
                height=height,
            )

    def focus(self, has_focus: bool) -> None:
        self.app.send(type="focus" if has_focus else "blur")

    def copy(self, text: str) -> None:
        """Copy text that the user has selected in the terminal."""
        self.to_clipboard(str(text)[:MAX_INPUT_LENGTH])

    def pick_folder(self) -> None:
        """Ask the user for a folder in the system's dialog, and insert its path."""
        folder = self.choose_folder()
        if folder:
            self.paste([folder])

    def paste(self, paths: Iterable[str]) -> None:
        """Insert the names of files or folders at the cursor."""
        text = " ".join(_CONTROL.sub("", path) for path in paths)
        if text:
            # The system's dialog, or the program that the files come from, still has the focus.
            self.app.send(type="focus")
            self.app.type(f"\x1b[200~{text}\x1b[201~")  # a bracketed paste

    def close(self) -> int:
        return self.app.close()

    def add_output(self, text: str) -> None:
        """Keep output of the app until the page asks for it."""
        with self._news:
            self._output.append(text)
            self._news.notify_all()

    def add_message(self, message: dict[str, Any]) -> None:
        """Take a message of the app: copy text at once, keep any other message for the page."""
        if message.get("type") == "copy":
            self.to_clipboard(str(message["text"]))
            return
        with self._news:
            self._messages.append(message)
            self._news.notify_all()
        if message.get("type") == "ended" and message["code"] == 0:
            self.on_end()


def list_page_functions(bridge: Bridge) -> list[Callable[..., Any]]:
    """Return the functions that the page may call, each by its own name."""
    return [
        bridge.read,
        bridge.type,
        bridge.resize,
        bridge.focus,
        bridge.copy,
        bridge.pick_folder,
    ]
