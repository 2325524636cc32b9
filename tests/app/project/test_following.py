"""Runs are followed, not owned: they outlive the app, are noticed wherever they began, and their
deaths are reported.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.app import drive, opened, screen_text, text_of, until, until_text
from fixtures.endings import KILLED_CODE, SEGMENTATION_FAULT
from fixtures.long_training import newest, pid_of, state_of
from fixtures.served_here import served_here
from fixtures.waiting_run import waiting_run
from textual.pilot import Pilot

from bmembed_tui.client.progress import STOPPED
from bmembed_tui.dialogs.confirmations import ErrorDialog
from bmembed_tui.project.run_line import ENDINGS
from bmembed_tui.steps.runs import REQUESTED
from bmembed_tui.steps.train.loss_chart import LossChart
from engine.core.errors import ResourceError, SettingsError
from engine.core.events import (
    EventLog,
    RunFinished,
    RunStarted,
    StageFailed,
    StageFinished,
    StageStarted,
    TrainStep,
    read,
)
from engine.project.folder import ProjectFolder


async def dialog(pilot: Pilot[Any]) -> ErrorDialog:
    await until(
        pilot,
        lambda: isinstance(pilot.app.screen, ErrorDialog),
        "the error's dialog",
    )
    assert isinstance(pilot.app.screen, ErrorDialog)
    return pilot.app.screen


def head_line(pilot: Pilot[Any]) -> str:
    return screen_text(pilot.app).splitlines()[0]  # type: ignore[arg-type]


@pytest.mark.processes
def test_a_run_outlives_the_app_and_a_crash_of_its_stage_is_reported_once(
    long_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begin(pilot: Pilot[Any]) -> int:
        screen = await opened(pilot)
        screen.go("train")
        await until(
            pilot,
            lambda: screen.status.state("train") == "stale",
            "the status",
        )
        await pilot.press("enter")
        await until(
            pilot, lambda: screen.run_state.running and len(screen.run_state.steps) > 3, "steps"
        )
        assert screen.pane is not None
        assert screen.pane.step == "train"
        return screen.run_state.steps[-1].step

    left_at = drive(begin, long_project)
    first = newest(long_project)
    assert state_of(long_project) == "running"
    assert ProjectFolder(long_project).is_running()

    async def again(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        assert screen.pane is not None
        assert screen.pane.step == "train"  # where the work is
        await until(
            pilot,
            lambda: screen.run_state.steps and screen.run_state.steps[-1].step > left_at,
            "it to go on",
        )
        assert (
            screen.run_state.steps[0].step == 1
        )  # what happened while nobody looked on is there too
        await until(
            pilot,
            lambda: screen.query_one(LossChart).drawn.steps > 0,
            "the curve",
        )
        psutil.Process(pid_of(long_project, "stage")).kill()
        killed = await dialog(pilot)
        assert (killed.error.code, killed.error.stage, killed.error.command) == (
            KILLED_CODE,
            "train",
            "run",
        )
        assert killed.query("#action-retry")
        log = [event for event, _ in read(first / "events.jsonl")]
        made = max(event.step for event in log if isinstance(event, TrainStep))
        await until(
            pilot, lambda: pilot.app.focused is pilot.app.screen.query_one("#close"), "the focus"
        )
        await pilot.press(
            "left",
            "left",
            "left",
            "enter",
        )
        await until(pilot, lambda: pilot.app.screen is screen)
        await until(
            pilot,
            lambda: screen.run_state.run != first.name and screen.run_state.steps,
            "steps of another run",
        )
        begun = screen.run_state.steps[0].step
        assert begun > max(
            1, made - 10
        )  # from the newest checkpoint, one of which is written every five steps
        curve = screen.history.build_curve(screen.run_state, current=False)
        assert curve.steps[0].step == 1  # the part of the run before is on the chart
        os.kill(pid_of(long_project, "stage"), signal.SIGSEGV)
        await dialog(pilot)
        await until_text(pilot, SEGMENTATION_FAULT)
        await until(
            pilot, lambda: pilot.app.focused is pilot.app.screen.query_one("#close"), "the focus"
        )
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.screen is screen and not screen.status.running)
        await until(
            pilot,
            lambda: head_line(pilot).endswith(ENDINGS["failed"]),
            "the head line",
        )
        assert screen.run_state.stage("train").state == "failed"
        await pilot.pause(2.5)  # two looks at the run: the error is not shown again
        assert pilot.app.screen is screen

    async def later(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the history",
        )
        await until(
            pilot,
            lambda: head_line(pilot).endswith(ENDINGS["failed"]),
            "the head line",
        )
        assert not isinstance(pilot.app.screen, ErrorDialog)  # of a failure of long ago no dialog

    with served_here(monkeypatch):
        drive(again, long_project)
        drive(later, long_project)


def test_enter_in_the_instant_of_a_runs_end_starts_no_other(
    long_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the history",
        )
        ask = screen.client.ask
        answered = asyncio.Event()

        async def slow(*order: Any, **params: Any) -> Any:
            await answered.wait()
            return await ask(*order, **params)

        monkeypatch.setattr(
            screen.client,
            "ask",
            slow,
        )
        screen.go("train")
        screen.follow_run(newest(long_project))
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the end of the run",
        )
        screen.load()  # as at the end of a stage: the answer on the way is older than the run's end
        assert screen.is_busy
        before = newest(long_project)
        await pilot.press("enter")
        assert not screen.is_starting
        answered.set()
        await until(
            pilot,
            lambda: not screen.is_busy,
            "the status",
        )
        assert newest(long_project) == before

    drive(story, long_project, step="train")


def test_a_run_that_began_elsewhere_is_noticed_and_its_death_too(finished_project: Path) -> None:
    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the history",
        )
        with waiting_run(finished_project):
            await until(
                pilot,
                lambda: screen.run_state.running and screen.run_state.steps,
                "the run to be noticed",
            )
            await until(
                pilot,
                lambda: "Train" in head_line(pilot),
                "the head line",
            )
            screen.action_go("train")
            await until(
                pilot,
                lambda: screen.is_at("train"),
                "the step",
            )
            keep = screen.query_one("#train #keep")
            await until(
                pilot,
                lambda: keep.display,
                "the button",
            )
        await until(
            pilot,
            lambda: STOPPED in head_line(pilot),
            "the end to be noticed",
        )
        await until(
            pilot,
            lambda: not keep.display,
            "the buttons to go",
        )
        await until(
            pilot, lambda: STOPPED in text_of(pilot, "#train-status"), "the end in the step"
        )
        shown = screen_text(pilot.app)  # type: ignore[arg-type]
        await until(pilot, lambda: not screen.status.running)
        assert not any(line.endswith(("running", "paused")) for line in shown.splitlines())
        screen.action_go("index")
        await until(
            pilot, lambda: screen.pane is not None and screen.pane.step == "index", "the step"
        )
        assert STOPPED in head_line(pilot)
        assert pilot.app.screen is screen

    drive(story, finished_project)


@pytest.mark.parametrize(("keys", "last"), [((), "search"), (("1",), "model")])
def test_a_run_that_is_found_again_is_followed_until_a_step_is_chosen(
    finished_project: Path, keys: tuple[str, ...], last: str
) -> None:
    """Where it leads to, Enter goes on from there."""
    folder = finished_project / "runs" / "29990101-000000-000-0000"
    folder.mkdir()
    (folder / "run.json").write_text(
        json.dumps({"run": "x", "pid": os.getpid(), "state": "running", "time": 1})
    )
    log = EventLog(folder / "events.jsonl")
    log(RunStarted(run="x", stages=["train", "evaluate"]))
    log(StageStarted(stage="train", fingerprint="f", reason="r"))

    async def story(pilot: Pilot[Any]) -> str:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.pane is not None and screen.pane.step == "train",
            "the step at work",
        )
        await pilot.press(*keys)
        log(StageFinished(stage="train", seconds=1.0, peak_memory_mb=1.0, summary={}))
        log(StageStarted(stage="evaluate", fingerprint="f", reason="r"))
        await until(pilot, lambda: screen.run_state.current == "evaluate")
        await until(
            pilot,
            lambda: "Evaluate" in head_line(pilot),
            "the head line",
        )
        await until(
            pilot,
            lambda: screen.is_at("documents" if keys else "result"),
            "the step",
        )
        shown = screen.pane
        await until(
            pilot,
            lambda: (
                shown is not None
                and screen.focused is not None
                and shown in screen.focused.ancestors
            ),
        )
        log(StageFinished(stage="evaluate", seconds=1.0, peak_memory_mb=1.0, summary={}))
        log(RunFinished(run="x", state="done", seconds=1.0))
        await until(pilot, lambda: screen.run_state.over and not screen.is_busy)
        await pilot.press("enter")
        await until(
            pilot, lambda: screen.pane is not None and screen.pane is not shown, "the next step"
        )
        assert screen.pane is not None
        return screen.pane.step

    with ProjectFolder(finished_project).locked():
        assert drive(story, finished_project) == last


def test_a_run_that_was_killed_before_the_app_was_opened_is_not_shown_as_running(
    finished_project: Path,
) -> None:
    folder = finished_project / "runs" / "29990101-000000-000-0000"
    folder.mkdir()
    (folder / "run.json").write_text(
        '{"run": "x", "pid": 999999999, "state": "running", "time": 1}'
    )
    log = EventLog(folder / "events.jsonl")
    for event in (
        RunStarted(run="x", stages=["embed"]),
        StageStarted(stage="embed", fingerprint="f", reason="r"),
    ):
        log(event)

    async def story(pilot: Pilot[Any]) -> str:
        await opened(pilot)
        await until(pilot, lambda: STOPPED in head_line(pilot))
        return screen_text(pilot.app)  # type: ignore[arg-type]

    assert "running" not in drive(story, finished_project).split("\n", 1)[1].split("Search")[0]


def test_a_run_that_fails_between_two_stages_shows_the_error_of_its_record(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bmembed_tui.steps.runs.RECORD_SECONDS", 60.0
    )  # the record may be late on a busy machine
    folder = finished_project / "runs" / "29990101-000000-000-0000"

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the history",
        )
        folder.mkdir()
        log = EventLog(folder / "events.jsonl")
        with ProjectFolder(finished_project).locked():
            log(RunStarted(run="x", stages=["embed"]))
            await until(pilot, lambda: screen.run_state.running)
            log(RunFinished(run="x", state="failed", seconds=1.0))
            await pilot.pause(0.5)
            record = {
                "run": "x",
                "state": "failed",
                "error": error.as_dict(),
            }
            (folder / "run.json").write_text(json.dumps(record))
        shown = await dialog(pilot)
        assert isinstance(shown.error, ResourceError)
        assert shown.error.as_dict() == error.as_dict()
        await until_text(pilot, error.what)

    error = ResourceError(
        "Full [/.",
        "w",
        "Free some.",
        code="disk-full",
    )
    drive(story, finished_project, step="index")


def test_a_slip_in_the_settings_is_said_once_and_loses_no_states(finished_project: Path) -> None:
    file = finished_project / "project.toml"
    text = file.read_text()

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        before = screen.status.stages
        await until(
            pilot,
            lambda: screen.settings_time,
            "a look at the settings",
        )
        file.write_text(text + "\n[serach]\n")
        shown = await dialog(pilot)
        assert isinstance(shown.error, SettingsError)
        await pilot.press("enter")
        await until(
            pilot,
            lambda: pilot.app.screen is screen,
            "the project",
        )
        assert screen.status.stages == before
        assert shown.error.what[:60] in head_line(pilot)
        await pilot.press("ctrl+s")  # asked for, it is said again
        assert (await dialog(pilot)).error.as_dict() == shown.error.as_dict()
        await pilot.press("enter")
        await until(
            pilot,
            lambda: pilot.app.screen is screen and not screen.workers,
            "the status",
        )
        assert pilot.app.screen is screen
        file.write_text(text)
        await until(
            pilot,
            lambda: not screen.status.problem,
            "what is mended",
        )
        assert screen.status.stages == before
        assert "✗" not in head_line(pilot)

    drive(story, finished_project, step="index")


def test_a_run_waits_for_another_program(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmembed_tui.steps.runs.CHECK_SECONDS", 0.05)

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the history",
        )
        before = screen.run_state.run
        with ProjectFolder(finished_project).locked():
            screen.start_run(("index",))
            assert (await dialog(pilot)).error.code == "project-busy"
            await pilot.press("enter")
            await until(
                pilot,
                lambda: REQUESTED["wait"] in head_line(pilot),
                "the waiting",
            )
            assert screen.run_state.run == before
        await until(
            pilot, lambda: screen.run_state.run != before and screen.run_state.over, "the run"
        )
        assert screen.run_state.state == "done"

    drive(story, finished_project, step="index")


def test_a_stage_failure_is_reported_by_its_event(
    finished_project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmembed_tui.dialogs.confirmations.QUIET_SECONDS", 1e6)
    folder = finished_project / "runs" / "29990101-000000-000-0000"

    what = "It [@click=app.quit]broke[/]."

    async def story(pilot: Pilot[Any]) -> None:
        screen = await opened(pilot)
        await until(
            pilot,
            lambda: screen.run_state.over,
            "the history",
        )
        folder.mkdir()
        log = EventLog(folder / "events.jsonl")
        error = {
            "type": "Nonsense",
            "what": what,
            "why": "",
            "to_do": "",
        }
        with ProjectFolder(finished_project).locked():
            for event in (
                RunStarted(run="x", stages=["embed"]),
                StageStarted(stage="embed", fingerprint="f", reason="r"),
                StageFailed(stage="embed", error=error),
                RunFinished(run="x", state="failed", seconds=1.0),
            ):
                log(event)
            shown_dialog = await dialog(pilot)
            await until_text(pilot, what)
            await pilot.press(
                "enter", "escape", "c", "enter"
            )  # meant for what the dialog has covered
        assert pilot.app.screen is shown_dialog
        shown_dialog.listen()
        await until(
            pilot, lambda: pilot.app.focused is pilot.app.screen.query_one("#close"), "the focus"
        )
        await pilot.press("enter")
        await until(pilot, lambda: pilot.app.screen is screen)
        assert not screen.is_starting

    drive(story, finished_project, step="index")
