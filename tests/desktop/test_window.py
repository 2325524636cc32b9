"""The window itself, on a display of its own and without a network."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from fixtures.pipeline import environment
from numpy.typing import NDArray

NEEDED = [name for name in ("webview", "PySide6", "textual_serve", "PIL") if importlib.util.find_spec(name) is None]
TOOLS = [name for name in ("Xvfb", "xdotool", "xclip", "unshare") if shutil.which(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(NEEDED or TOOLS), reason=f"not installed here: {', '.join(NEEDED + TOOLS)}"),
]
SECONDS = 60.0
CLOSE = """
import ctypes, sys
x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
x.XInternAtom.restype = ctypes.c_ulong
class Message(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("serial", ctypes.c_ulong), ("sent", ctypes.c_int), ("display", ctypes.c_void_p),
                ("window", ctypes.c_ulong), ("kind", ctypes.c_ulong), ("format", ctypes.c_int), ("data", ctypes.c_long * 20)]
display = ctypes.c_void_p(x.XOpenDisplay(None))
window = ctypes.c_ulong(int(sys.argv[1]))
protocols, delete = (x.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
message = Message(33, 0, 1, display, window, protocols, 32)
message.data[0] = delete
x.XSendEvent(display, window, 0, 0, ctypes.byref(message))
x.XFlush(display)
x.XCloseDisplay(display)
"""
HIGHLIGHT = (0x5F, 0xA8, 0xD3)  # the chosen line of the first screen
PANEL = (0x20, 0x2C, 0x38)  # a dialog
DRAG = """
import sys
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDrag
from PySide6.QtWidgets import QApplication, QLabel
class Folder(QLabel):
    def mouseMoveEvent(self, event):
        data, drag = QMimeData(), QDrag(self)
        data.setUrls([QUrl.fromLocalFile(sys.argv[1])])
        drag.setMimeData(data)
        drag.exec(Qt.DropAction.CopyAction | Qt.DropAction.MoveAction)  # as managers of files offer
app = QApplication([])
folder = Folder("a folder")
folder.setGeometry(0, 760, 120, 40)
folder.setWindowTitle("a folder to drag")
folder.show()
app.exec()
"""


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1280x800x24", "-nolisten", "tcp", "-noreset"],
        pass_fds=[write], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as number:
        name = f":{number.readline().strip()}"
    yield name
    server.terminate()
    server.wait()


class Screen:
    """What a user sees and does on a display."""

    def __init__(self, display: str) -> None:
        self.display = display

    def picture(self) -> NDArray[np.int64]:
        """All of the screen: (rows, columns, 3)."""
        from PIL import ImageGrab

        return np.asarray(ImageGrab.grab(xdisplay=self.display).convert("RGB")).astype(np.int64)

    def share(self, colour: tuple[int, int, int]) -> float:
        """Part of the screen that has a colour, more or less."""
        return float((np.abs(self.picture() - np.array(colour)).max(axis=2) < 4).mean())

    def differs(self, before: NDArray[np.int64]) -> float:
        """Part of the screen that was another colour."""
        return float((self.picture() != before).any(axis=2).mean())

    def until(self, reached: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + SECONDS
        while not reached():
            assert time.monotonic() < end, what
            time.sleep(0.2)

    def do(self, *arguments: str) -> str:
        return subprocess.run(
            ["xdotool", *arguments], capture_output=True, text=True, check=True, timeout=30,
            env={**os.environ, "DISPLAY": self.display},
        ).stdout  # fmt: skip

    def keys(self, *names: str) -> None:
        self.do("windowfocus", self.window(), "key", *names)

    def found(self, name: str) -> list[str]:
        tool = ["xdotool", "search", "--onlyvisible", "--name", name]
        env = {**os.environ, "DISPLAY": self.display}
        return subprocess.run(tool, capture_output=True, text=True, check=False, timeout=30, env=env).stdout.split()

    def window(self) -> str:
        return self.found("^bmembed$")[-1]

    def close(self) -> None:
        """What the cross of a window does: its window manager asks it to close. Here there is none."""
        subprocess.run(
            [sys.executable, "-c", CLOSE, self.window()], check=True, timeout=30,
            env={**os.environ, "DISPLAY": self.display},
        )  # fmt: skip

    def clipboard(self, text: str | None = None) -> str:
        env = {**os.environ, "DISPLAY": self.display}
        if text is not None:
            subprocess.run(["xclip", "-selection", "clipboard"], input=text.encode(), env=env, check=True, timeout=10)
            return text
        command = ["xclip", "-o", "-selection", "clipboard"]
        return subprocess.run(command, capture_output=True, env=env, timeout=10, check=False).stdout.decode()


@pytest.fixture
def opened(display: str, tmp_path: Path) -> Iterator[tuple[Screen, subprocess.Popen[bytes]]]:
    """A window on a display, in a network of its own that leads nowhere."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network of one's own can be had here")
    paths = [environment()["PYTHONPATH"], os.environ.get("PYTHONPATH")]
    log = (tmp_path / "window.log").open("wb")
    child = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-m", "bmembed_tui.desktop"],
        env={**environment(), "DISPLAY": display, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        stdout=log, stderr=log,
    )  # fmt: skip
    screen = Screen(display)
    try:
        screen.until(lambda: child.poll() is not None or screen.share(HIGHLIGHT) > 0.01, "nothing is shown")
        assert child.poll() is None, (tmp_path / "window.log").read_text("utf-8", "replace")
        yield screen, child
    finally:
        child.terminate()
        child.wait(SECONDS)
        log.close()
        screen.until(lambda: screen.share(PANEL) + screen.share(HIGHLIGHT) < 0.001, "the window is still there")


