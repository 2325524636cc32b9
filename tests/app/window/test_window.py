"""The window itself, on a display of its own and without a network."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from fixtures.pipeline import environment
from fixtures.screen import HIGHLIGHT, PANEL, SECONDS, Screen, needs_a_display

pytestmark = needs_a_display
slow = pytest.mark.slow
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


@pytest.fixture
def opened(display: str, tmp_path: Path) -> Iterator[tuple[Screen, subprocess.Popen[bytes]]]:
    """A window on a display, in a network of its own that leads nowhere."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network of one's own can be had here")
    paths = [environment()["PYTHONPATH"], os.environ.get("PYTHONPATH")]
    log = (tmp_path / "window.log").open("wb")
    child = subprocess.Popen(
        ["unshare", "-n", sys.executable, "-m", "bmembed_tui.window.desktop"],
        env={
            **environment(),
            "DISPLAY": display,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        },
        stdout=log,
        stderr=log,
    )
    screen = Screen(display)
    try:
        screen.until(
            lambda: child.poll() is not None or screen.share(HIGHLIGHT) > 0.01, "nothing is shown"
        )
        assert child.poll() is None, (tmp_path / "window.log").read_text("utf-8", "replace")
        yield screen, child
    finally:
        child.terminate()
        child.wait(SECONDS)
        log.close()
        screen.until(
            lambda: screen.share(PANEL) + screen.share(HIGHLIGHT) < 0.001,
            "the window is still there",
        )


