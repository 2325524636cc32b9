"""Cancel, pause, resume and finish: which run is asked, and how a stage waits at its safe
points.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from fixtures.errors import fails

from engine.core import events
from engine.core.errors import CancelledError, SettingsError, UsageError
from engine.core.platforms.users import is_private
from engine.project import control
from engine.project.folder import ProjectFolder
from engine.runs import pipeline


@pytest.fixture
def run_folder(project: ProjectFolder) -> Path:
    """The folder of a run whose process is this one."""
    folder = project.path / "runs" / "20260101-000000-000-aaaa"
    folder.mkdir()
    record = {
        "run": folder.name,
        "pid": os.getpid(),
        "state": "running",
        "time": 1.0,
    }
    (folder / "run.json").write_text(json.dumps(record))
    return folder


def at_stage(folder: Path, stage: str) -> None:
    (folder / "stage.json").write_text(json.dumps({"stage": stage, "pid": 1}))


def test_a_request_lies_in_the_folder_of_the_run_alone(
    project: ProjectFolder, run_folder: Path
) -> None:
    at_stage(run_folder, "train")
    with project.locked():
        assert control.pause(project) == control.pause(project) == run_folder.name
        assert control.is_paused(run_folder)
        assert control.resume(project) == run_folder.name
        assert not control.is_paused(run_folder)
        (run_folder / "pause").touch()
        assert control.finish(project) == run_folder.name  # one that waits goes on to do it
    assert sorted(path.name for path in run_folder.iterdir()) == [
        "finish",
        "run.json",
        "stage.json",
    ]
    assert is_private((run_folder / "finish").stat())


def test_a_run_that_is_not_paused_cannot_be_resumed(
    project: ProjectFolder, run_folder: Path
) -> None:
    with project.locked(), fails(UsageError, "run-not-paused"):
        control.resume(project)


@pytest.mark.parametrize("stage", ["", "ingest", "evaluate"])
def test_only_training_is_finished_early(
    project: ProjectFolder, run_folder: Path, stage: str
) -> None:
    if stage:
        at_stage(run_folder, stage)
    with project.locked(), fails(UsageError, "run-not-training") as caught:
        control.finish(project)
    assert f"'{stage}'" in caught.value.why or not stage
    assert not (run_folder / "finish").exists()


@pytest.mark.parametrize("ask", [control.cancel, control.pause, control.resume, control.finish])
def test_nothing_can_be_requested_of_a_run_that_is_over(
    project: ProjectFolder, run_folder: Path, ask: Callable[[ProjectFolder], str]
) -> None:
    at_stage(run_folder, "train")
    with fails(UsageError, "no-run"):
        ask(project)
    assert sorted(path.name for path in run_folder.iterdir()) == ["run.json", "stage.json"]


@pytest.mark.parametrize("ask", [control.cancel, control.pause, control.resume, control.finish])
def test_a_project_that_is_held_before_a_run_has_begun_is_reported_so(
    project: ProjectFolder, ask: Callable[[ProjectFolder], str]
) -> None:
    with project.locked(), fails(UsageError, "run-not-begun"):
        ask(project)


@pytest.mark.parametrize(
    "record",
    ['{"pid": "x", "time": 1.0}', '{"pid": 1, "time": "x"}', '{"pid": null}', "[1]", "[" * 9000],
)
def test_a_record_of_a_run_that_is_damaged_is_passed_over(
    project: ProjectFolder, run_folder: Path, record: str
) -> None:
    damaged = project.path / "runs" / "20260102-000000-000-bbbb"
    damaged.mkdir()
    (damaged / "run.json").write_text(record.replace("{", '{"run": "b", "state": "running", ', 1))
    with project.locked():
        assert control.pause(project) == run_folder.name


class Waiting:
    """A gate of which a thread asks, so that the test can see that it waits."""

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self.reported: list[events.Event] = []
        self.paused = threading.Event()
        self.stop = False
        self.answers: list[bool] = []
        self.gate = control.Gate(
            folder,
            "rank",
            self._emit,
            lambda: self.stop,
        )
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def _emit(self, event: events.Event) -> None:
        self.reported.append(event)
        self.paused.set()

    def _ask(self) -> None:
        self.answers.append(self.gate())

    def join(self) -> list[bool]:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        return self.answers


def test_a_safe_point_is_passed_at_once_when_nothing_is_requested(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path)
    assert waiting.join() == [False]
    assert (waiting.reported, waiting.gate.paused_seconds) == ([], 0.0)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_paused_stage_waits_until_it_may_go_on(tmp_path: Path, threads: int) -> None:
    (tmp_path / "pause").touch()
    waiting = Waiting(tmp_path, threads=threads)
    assert waiting.paused.wait(60)
    assert waiting.answers == []
    (tmp_path / "pause").unlink()
    assert waiting.join() == [False] * threads
    assert waiting.reported == [events.Paused(stage="rank"), events.Resumed(stage="rank")]
    assert waiting.gate.paused_seconds > 0


def test_a_paused_stage_can_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "pause").touch()
    waiting = Waiting(tmp_path)
    assert waiting.paused.wait(60)
    waiting.stop = True
    assert waiting.join() == [True]
    assert waiting.reported == [events.Paused(stage="rank")]


def test_a_stage_that_is_to_stop_does_not_pause_first(tmp_path: Path) -> None:
    (tmp_path / "pause").touch()
    reported: list[events.Event] = []
    assert control.Gate(tmp_path, "rank", reported.append, lambda: True)()
    assert reported == []


def test_every_pause_counts(tmp_path: Path) -> None:
    reported: list[events.Event] = []

    def relay(event: events.Event) -> None:
        reported.append(event)
        if isinstance(event, events.Paused):
            (tmp_path / "pause").unlink()

    gate = control.Gate(
        tmp_path,
        "rank",
        relay,
        lambda: False,
    )
    waited = [gate.paused_seconds]
    for _ in range(2):
        (tmp_path / "pause").touch()
        assert gate() is False
        waited.append(gate.paused_seconds)
    assert waited[0] < waited[1] < waited[2]
    assert [event.name for event in reported] == ["paused", "resumed"] * 2


def test_a_run_waits_between_its_stages(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paused before its first stage, it goes on when it is resumed."""
    (project.path / "documents").mkdir()
    (project.path / "project.toml").write_text('[corpus]\npaths = ["documents"]\n')
    ran: list[str] = []
    monkeypatch.setattr(
        pipeline.Run,
        "run_child",
        lambda _run, stage, *_: ran.append(stage),
    )
    reported: list[events.Event] = []

    def listen(event: events.Event) -> None:
        reported.append(event)
        if isinstance(event, events.RunStarted):
            control.pause(project)
        if isinstance(event, events.Paused):
            assert ran == []
            control.resume(project)

    pipeline.run(
        project,
        stages=["ingest"],
        on_event=listen,
    )
    assert ran == ["ingest"]
    names = [
        "run_started",
        "paused",
        "resumed",
        "stage_started",
        "run_finished",
    ]
    assert [event.name for event in reported] == names
    assert reported[1] == events.Paused(stage="ingest")


def test_a_run_paused_between_stages_can_be_cancelled(project: ProjectFolder) -> None:
    reported: list[str] = []

    def listen(event: events.Event) -> None:
        reported.append(event.name)
        if isinstance(event, events.RunStarted):
            control.pause(project)
        if isinstance(event, events.Paused):
            control.cancel(project)

    with pytest.raises(CancelledError):
        pipeline.run(
            project,
            stages=["ingest"],
            on_event=listen,
        )
    assert reported == ["run_started", "paused", "run_finished"]


def test_a_failed_runs_record_has_the_error(project: ProjectFolder) -> None:
    (project.path / "project.toml").write_text('[encoder]\ndevice = "toaster"\n')
    with pytest.raises(UsageError) as caught:
        pipeline.run(project, stages=["ingest"])
    record = control.latest_run(project)
    assert record is not None
    assert record.state == "failed"
    assert isinstance(record.error, SettingsError)
    assert record.error.what == caught.value.what