def test_an_input_method_and_what_the_page_cannot_do(display: str, tmp_path: Path) -> None:
    fixture = Path(__file__).parents[1] / "fixtures" / "in_window.py"
    paths = [environment()["PYTHONPATH"], os.environ.get("PYTHONPATH")]
    done = subprocess.run(
        [sys.executable, str(fixture)], capture_output=True, text=True, check=True, timeout=4 * SECONDS,
        env={**environment(), "DISPLAY": display, "HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )  # fmt: skip
    assert json.loads(done.stdout) == {
        "while_composing": "",
        "typed": "日本é",
        "started": False,
        "reached": False,
        "offered": ["copy", "focus", "pick_folder", "read", "resize", "type"],
    }


def of_the_app(child: subprocess.Popen[bytes]) -> list[psutil.Process]:
    processes = psutil.Process(child.pid).children(recursive=True)
    return [one for one in processes if "bmembed_tui.window.app_process" in one.cmdline()]


def test_it_opens_without_a_network_takes_keys_and_closes(
    opened: tuple[Screen, subprocess.Popen[bytes]],
) -> None:
    screen, child = opened
    (app,) = of_the_app(child)
    everything = [psutil.Process(child.pid), *psutil.Process(child.pid).children(recursive=True)]
    assert not [one for process in everything for one in process.net_connections("inet")]
    screen.keys("o")
    screen.until(lambda: screen.share(PANEL) > 0.1, "no dialog came")
    screen.do("windowsize", screen.window(), "700", "500")
    screen.until(lambda: 0.02 < screen.share(PANEL) < 0.25, "the dialog keeps its size")
    screen.keys("Escape")
    screen.until(lambda: screen.share(HIGHLIGHT) > 0.005, "the dialog stays")
    screen.keys("ctrl+q")
    assert child.wait(SECONDS) == 0
    assert not app.is_running()


def test_the_clipboard_both_ways(opened: tuple[Screen, subprocess.Popen[bytes]]) -> None:
    screen, _ = opened
    screen.clipboard("nothing yet")
    screen.keys("F12")
    screen.until(lambda: screen.share(PANEL) > 0.2, "no diagnostics came")
    screen.until(lambda: (screen.keys("c"), "bmembed" in screen.clipboard())[1], "nothing was copied")
    screen.keys("Escape")
    screen.until(lambda: screen.share(PANEL) < 0.1 and screen.share(HIGHLIGHT) > 0.01, "the diagnostics stay")
    screen.keys("o")
    screen.until(lambda: screen.share(PANEL) > 0.1, "no dialog came")
    screen.clipboard("/a folder/é 東京")
    screen.keys("ctrl+v")
    time.sleep(1)
    screen.clipboard("something else")
    screen.until(
        lambda: (screen.keys("End", "shift+Home", "ctrl+c"), screen.clipboard())[1] == "/a folder/é 東京",
        "what was pasted is not in the field",
    )


def test_the_mouse_and_the_size_of_letters(opened: tuple[Screen, subprocess.Popen[bytes]]) -> None:
    screen, _ = opened
    before, picture = screen.share(HIGHLIGHT), screen.picture()
    screen.keys("ctrl+plus", "ctrl+plus", "ctrl+plus", "ctrl+plus")
    screen.until(lambda: screen.share(HIGHLIGHT) > 1.15 * before, "the letters do not grow")
    assert screen.differs(picture) > 0.05
    screen.keys("ctrl+0")
    screen.until(lambda: screen.differs(picture) < 0.02, "the letters keep their size")
    time.sleep(1)
    screen.do("mousemove", "--window", screen.window(), "300", "290", "click", "1")  # the third line, a folder's dialog
    screen.until(lambda: screen.share(PANEL) > 0.1, "a click does nothing")


def test_the_systems_own_dialog(opened: tuple[Screen, subprocess.Popen[bytes]], tmp_path: Path) -> None:
    screen, _ = opened
    (tmp_path / "chosen").mkdir()
    screen.keys("o")
    screen.until(lambda: screen.share(PANEL) > 0.1, "no dialog came")
    screen.keys("slash", "x", "shift+Tab", "shift+Tab", "shift+Tab", "Return")  # to "Browse …"
    screen.until(lambda: bool(screen.found("^Open folder$")), "the system's dialog did not come")
    screen.do("windowfocus", "--sync", screen.found("^Open folder$")[-1], "type", str(tmp_path / "chosen"))
    screen.do("key", "Return")
    screen.until(lambda: not screen.found("^Open folder$"), "the system's dialog stays")
    screen.until(
        lambda: (screen.keys("End", "shift+Home", "ctrl+c"), screen.clipboard())[1] == str(tmp_path / "chosen"),
        "what was chosen is not in the field",
    )


def test_a_folder_is_dropped_on_the_window(opened: tuple[Screen, subprocess.Popen[bytes]], tmp_path: Path) -> None:
    screen, _ = opened
    screen.keys("o")
    screen.until(lambda: screen.share(PANEL) > 0.1, "no dialog came")
    (tmp_path / "to be dropped").mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", DRAG, str(tmp_path / "to be dropped")],
        env={**os.environ, "DISPLAY": screen.display}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        screen.until(lambda: bool(screen.found("a folder to drag")), "the folder to drag is not shown")
        screen.do("mousemove", "40", "780", "mousedown", "1")
        for step in range(12):
            screen.do("mousemove", str(60 + 40 * step), str(775 - 30 * step), "sleep", "0.1")
        screen.do("mouseup", "1")
        screen.until(
            lambda: (
                (screen.keys("End", "shift+Home", "ctrl+c"), screen.clipboard())[1] == str(tmp_path / "to be dropped")
            ),
            "what was dropped is not in the field",
        )
    finally:
        holder.terminate()
        holder.wait()


def test_closing_the_window_ends_the_app_behind_it(opened: tuple[Screen, subprocess.Popen[bytes]]) -> None:
    screen, child = opened
    (app,) = of_the_app(child)
    screen.close()
    child.wait(SECONDS)
    psutil.wait_procs([app], timeout=SECONDS)
    assert not app.is_running()
