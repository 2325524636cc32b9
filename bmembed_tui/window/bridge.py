"""All that the page can call."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from typing import Any

from bmembed_tui.window.child import AppProcess

WAIT_SECONDS = 20.0
MAX_INPUT_LENGTH = 4 * 2**20
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_MIN_SIZE = 2
_MAX_SIZE = 1000

Starter = Callable[
    [str | None, tuple[int, int], Callable[[str], None], Callable[[dict[str, Any]], None]],
    AppProcess,
]


class Nothing:
    """Has no attribute at all. pywebview looks up in its object whatever name the page says,
    with underscores and dots, as far as the classes that start programs; so it gets this one,
    and the functions that are `offered` by themselves.
    """

    def __getattribute__(self, name: str) -> Any:
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return []


NOTHING = Nothing()


class Bridge:
    """Between one page and one app.

    The page asks for output when it has shown the last: none piles up in it.
    """

    def __init__(
        self, project: str | None, size: tuple[int, int] = (124, 36), start: Starter = AppProcess
    ) -> None:
        self._waiting = threading.Condition()
        self._size = size
        self._output: list[str] = []
        self._messages: list[dict[str, Any]] = []
        self.choose_folder: Callable[[], str | None] = lambda: None
        self.to_clipboard: Callable[[str], None] = lambda _text: None
        self.on_end: Callable[[], None] = lambda: None
        self.app = start(project, size, self.add_output, self.add_message)

    def read(self) -> dict[str, Any]:
        """What the app has shown and wants since the last call; waits for it, but not for ever."""
        with self._waiting:
            self._waiting.wait_for(lambda: self._output or self._messages, WAIT_SECONDS)
            output = "".join(self._output)
            self._output = []
            messages = self._messages
            self._messages = []
        return {"output": output, "messages": messages}

    def type(self, text: str) -> None:
        self.app.type(str(text)[:MAX_INPUT_LENGTH])

    def resize(self, columns: int, rows: int) -> None:
        width, height = (max(_MIN_SIZE, min(_MAX_SIZE, int(number))) for number in (columns, rows))
        if (width, height) != self._size:
            self._size = width, height
            self.app.send(type="resize", width=width, height=height)

    def focus(self, has: bool) -> None:
        self.app.send(type="focus" if has else "blur")

    def copy(self, text: str) -> None:
        self.to_clipboard(str(text)[:MAX_INPUT_LENGTH])

    def pick_folder(self) -> None:
        if chosen := self.choose_folder():
            self.paste([chosen])

    def paste(self, paths: Iterable[str]) -> None:
        """Put the names of files or folders in where the cursor is."""
        if text := " ".join(_CONTROL.sub("", path) for path in paths):
            self.app.send(
                type="focus"
            )  # the system's dialog, or what was dragged from, has the keyboard still
            self.app.type(f"\x1b[200~{text}\x1b[201~")

    def close(self) -> int:
        return self.app.close()

    def add_output(self, text: str) -> None:
        with self._waiting:
            self._output.append(text)
            self._waiting.notify_all()

    def add_message(self, message: dict[str, Any]) -> None:
        if message.get("type") == "copy":
            self.to_clipboard(str(message["text"]))
            return
        with self._waiting:
            self._messages.append(message)
            self._waiting.notify_all()
        if message.get("type") == "ended" and message["code"] == 0:
            self.on_end()


def offered(bridge: Bridge) -> list[Callable[..., Any]]:
    """The functions of the page, each by its own name."""
    return [bridge.read, bridge.type, bridge.resize, bridge.focus, bridge.copy, bridge.pick_folder]
