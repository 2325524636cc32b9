"""Several windows are several apps, and a run outlives the window that it was started from,
however that one ends.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from fixtures.long_training import end_run, lengthen, newest, pid_of, state_of
from fixtures.pipeline import ROOT, environment
from fixtures.screen import SECONDS, Screen, needs_a_display

from engine.core import events
from engine.project import control
from engine.project.folder import ProjectFolder

pytestmark = needs_a_display
READ_WINDOW = ROOT / "tests" / "fixtures" / "read_window.py"


def until(
    reached: Callable[[], object], what: Callable[[], object], seconds: float = 4 * SECONDS
) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, what()
        time.sleep(0.2)


class Window:
    """A window of a process of its own, whose terminal can be read.

    `place`: (left, top, width, height) in pixels.
    """

    def __init__(
        self,
        screen: Screen,
        place: tuple[int, int, int, int],
        project: Path,
    ) -> None:
        self.screen = screen
        self.place = place
        paths = [environment()["PYTHONPATH"], os.environ.get("PYTHONPATH")]
        self.process = subprocess.Popen(
            [sys.executable, str(READ_WINDOW), str(project)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # as a shortcut starts it
            env={
                **environment(),
                "DISPLAY": screen.display,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            },
        )
        until(lambda: self.ids, lambda: "no window came")
        left, top, width, height = map(str, place)
        screen.do(
            "windowmove",
            self.ids[0],
            left,
            top,
            "windowsize",
            self.ids[0],
            width,
            height,
        )
        (self.app,) = (
            one
            for one in psutil.Process(self.process.pid).children()
            if "app_process" in str(one.cmdline())
        )

    @property
    def ids(self) -> list[str]:
        """The windows of its process that are on the display."""
        tool = [
            "xdotool",
            "search",
            "--all",
            "--onlyvisible",
            "--pid",
            str(self.process.pid),
            "--name",
            "^bmembed$",
        ]
        env = {**os.environ, "DISPLAY": self.screen.display}
        return subprocess.run(
            tool, capture_output=True, text=True, check=False, timeout=30, env=env
        ).stdout.split()

    @property
    def lines(self) -> list[str]:
        """What its terminal shows."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [str(line) for line in json.loads(self.process.stdout.readline())]

    def until(self, text: str) -> None:
        until(
            lambda: text in "\n".join(self.lines),
            lambda: "\n".join([f"no {text!r} in", *self.lines]),
        )

    def press(self, *keys: str) -> None:
        self.screen.do(
            "windowfocus",
            "--sync",
            self.ids[0],
            "key",
            "--delay",
            "60",
            *keys,
        )

    def close(self) -> None:
        """As its cross does."""
        self.screen.close(self.ids[0])

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)

    def kill_group(self) -> None:
        """Its process and the app's, as the end of a session does."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def wait_until_gone(self) -> None:
        self.process.wait(SECONDS)
        psutil.wait_procs([self.app], timeout=SECONDS)
        assert not self.app.is_running() or self.app.status() == psutil.STATUS_ZOMBIE
        until(lambda: not self.ids, lambda: "it is still on the display")

    def end(self) -> None:
        """Leave nothing behind, whatever a test did."""
        with suppress(ProcessLookupError):
            self.kill_group()
        self.process.wait(SECONDS)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()


LEFT = (0, 0, 630, 620)
RIGHT = (650, 100, 620, 480)
Opener = Callable[..., Window]


@pytest.fixture
def window(display: str, tmp_path: Path) -> Iterator[Opener]:
    made: list[Window] = []

    def give(project: Path, place: tuple[int, int, int, int] = LEFT) -> Window:
        made.append(Window(Screen(display), place, project))
        return made[-1]

    yield give
    if made:
        made[0].screen.save(tmp_path / "at-the-end.png")
    for one in made:
        one.end()


@pytest.fixture
def handbook(finished_built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished_built, tmp_path / "handbook"))


@pytest.fixture
def at_work(handbook: Path) -> Iterator[Path]:
    yield lengthen(handbook)
    end_run(handbook)


def refused_calls(process: int) -> int:
    """Whether the kernel filters a process's calls: 0 no, 2 by a program."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("Seccomp:")[2].split()[0])


