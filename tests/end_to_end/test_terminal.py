"""The app as a person meets it: in a real terminal, by keys, from the first start to a hit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from fixtures.fake_endpoint import Raw, serving
from fixtures.long_training import newest
from fixtures.pipeline import ROOT, copy_documents, engine, engine_here
from fixtures.terminal import Terminal, terminal

from engine.core import events
from engine.project.folder import ProjectFolder

QUESTION = "freezer door left open"


def project_of(screen: Terminal, name: str) -> Path:
    return screen.home / "bmembed" / "projects" / name


@pytest.mark.parametrize("size", [(80, 24), pytest.param((200, 60), marks=pytest.mark.slow)])
def test_from_the_first_start_to_a_hit(tmp_path: Path, size: tuple[int, int]) -> None:
    copy_documents(
        tmp_path / "papers",
        ("incidents",),
        20,
    )
    with terminal(tmp_path / "home", size) as screen:
        screen.start()
        assert "Try the sample" in screen.until("New project")
        screen.press("n")
        screen.until("Kept in")
        screen.type(str(tmp_path / "papers"))
        screen.until("papers")
        screen.press_until("Enter", "Read the documents")
        screen.press("Enter")
        screen.until(
            "make search better"
        )  # all is embedded: a run that goes on would be asked about at the end
        screen.type(QUESTION)
        assert ".txt" in screen.until(".txt · line")  # a hit's own path, not only what was typed
        screen.press("Down")
        screen.until("w why")
        screen.press("Enter")
        screen.until("lines in all")
        screen.press("Escape")
        screen.until(" hits · ")
        screen.press("C-q")
        screen.until_ended()
        assert "Traceback" not in screen.screen()
    assert (project_of(screen, "papers") / "project.toml").is_file()


@pytest.mark.parametrize("way", ["line", pytest.param("kill", marks=pytest.mark.slow)])
def test_what_works_for_the_app_alone_ends_with_it(tmp_path: Path, way: str) -> None:
    """A lost line, or `kill`: neither the server of searches nor a sample stays behind."""
    copy_documents(
        tmp_path / "papers",
        ("incidents",),
        3,
    )
    with (
        serving(lambda _request, _number: Raw(wait=threading.Event())) as endpoint,
        terminal(tmp_path / "home") as screen,
    ):
        project = ProjectFolder.create(
            tmp_path / "p",
            {
                "corpus": {"paths": [str(tmp_path / "papers")]},
                "queries": {"backend": "endpoint", "endpoint": endpoint.url},
            },
        )
        engine_here(
            "run",
            str(project.path),
            "--only",
            "ingest,index",
        )
        screen.start(str(project.path))
        screen.until("Keywords only")
        # in the search field a digit is typed, and Escape with a digit right behind it is Alt
        for _ in range(30):
            screen.press("Escape")
            time.sleep(1)
            screen.press("3")
            time.sleep(1)
            if "which gets the" in screen.screen():
                break
        screen.until("which gets the")
        screen.press("s")
        end = time.monotonic() + 60
        while not endpoint.requests and time.monotonic() < end:
            time.sleep(0.1)
        working = processes_of(project.path)
        assert any("sample" in line for line in working.values())
        if way == "line":
            screen.cut()
        else:
            os.kill(
                next(pid for pid, line in working.items() if "bmembed_tui" in line), signal.SIGTERM
            )
        while processes_of(project.path) and time.monotonic() < end:
            time.sleep(0.1)
        assert not processes_of(project.path)


def processes_of(project: Path) -> dict[int, list[str]]:
    """Processes that have the project in their command line, tmux apart."""
    processes = {}
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if str(project) in line and "tmux" not in line[0]:
            processes[process.pid] = line
    return processes


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_sample_through_a_lost_line(tmp_path: Path) -> None:
    """To the first search after training with Enter, and F2, which offers to adapt; the line is
    lost in mid-training, the run goes on and is found again. It is held from outside while the
    app comes back, so that the test does not race with a quick training.
    """
    with terminal(tmp_path / "home") as screen:
        project = project_of(screen, "sample")
        screen.start()
        offers = {
            "Try the sample": "Enter",
            "Read the documents": "Enter",
            "makes search better": "F2",
            "Adapt now": "Enter",
        }
        for text, key in offers.items():
            screen.until(text)
            screen.press(key)
        screen.until(*(f"step {step} of" for step in range(2, 30)), seconds=300)
        screen.cut()

        log = newest(project) / "events.jsonl"
        before = steps_in(log)
        assert before, "the app showed steps that no log holds"
        wait_until(lambda: steps_in(log)[-1] > before[-1], "a step after the line was lost")
        engine("pause", str(project))
        wait_until(lambda: '"event": "paused"' in log.read_text(), "the run is held")
        steps = steps_in(log)
        assert steps == list(range(1, steps[-1] + 1)), "the run began again"

        screen.start()
        screen.until("Go to the run in progress")
        screen.press("Enter")
        screen_text = screen.until(f"step {steps[-1]} of")
        assert "paused" in screen_text
        screen_text = screen.until("┏")  # the curve, also of the steps before the line was lost
        assert "Held-out Hit@10" in screen_text
        engine("resume", str(project))
        screen.until("in percent, ", seconds=900)  # the figures
        assert newest(project) == log.parent
        screen.until("Search       Open report", seconds=300)  # the run is over, and Enter goes on
        screen.press("Enter")
        screen.until("F5 hybrid")
        screen.type(QUESTION)
        screen.until(" · line ")
    report = json.loads(next(project.glob("reports/*/report.json")).read_text())
    assert report["training"]["losses"]


def steps_in(log: Path) -> list[int]:
    """The steps of training in a run's log."""
    return [event.step for event, _ in events.read(log) if isinstance(event, events.TrainStep)]


def wait_until(
    true: Callable[[], object],
    what: str,
    seconds: float = 120,
) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"it did not come to this: {what}"
        time.sleep(0.1)


def test_without_a_terminal_there_is_an_error() -> None:
    command = [sys.executable, "-m", "bmembed_tui"]
    completed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert completed.returncode == 2
    assert completed.stderr.startswith("Error: ")
    assert "Traceback" not in completed.stderr
