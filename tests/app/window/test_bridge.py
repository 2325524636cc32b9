"""A bridge with the real app behind it, as the page drives it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from fixtures.pipeline import environment

from bmembed_tui.window.bridge import NOTHING, Bridge, list_page_functions
from bmembed_tui.window.child import AppProcess
from engine import __version__
from engine.core.platforms import processes

SECONDS = 40


def plain(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?<>=$]*[a-zA-Z]", "", shown)


class Page:
    """Reads as the page does, and keeps what a terminal would have shown."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self.shown = ""
        self.messages: list[dict[str, Any]] = []

    def until(self, reached: Callable[[], object]) -> None:
        end = time.monotonic() + SECONDS
        while not reached():
            assert time.monotonic() < end, f"{self.text[-2000:]!r} {self.messages}"
            found = self.bridge.read()
            self.shown += found["output"]
            self.messages += found["messages"]

    @property
    def text(self) -> str:
        """What was shown, without the sequences that colour and place it."""
        return plain(self.shown)

    def row(self, number: int) -> str:
        """What was shown on a row, from 1."""
        return plain(
            "".join(
                re.findall(rf"\x1b\[{number};\d+H((?:(?!\x1b\[\d+;\d+H).)*)", self.shown, re.DOTALL)
            )
        )

    def forget(self) -> None:
        self.shown = ""

    def has(self, kind: str) -> bool:
        return any(message["type"] == kind for message in self.messages)


@pytest.fixture
def page() -> Iterator[Page]:
    made = Page(Bridge(None, wait_seconds=1.0))
    yield made
    made.bridge.close()


class Silent:
    """No app."""

    def __init__(self, *_arguments: object) -> None:
        pass


def test_the_page_is_offered_these() -> None:
    bridge = Bridge(None, start=Silent)  # type: ignore[arg-type]
    assert [one.__name__ for one in list_page_functions(bridge)] == [
        "read",
        "type",
        "resize",
        "focus",
        "copy",
        "pick_folder",
    ]


@pytest.mark.parametrize("name", ["read", "_close", "_app", "__class__", "__dict__", "__init__"])
def test_nothing_has_no_attributes(name: str) -> None:
    assert getattr(NOTHING, name, None) is None
    assert dir(NOTHING) == []


def test_keys_resize_paste_and_leaving(page: Page) -> None:
    page.until(lambda: "Try the sample" in page.text)
    page.forget()
    page.bridge.resize(70, 20)
    page.until(lambda: "open a folder" in page.row(20))  # the line of keys is the last one
    page.bridge.type("o")
    page.until(lambda: "Browse" in page.text)
    page.forget()
    page.bridge.paste(["/tmp/some\x1b[201~ folder\n"])
    page.until(lambda: "/tmp/some[201~ folder" in page.text)
    page.forget()
    page.bridge.type("\x1b")
    page.until(lambda: "open a folder" in page.row(20))  # Escape alone has closed the dialog
    page.bridge.type("\x11")  # Ctrl+Q
    page.until(lambda: page.has("ended"))
    assert page.messages[-1] == {"type": "ended", "code": 0, "text": ""}


def test_the_window_gets_the_colour_of_its_rim(page: Page) -> None:
    def colours() -> list[str]:
        return [message["color"] for message in page.messages if message["type"] == "background"]

    page.until(lambda: "Try the sample" in page.text)
    page.until(colours)
    dark = "#12181f"
    light = "#f7f8fa"
    first = colours()[0]
    page.bridge.type("\x14")  # Ctrl+T
    page.until(lambda: len(colours()) > 1)
    page.bridge.type("\x14")  # as it was: what was chosen is kept
    page.until(lambda: len(colours()) > 2)
    assert colours()[:3] in ([dark, light, dark], [light, dark, light])
    assert colours()[2] == first


def test_the_systems_dialog_fills_the_field(page: Page) -> None:
    page.until(lambda: "Try the sample" in page.text)
    page.bridge.type("o")
    page.until(lambda: "Browse" in page.text)
    dialogs: list[str] = []

    def choose() -> str:
        dialogs.append("opened")
        return "/srv/chosen one"

    page.bridge.choose_folder = choose
    page.bridge.type("/former")
    page.until(lambda: "/former" in page.text)
    page.bridge.type("\x1b[Z" * 3)  # back over the dialog's end: Cancel, Open, Browse
    page.bridge.type("\r")
    page.until(lambda: page.has("pick_folder"))
    page.forget()
    page.bridge.focus(False)  # the dialog has the keyboard
    page.bridge.pick_folder()
    page.until(lambda: "/srv/chosen one" in page.text)
    assert dialogs == ["opened"]
    assert not re.search(r"/former\s*/srv|one/former", page.text)  # in its place, not next to it