def newest_step(project: Path) -> int:
    log = events.read(newest(project) / "events.jsonl")
    return max((event.step for event, _ in log if isinstance(event, events.TrainStep)), default=0)


def test_two_windows_are_two_apps(
    window: Opener,
    handbook: Path,
    tmp_path: Path,
) -> None:
    one = window(handbook)
    other = window(handbook, RIGHT)
    assert one.app.pid != other.app.pid
    assert refused_calls(one.process.pid) == 2  # a filter keeps it off the network
    assert refused_calls(one.app.pid) == refused_calls(
        os.getpid()
    )  # the engine may be to reach a server on site
    for each in (one, other):
        each.until("documents ·")
        each.until("words or a question")
    sizes = [(max(map(len, each.lines)), len(each.lines)) for each in (one, other)]
    assert sizes[0][1] > sizes[1][1]  # each is drawn for its own window
    other.press("F1")
    other.until("Close")
    one.press(
        "z",
        "e",
        "b",
        "r",
        "a",
    )
    one.until("zebra")
    assert "zebra" not in "".join(other.lines)
    assert "Close" not in "".join(one.lines)
    one.screen.save(tmp_path / "two-windows.png")
    other.close()
    other.wait_until_gone()
    assert one.app.is_running()
    one.press("s")
    one.until("zebras")
    one.press("ctrl+q")
    one.wait_until_gone()
    assert one.process.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("ends", [Window.close, Window.kill, Window.kill_group])
def test_a_run_goes_on_when_its_window_is_gone(
    window: Opener, at_work: Path, tmp_path: Path, ends: Callable[[Window], None]
) -> None:
    first = window(at_work)
    first.until("documents ·")
    before = newest(at_work)
    first.press("ctrl+r")
    until(
        lambda: newest(at_work) != before and (newest(at_work) / "events.jsonl").exists(),
        lambda: first.lines,
    )
    until(lambda: newest_step(at_work) >= 5, lambda: first.lines)
    first.until("running: Train")
    first.screen.save(tmp_path / "run.png")
    run = psutil.Process(pid_of(at_work, "run"))
    ends(first)
    first.wait_until_gone()
    left_at = newest_step(at_work)
    assert (run.is_running(), state_of(at_work)) == (True, "running")
    until(
        lambda: newest_step(at_work) > left_at + 20,
        lambda: "no step was made after the window had gone",
    )
    second = window(at_work)
    second.until("running: Train")
    second.screen.save(tmp_path / "followed.png")
    control.finish(ProjectFolder.open(at_work))
    until(lambda: state_of(at_work) != "running", lambda: second.lines)
    assert state_of(at_work) == "done"
    second.until("documents ·")
    second.screen.save(tmp_path / "finished.png")
    until(lambda: not any("running" in line for line in second.lines), lambda: second.lines)
    done = [
        event.stage
        for event, _ in events.read(newest(at_work) / "events.jsonl")
        if isinstance(event, events.StageFinished)
    ]
    assert done[:3] == [
        "ingest",
        "train",
        "evaluate",
    ]  # nothing is to be embedded where base is served


@pytest.mark.slow
def test_a_run_that_ended_while_no_window_was_open_is_shown_as_done(
    window: Opener, at_work: Path
) -> None:
    first = window(at_work)
    first.until("documents ·")
    first.press("ctrl+r")
    until(
        lambda: state_of(at_work) == "running" and newest_step(at_work) >= 15, lambda: first.lines
    )
    first.close()
    first.wait_until_gone()
    control.finish(ProjectFolder.open(at_work))
    until(lambda: state_of(at_work) != "running", lambda: "the run does not end")
    assert state_of(at_work) == "done"
    second = window(at_work)
    second.until("documents ·")
    assert not any("running" in line or "unexpectedly" in line for line in second.lines)
