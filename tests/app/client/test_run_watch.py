"""Following an event log: batches, torn lines, floods."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from fixtures.app import drive, until
from fixtures.pipeline import ROOT, environment
from fixtures.training_events import step
from textual.pilot import Pilot
from textual.widgets import Input

from bmembed_tui.client.run_state import RunState
from bmembed_tui.client.run_watch import (
    BATCH_BYTES,
    LogReader,
    RunWatch,
    drop_superseded_lines,
    find_newest_run,
    read_run_error,
)
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.search.pane import SearchPane
from engine.core.errors import StageError
from engine.core.events import (
    Event,
    EventLog,
    Progress,
    RunFinished,
    RunStarted,
    TrainStep,
    Warned,
    encode,
)
from engine.project.folder import ProjectFolder


def progress(done: int) -> Progress:
    return Progress(
        stage="rank",
        done=done,
        total=9,
        unit="queries",
    )


def done(state: RunState) -> int:
    found = state.stage("rank").progress
    return found.done if found else 0


def append(path: Path, *events: Event) -> None:
    log = EventLog(path)
    for event in events:
        log(event)
    log.close()


def test_a_log_is_read_in_parts_and_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = LogReader(path)
    assert log.read_batch() == ([], False)
    append(path, RunStarted(run="r", stages=["rank"]))
    line = encode(progress(3))
    with path.open("a") as file:
        file.write(line[:20])
    events, more = log.read_batch()
    assert (len(events), more) == (1, False)
    with path.open("a") as file:
        file.write(line[20:] + "\nno event\n")
    assert log.read_batch() == ([progress(3)], False)
    assert log.read_batch() == ([], False)


def test_a_line_longer_than_a_batch_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    long = Warned(stage="rank", text="x" * (3 * BATCH_BYTES))
    append(
        path,
        progress(1),
        long,
        progress(2),
    )
    assert list(LogReader(path).read_rest()) == [progress(1), long, progress(2)]


def test_replaced_progress_is_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append(
        path,
        *(progress(n) for n in range(500)),
        *(step(n) for n in range(1, 2001)),
        progress(7),
        Warned(stage="a", text="b"),
    )
    found = list(LogReader(path).read_rest())
    assert len(found) < 700
    kept = [event.step for event in found if isinstance(event, TrainStep)]
    assert (len(kept) > 200, kept[-1], kept == sorted(kept)) == (True, 2000, True)
    assert found[-2:] == [progress(7), Warned(stage="a", text="b")]
    assert progress(499) in found


@pytest.mark.parametrize("count", [1, 2, 249, 250, 251, 1000])
def test_the_last_of_the_same_is_always_kept(count: int) -> None:
    for event in (progress, step):
        lines = [encode(event(n)).encode() for n in range(count)]
        assert list(drop_superseded_lines(lines))[-1] == lines[-1]
    lines = [encode(Warned(stage="a", text=str(n))).encode() for n in range(count)]
    assert list(drop_superseded_lines(lines)) == lines


def test_a_log_that_is_a_folder_has_no_events(tmp_path: Path) -> None:
    assert LogReader(tmp_path).read_batch() == ([], False)


def test_the_history_is_reported_at_once_and_then_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append(
        path,
        RunStarted(run="r", stages=["train"]),
        *(Warned(stage="train", text="x" * 2**14) for _ in range(50)),
    )
    append(path, progress(7))

    async def follow() -> tuple[int, list[int], str]:
        calls: list[int] = []
        watch = RunWatch(tmp_path, lambda state: calls.append(done(state)))
        watch.start()
        while not calls:
            await asyncio.sleep(0.01)
        first = calls[0]
        append(
            path,
            progress(8),
            RunFinished(run="r", state="done", seconds=1.0),
        )
        while calls[-1] != 8:
            await asyncio.sleep(0.01)
        return first, calls, watch.state.state

    assert asyncio.run(follow()) == (7, [7, 8], "done")


def test_catching_up_reads_what_is_written_by_now(tmp_path: Path) -> None:
    append(
        tmp_path / "events.jsonl",
        RunStarted(run="r", stages=[]),
        *(Warned(stage="a", text="x" * 999) for _ in range(900)),
        progress(9),
    )

    async def follow() -> RunState:
        watch = RunWatch(tmp_path, lambda _: None)
        await watch.catch_up()
        return watch.state

    assert done(asyncio.run(follow())) == 9


def test_a_batch_is_not_lost_when_nobody_waits_for_it_any_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(
        tmp_path / "events.jsonl",
        RunStarted(run="r", stages=[]),
        RunFinished(run="r", state="done", seconds=1.0),
    )
    read = LogReader.read_batch
    begun = threading.Event()
    may_end = threading.Event()

    def slow(self: LogReader) -> tuple[list[Event], bool]:
        found = read(self)
        begun.set()
        may_end.wait(60)
        return found

    monkeypatch.setattr(LogReader, "read_batch", slow)

    async def follow() -> str:
        watch = RunWatch(tmp_path, lambda _: None)
        task = asyncio.create_task(watch.catch_up())
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        may_end.set()
        await asyncio.wait([task])
        await watch.catch_up()
        return watch.state.state

    assert asyncio.run(follow()) == "done"


def test_what_was_caught_up_with_is_reported_too(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append(path, RunStarted(run="r", stages=[]))

    async def follow() -> list[str]:
        told: list[str] = []
        watch = RunWatch(tmp_path, lambda state: told.append(state.state))
        watch.start()
        while not told:
            await asyncio.sleep(0.01)
        append(path, RunFinished(run="r", state="failed", seconds=1.0))
        await watch.catch_up()  # before it is the turn of the one that follows
        while told[-1] != "failed":
            await asyncio.sleep(0.01)
        return told

    assert asyncio.run(follow()) == ["running", "failed"]


def test_records_of_runs(tmp_path: Path) -> None:
    assert find_newest_run(tmp_path) is None
    for name in ("20260101-1", "20260102-1"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    newest = find_newest_run(tmp_path)
    assert newest is not None
    assert newest.name == "20260102-1"
    project = ProjectFolder(tmp_path)
    assert read_run_error(project, newest) is None
    (newest / "run.json").write_text("[1]")
    assert read_run_error(project, newest) is None
    error = {
        "type": "StageError",
        "what": "w",
        "why": "",
        "to_do": "",
    }
    (newest / "run.json").write_text(
        json.dumps({"run": newest.name, "state": "failed", "error": error})
    )
    assert read_run_error(project, newest.parent / "20260101-1") is None
    found = read_run_error(project, newest)
    assert found is not None
    assert (type(found), found.what) == (StageError, "w")


@pytest.mark.flaky(
    reruns=1, reason="it counts how often a second the screen is drawn while keys are pressed"
)
def test_two_thousand_events_a_second_are_shown_a_few_times(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[float] = []
    former = SearchPane.show_run

    def counted(self: SearchPane, state: RunState) -> None:
        shown.append(time.monotonic())
        former(self, state)

    monkeypatch.setattr(SearchPane, "show_run", counted)
    text = "the freezer door was left open "

    async def story(pilot: Pilot[Any]) -> RunState:
        await until(
            pilot,
            lambda: (
                isinstance(pilot.app.screen, ProjectScreen) and pilot.app.screen.pane is not None
            ),
        )
        screen = pilot.app.screen
        assert isinstance(screen, ProjectScreen)
        screen.go("search")
        await until(
            pilot,
            lambda: screen.run_state.over and screen.is_at("search"),
            "the history",
        )
        field = screen.query_one("#search-query", Input)
        await until(pilot, lambda: screen.focused is field)
        shown.clear()
        writer = subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "tests" / "fixtures" / "flood.py"),
                str(finished_project),
                "2000",
                "3",
            ],
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        await until(
            pilot,
            lambda: screen.run_state.running,
            "the run to be noticed",
        )
        typed = ""
        while writer.poll() is None:
            key = text[len(typed) % len(text)]
            await pilot.press("space" if key == " " else key)
            typed += key
            await pilot.pause(0.02)
        assert field.value == typed
        assert typed
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the end of the run",
        )
        assert writer.stdout is not None
        assert int(writer.stdout.read()) == 6004
        return screen.run_state

    state = drive(story, finished_project)
    assert (state.state, state.steps[-1].step, state.held_out[-1].step) == ("done", 5998, 6000)
    progress = state.stages["train"].progress
    assert progress is not None
    assert progress.done == 5999
    assert len(shown) >= 3
    busiest = max(sum(start <= one < start + 1.0 for one in shown) for start in shown)
    assert busiest <= 6, shown
