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
from fixtures.app import drive, until, until_text
from fixtures.pipeline import ROOT, environment
from textual.pilot import Pilot
from textual.widgets import Input

from bmembed_tui.client.run_state import RunState
from bmembed_tui.client.run_watch import (
    BATCH_BYTES,
    LogReader,
    RunWatch,
    error_of,
    newest_run,
    run_record,
    worth_decoding,
)
from bmembed_tui.project.screen import ProjectScreen
from bmembed_tui.steps.index.pane import IndexPane
from bmembed_tui.steps.train.pane import TrainPane
from engine.core.errors import StageError
from engine.core.events import Event, EventLog, Progress, RunFinished, RunStarted, TrainStep, Warned, encode


def progress(done: int) -> Progress:
    return Progress(stage="rank", done=done, total=9, unit="queries")


def step(number: int) -> TrainStep:
    return TrainStep(
        step=number, steps=9, loss=1.0, learning_rate=0.1, tokens_per_second=1.0, memory_mb=1.0, seconds_left=1.0
    )


def append(path: Path, *events: Event) -> None:
    log = EventLog(path)
    for event in events:
        log(event)
    log.close()


def test_a_log_is_read_in_parts_and_a_torn_line_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    log = LogReader(path)
    assert log.batch() == ([], 0, False)
    append(path, RunStarted(run="r", stages=["rank"]))
    line = encode(progress(3))
    with path.open("a") as file:
        file.write(line[:20])
    events, count, more = log.batch()
    assert (len(events), count, more) == (1, 1, False)
    with path.open("a") as file:
        file.write(line[20:] + "\nno event\n")
    assert log.batch() == ([progress(3)], 1, False)
    assert log.batch() == ([], 0, False)


def test_a_line_longer_than_a_batch_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    long = Warned(stage="rank", text="x" * (3 * BATCH_BYTES))
    append(path, progress(1), long, progress(2))
    log, found, counted = LogReader(path), list[Event](), 0
    while True:
        events, count, more = log.batch()
        found += events
        counted += count
        if not more:
            break
    assert found == [progress(1), long, progress(2)]
    assert counted == 3