def test_copied_text_goes_to_the_window(page: Page) -> None:
    page.until(lambda: "Try the sample" in page.text)
    page.bridge.type("\x1b[24~")  # F12, diagnostics
    page.until(lambda: "Machine" in page.text)
    copied: list[str] = []
    page.bridge.to_clipboard = copied.append
    page.bridge.type("c")
    page.until(lambda: copied)
    assert f"bmembed {__version__}" in copied[0]
    page.bridge.copy("selected")
    assert copied[1:] == ["selected"]
    assert "\x1b]52" not in page.shown


def test_when_the_windows_process_is_killed_the_app_leaves() -> None:
    code = (
        "import time\n"
        "from bmembed_tui.window.bridge import Bridge\n"
        "bridge = Bridge(None)\n"
        "while 'Try the sample' not in bridge.read()['output']: pass\n"
        "print(bridge.app.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    window = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert window.stdout is not None
    app = psutil.Process(int(window.stdout.readline()))
    window.kill()
    window.wait()
    psutil.wait_procs([app], timeout=SECONDS)
    assert not app.is_running() or app.status() == psutil.STATUS_ZOMBIE
    window.stdout.close()


def test_an_app_that_cannot_begin_reports_its_exit_code_and_last_words() -> None:
    messages: list[dict[str, Any]] = []
    app = AppProcess(
        "/no/such/project",
        (80, 24),
        lambda _text: None,
        messages.append,
    )
    assert app.close() is not None
    broken = Bridge(None, start=lambda *rest: _Broken(*rest))
    end = time.monotonic() + SECONDS
    found: list[dict[str, Any]] = []
    while not found:
        assert time.monotonic() < end
        found = broken.read()["messages"]
    assert (found[0]["code"], _Broken.LAST_WORDS in found[0]["text"]) == (3, True)


def test_on_windows_the_app_runs_in_python_itself_and_in_utf_8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = SimpleNamespace(
        platform="win32",
        executable="launcher.exe",
        _base_executable="base.exe",
    )
    started: list[tuple[list[str], str]] = []
    real = subprocess.Popen

    def popen(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started.append((command, options["env"]["__PYVENV_LAUNCHER__"]))
        return real([sys.executable, "-c", ""], **options)

    monkeypatch.setattr(processes, "sys", here)
    monkeypatch.setattr(subprocess, "Popen", popen)
    AppProcess("quay", (80, 24), lambda _text: None, lambda _message: None).close()
    module = "bmembed_tui.window.app_process"
    command = [
        "base.exe",
        "-X",
        "utf8",
        "-P",
        "-m",
        module,
        "quay",
    ]
    assert started == [(command, "launcher.exe")]


class _Broken(AppProcess):
    """An app whose process ends at once."""

    LAST_WORDS = "no such module"

    def __init__(
        self, project: str | None, size: tuple[int, int], output: Any, message: Any
    ) -> None:
        real = subprocess.Popen

        def popen(_command: list[str], **options: Any) -> subprocess.Popen[bytes]:
            text = f"import sys; sys.stderr.write({self.LAST_WORDS!r}); sys.exit(3)"
            return real([sys.executable, "-c", text], **options)

        subprocess.Popen = popen  # type: ignore[assignment,misc]
        try:
            super().__init__(
                project,
                size,
                output,
                message,
            )
        finally:
            subprocess.Popen = real  # type: ignore[misc]


def test_no_port_is_opened_and_nothing_is_looked_up(page: Page) -> None:
    page.until(lambda: "Try the sample" in page.text)
    for process in (psutil.Process(), psutil.Process(page.bridge.app.pid)):
        internet = [
            one
            for one in process.net_connections()
            if one.family in (socket.AF_INET, socket.AF_INET6)
        ]
        assert not [one for one in internet if one.status == psutil.CONN_LISTEN]


def test_what_the_page_sends_is_bounded(page: Page) -> None:
    page.until(lambda: "Try the sample" in page.text)
    page.bridge.resize(10**9, -5)
    page.bridge.resize(80, 24)
    page.forget()
    page.until(lambda: "quit" in page.text)
    with pytest.raises((TypeError, ValueError)):
        page.bridge.resize("wide", 3)  # type: ignore[arg-type]
    assert json.dumps(page.bridge.read())
