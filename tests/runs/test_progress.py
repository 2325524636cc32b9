"""What `engine status` says of a run that goes on, and of a training that waits to be resumed."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.shown_numbers import numbers
from fixtures.training_events import step

from engine.cli.status_text import Status, format_status
from engine.core import events
from engine.core.messages.project import RunRecord, StageState
from engine.core.platforms.processes import quote_argument
from engine.runs.progress import ResumePoint, RunProgress, read_progress
from engine.training.checkpoint import newest_step

STEP = step(
    40,
    0.7319,
    200,
    95.0,
)


@pytest.fixture
def log(tmp_path: Path) -> events.EventLog:
    return events.EventLog(tmp_path / "events.jsonl")


def test_a_run_that_has_reported_nothing_yet(tmp_path: Path) -> None:
    assert read_progress(tmp_path) == RunProgress()


def test_each_stage_starts_again_at_zero(tmp_path: Path, log: events.EventLog) -> None:
    log(events.StageStarted(stage="rank", fingerprint="f", reason="not built yet"))
    log(events.Progress(stage="rank", done=30, total=300, unit="queries"))
    assert read_progress(tmp_path) == RunProgress("rank", "", 30, 300, "queries")
    log(events.StageStarted(stage="train", fingerprint="f", reason="not built yet"))
    assert read_progress(tmp_path) == RunProgress("train")
    log(STEP)
    assert read_progress(tmp_path) == RunProgress("train", "", 40, 200, "steps", 0.7319, 95.0)


def test_pausing_waiting_and_resuming(tmp_path: Path, log: events.EventLog) -> None:
    log(events.StageStarted(stage="train", fingerprint="f", reason="not built yet"))
    log(STEP)
    (tmp_path / "pause").touch()
    assert read_progress(tmp_path).paused == "asked"
    log(events.Paused(stage="train"))
    assert read_progress(tmp_path) == RunProgress(
        "train", "waiting", 40, 200, "steps", 0.7319, 95.0
    )
    (tmp_path / "pause").unlink()
    log(events.Resumed(stage="train"))
    assert read_progress(tmp_path).paused == ""
    log(events.Paused(stage="evaluate"))  # between the two
    assert read_progress(tmp_path) == RunProgress("evaluate", "waiting")


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path, log: events.EventLog) -> None:
    (tmp_path / "stage.json").write_text('{"stage": "train", "pid": 1}')
    for _ in range(50):
        log(STEP)
    assert read_progress(tmp_path, tail=400) == RunProgress(
        "train", "", 40, 200, "steps", 0.7319, 95.0
    )


def test_the_newest_checkpoint_that_can_be_read(tmp_path: Path) -> None:
    assert newest_step(tmp_path / "none") is None
    for number, text in (
        (50, json.dumps({"state": {"step": 50}})),
        (100, json.dumps({"state": {"step": 100}})),
        (150, "{"),
    ):
        folder = tmp_path / f"step-{number:08d}"
        folder.mkdir()
        (folder / "state.json").write_text(text)
    assert newest_step(tmp_path) == 100


HANDBOOK = os.path.normpath("/data/handbook")  # as this system writes it
NAMED = quote_argument("my handbook")


def status_lines(**changed: Any) -> list[str]:
    stages = [StageState("train", "to do", "not built yet")]
    status = Status(
        Path(HANDBOOK),
        False,
        {"judged_queries": 3},
        stages,
    )
    return list(format_status(replace(status, **changed), "my handbook"))


def test_the_lines_for_a_terminal() -> None:
    place, counts, unused = status_lines()
    assert [place.split(), counts.split()] == [[HANDBOOK], ["judged", "queries:", "3"]]
    assert unused.split()[0] == "adapt", "nothing of an adaptation was begun"
    assert status_lines(counts={"files": 55, "skipped": 1})[1].split(" · ") == [
        "files read: 55",
        "skipped: 1",
    ]
    progress = RunProgress(
        "train",
        "waiting",
        40,
        200,
        "steps",
        0.7319,
        95.0,
    )
    *lines, paused = status_lines(running=True, progress=progress)[:4]
    assert lines[0] != status_lines()[0]  # a run goes on
    assert numbers(lines[-1]) == [40, 200, 0.732, 1, 35]  # steps, loss, minutes and seconds left
    assert f"engine resume {NAMED}" in paused
    last_step = replace(
        progress,
        done=200,
        seconds_left=0.0,
    )
    assert numbers(status_lines(running=True, progress=last_step)[2]) == [200, 200, 0.732]
    trains, other = (
        status_lines(progress=RunProgress(stage))[-1].split() for stage in ("train", "index")
    )
    assert (trains, other) == (["train", "running"], ["train", "to", "do", "not", "built", "yet"])
    (now,) = status_lines(progress=RunProgress("index"))[2:-1]
    assert now.split()[-1] == "index"
    resumes = status_lines(resumes_at=ResumePoint(40, 200))[-1]
    assert numbers(resumes)[:2] == [40, 200]
    assert f"engine train {NAMED}" in resumes
    record = RunRecord(
        "1",
        Path("/data/handbook/runs/1"),
        "running",
    )
    *_, killed, resumes = status_lines(
        latest_run=record,
        broken_off=progress,
        to_resume="Run 'engine adapt x'.",
        resumes_at=ResumePoint(40, 200),
    )
    assert numbers(killed) == [40, 200]
    begun = {"latest_run": record, "broken_off": progress}
    assert status_lines(**begun)[2].split() == ["train", "begun"]
    assert status_lines(**begun, stages=[StageState("train", "done", "since noon")])[2].split()[
        :2
    ] == [
        "train",
        "done",
    ]
    assert "engine adapt x" in killed
    assert "engine train" not in resumes, "one command is enough"
    stopped = status_lines(latest_run=replace(record, state="cancelled"), broken_off=progress)[-1]
    assert stopped != killed


@pytest.mark.parametrize(("count", "more"), [(10, 0), (11, 1), (300, 290)])
@pytest.mark.parametrize(
    ("state", "called"), [("skipped", "skipped"), ("quarantined", "unreadable")]
)
def test_ten_of_many_skipped_files_are_shown(
    count: int, more: int, state: str, called: str
) -> None:
    lines = status_lines(**{state: {f"{number}.bin": "no text" for number in range(count)}})[3:]
    assert [line.split() for line in lines[:2]] == [
        [called, "0.bin:", "no", "text"],
        [called, "1.bin:", "no", "text"],
    ]
    assert sum(line.startswith(f"  {called}") for line in lines) == 10
    if more:
        (rest,) = lines[10:]
        assert numbers(rest) == [more]
        assert f"engine documents {NAMED} --state {called}" in rest
    else:
        assert len(lines) == 10