def test_replaced_progress_is_counted_but_not_decoded(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append(
        path,
        *(progress(n) for n in range(500)),
        *(step(n) for n in range(1, 2001)),
        progress(7),
        Warned(stage="a", text="b"),
    )
    log, found, counted = LogReader(path), list[Event](), 0
    more = True
    while more:
        events, count, more = log.batch()
        found += events
        counted += count
    assert counted == 2502
    assert len(found) < 700
    kept = [event.step for event in found if isinstance(event, TrainStep)]
    assert (len(kept) > 200, kept[-1], kept == sorted(kept)) == (True, 2000, True)
    assert found[-2:] == [progress(7), Warned(stage="a", text="b")]
    assert progress(499) in found


@pytest.mark.parametrize("count", [1, 2, 249, 250, 251, 1000])
def test_lines_stand_for_all_that_were_left_out(count: int) -> None:
    for event in (progress(1), step(1), Warned(stage="a", text="b")):
        lines = [encode(event).encode()] * count
        assert sum(number for _, number in worth_decoding(lines)) == count
    lines = [encode(step(n)).encode() for n in range(count)]
    assert list(worth_decoding(lines))[-1][0] == lines[-1]


def test_a_log_that_is_a_folder_has_no_events(tmp_path: Path) -> None:
    assert LogReader(tmp_path).batch() == ([], 0, False)


def test_the_history_is_told_at_once_and_then_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    append(path, RunStarted(run="r", stages=["train"]), *(Warned(stage="train", text="x" * 200) for _ in range(5000)))

    async def follow() -> tuple[int, list[int], str]:
        calls: list[int] = []
        watch = RunWatch(tmp_path, lambda state: calls.append(state.events))
        watch.start()
        while not calls:
            await asyncio.sleep(0.01)
        first = calls[0]
        append(path, RunFinished(run="r", state="done", seconds=1.0))
        while not watch.state.over:
            await asyncio.sleep(0.01)
        assert watch._task is not None
        await asyncio.wait_for(watch._task, 20)  # it ends with the run
        return first, calls, watch.state.state

    first, calls, state = asyncio.run(follow())
    assert first == 5001
    assert (calls[-1], state) == (5002, "done")


def test_catching_up_reads_what_is_written_by_now(tmp_path: Path) -> None:
    append(
        tmp_path / "events.jsonl",
        RunStarted(run="r", stages=[]),
        *(Warned(stage="a", text="x" * 999) for _ in range(900)),
    )

    async def follow() -> RunState:
        watch = RunWatch(tmp_path, lambda _: None)
        await watch.catch_up()
        return watch.state

    assert asyncio.run(follow()).events == 901


def test_a_batch_is_not_lost_when_nobody_waits_for_it_any_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(tmp_path / "events.jsonl", RunStarted(run="r", stages=[]), RunFinished(run="r", state="done", seconds=1.0))
    read, begun, may_end = LogReader.batch, threading.Event(), threading.Event()

    def slow(self: LogReader) -> tuple[list[Event], int, bool]:
        found = read(self)
        begun.set()
        may_end.wait(20)
        return found

    monkeypatch.setattr(LogReader, "batch", slow)

    async def follow() -> str:
        watch = RunWatch(tmp_path, lambda _: None)
        task = asyncio.create_task(watch.catch_up())
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        may_end.set()
        await asyncio.wait([task])
        await watch.catch_up()
        return watch.state.state

    assert asyncio.run(follow()) == "done"


def test_what_was_caught_up_with_is_told_too(tmp_path: Path) -> None:
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
        assert watch._task is not None
        await asyncio.wait_for(watch._task, 20)
        return told

    assert asyncio.run(follow()) == ["running", "failed"]


def test_records_of_runs(tmp_path: Path) -> None:
    assert newest_run(tmp_path) is None
    for name in ("20260101-1", "20260102-1"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    newest = newest_run(tmp_path)
    assert newest is not None
    assert newest.name == "20260102-1"
    assert (run_record(newest), error_of(newest)) == ({}, None)
    (newest / "run.json").write_text("[1]")
    assert run_record(newest) == {}
    error = {"type": "StageError", "what": "w", "why": "", "to_do": ""}
    (newest / "run.json").write_text(json.dumps({"state": "failed", "error": error}))
    found = error_of(newest)
    assert found is not None
    assert (type(found), found.what) == (StageError, "w")


def test_two_thousand_events_a_second_are_counted_and_shown_a_few_times(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[float] = []
    for pane in (IndexPane, TrainPane):
        former = pane.show_run

        def counted(self: Any, state: RunState, former: Any = former) -> None:
            shown.append(time.monotonic())
            former(self, state)

        monkeypatch.setattr(pane, "show_run", counted)
    text = "the freezer door was left open "

    async def story(pilot: Pilot[Any]) -> tuple[int, int, str]:
        await until(pilot, lambda: isinstance(pilot.app.screen, ProjectScreen) and pilot.app.screen.pane is not None)
        screen = pilot.app.screen
        assert isinstance(screen, ProjectScreen)
        screen.go("index")
        await until(pilot, lambda: screen.run_state.over, "the history")
        await until_text(pilot, "t try BM25")
        await pilot.press("t")
        field = screen.query_one("#index-query", Input)
        await until(pilot, lambda: screen.focused is field)
        shown.clear()
        writer = subprocess.Popen(
            [sys.executable, str(ROOT / "tests" / "fixtures" / "flood.py"), str(finished_project), "2000", "3"],
            stdout=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        await until(pilot, lambda: screen.run_state.running, "the run to be noticed")
        typed = ""
        while writer.poll() is None:
            key = text[len(typed) % len(text)]
            await pilot.press("space" if key == " " else key)
            typed += key
            await pilot.pause(0.02)
        assert field.value == typed
        assert typed
        await until(pilot, lambda: screen.run_state.over, "the end of the run")
        assert writer.stdout is not None
        return int(writer.stdout.read()), screen.run_state.events, screen.run_state.state

    written, events, state = drive(story, finished_project)
    assert (written, state) == (6004, "done")
    assert events == written
    assert len(shown) >= 3
    busiest = max(sum(start <= one < start + 1.0 for one in shown) for start in shown)
    assert busiest <= 6, shown