def test_an_input_method_a_paste_and_what_the_page_cannot_do(display: str, tmp_path: Path) -> None:
    fixture = Path(__file__).parents[2] / "fixtures" / "in_window.py"
    paths = [environment()["PYTHONPATH"], os.environ.get("PYTHONPATH")]
    done = subprocess.run(
        [sys.executable, str(fixture)],
        capture_output=True,
        text=True,
        check=True,
        timeout=4 * SECONDS,
        env={
            **environment(),
            "DISPLAY": display,
            "HOME": str(tmp_path),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        },
    )
    assert json.loads(done.stdout) == {
        "while_composing": "",
        "typed": "日本é",
        "pasted": "\x1b[200~ab[201~1m\tc\ré\x1b[201~",
        "started": False,
        "reached": [],
        "udp": False,
        "moved": False,
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
    screen.do(
        "windowsize",
        screen.window(),
        "700",
        "500",
    )
    screen.until(lambda: 0.02 < screen.share(PANEL) < 0.25, "the dialog keeps its size")
    screen.keys("Escape")
    screen.until(lambda: screen.share(HIGHLIGHT) > 0.005, "the dialog stays")
    screen.keys("ctrl+q")
    assert child.wait(SECONDS) == 0
    assert not app.is_running()


@slow
def test_the_clipboard_both_ways(opened: tuple[Screen, subprocess.Popen[bytes]]) -> None:
    screen, _ = opened
    screen.clipboard("nothing yet")
    screen.keys("F12")
    screen.until(lambda: screen.share(PANEL) > 0.2, "no diagnostics came")
    screen.until(
        lambda: (screen.keys("c"), "bmembed" in screen.clipboard())[1], "nothing was copied"
    )
    screen.keys("Escape")
    screen.until(
        lambda: screen.share(PANEL) < 0.1 and screen.share(HIGHLIGHT) > 0.01, "the diagnostics stay"
    )
    screen.keys("o")
    screen.until(lambda: screen.share(PANEL) > 0.1, "no dialog came")
    screen.clipboard("/a folder/é 東京")
    screen.keys("ctrl+v")
    time.sleep(1)
    screen.clipboard("something else")
    screen.until(
        lambda: (
            (screen.keys("End", "shift+Home", "ctrl+c"), screen.clipboard())[1]
            == "/a folder/é 東京"
        ),
        "what was pasted is not in the field",
    )


@slow
def test_the_mouse_and_the_size_of_letters(opened: tuple[Screen, subprocess.Popen[bytes]]) -> None:
    screen, _ = opened
    before = screen.share(HIGHLIGHT)
    picture = screen.picture()
    screen.keys(
        "ctrl+plus",
        "ctrl+plus",
        "ctrl+plus",
        "ctrl+plus",
    )
    screen.until(lambda: screen.share(HIGHLIGHT) > 1.15 * before, "the letters do not grow")
    assert screen.differs(picture) > 0.05
    screen.keys("ctrl+0")
    screen.until(lambda: screen.differs(picture) < 0.02, "the letters keep their size")
    time.sleep(1)
    screen.do(
        "mousemove", "--window", screen.window(), "300", "290", "click", "1"
    )  # the third line, a folder's dialog
    screen.until(lambda: screen.share(PANEL) > 0.1, "a click does nothing")


@slow
def test_in_the_light_theme_nothing_dark_is_left_around_the_terminal(
    opened: tuple[Screen, subprocess.Popen[bytes]],
) -> None:
    screen, _ = opened
    dark = (0x12, 0x18, 0x1F)
    light = (0xF7, 0xF8, 0xFA)
    screen.do("windowsize", screen.window(), "701", "507")  # a rim at the right and at the bottom
    screen.keys("ctrl+t")
    try:
        screen.until(lambda: screen.share(light) > 0.1, "the theme stays")
        screen.until(lambda: screen.share(dark) < 0.0001, "the rim stays dark")
    finally:
        screen.keys("ctrl+t")
        screen.until(lambda: screen.share(light) < 0.01, "the theme stays light")


@slow
def test_the_systems_own_dialog(
    opened: tuple[Screen, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    screen, _ = opened
    (tmp_path / "chosen").mkdir()
    screen.keys("o")
    screen.until(lambda: screen.share(PANEL) > 0.1, "no dialog came")
    screen.keys("slash", "x", "shift+Tab", "shift+Tab", "shift+Tab", "Return")  # to "Browse …"
    screen.until(lambda: bool(screen.found("^Open folder$")), "the system's dialog did not come")
    screen.do(
        "windowfocus", "--sync", screen.found("^Open folder$")[-1], "type", str(tmp_path / "chosen")
    )
    screen.do("key", "Return")
    screen.until(lambda: not screen.found("^Open folder$"), "the system's dialog stays")
    screen.until(
        lambda: (
            (screen.keys("End", "shift+Home", "ctrl+c"), screen.clipboard())[1]
            == str(tmp_path / "chosen")
        ),
        "what was chosen is not in the field",
    )


@slow
def test_a_folder_is_dropped_on_the_window(
    opened: tuple[Screen, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    screen, _ = opened
    screen.keys("o")
    screen.until(lambda: screen.share(PANEL) > 0.1, "no dialog came")
    (tmp_path / "to be dropped").mkdir()
    holder = subprocess.Popen(
        [sys.executable, "-c", DRAG, str(tmp_path / "to be dropped")],
        env={**os.environ, "DISPLAY": screen.display},
        stderr=subprocess.DEVNULL,
    )
    try:
        screen.until(
            lambda: bool(screen.found("a folder to drag")), "the folder to drag is not shown"
        )
        screen.do(
            "mousemove",
            "40",
            "780",
            "mousedown",
            "1",
        )
        for step in range(12):
            screen.do(
                "mousemove",
                str(60 + 40 * step),
                str(775 - 30 * step),
                "sleep",
                "0.1",
            )
        screen.do("mouseup", "1")
        screen.until(
            lambda: (
                (screen.keys("End", "shift+Home", "ctrl+c"), screen.clipboard())[1]
                == str(tmp_path / "to be dropped")
            ),
            "what was dropped is not in the field",
        )
    finally:
        holder.terminate()
        holder.wait()


@slow
def test_closing_the_window_ends_the_app_behind_it(
    opened: tuple[Screen, subprocess.Popen[bytes]],
) -> None:
    screen, child = opened
    (app,) = of_the_app(child)
    screen.close()
    child.wait(SECONDS)
    psutil.wait_procs([app], timeout=SECONDS)
    assert not app.is_running()
