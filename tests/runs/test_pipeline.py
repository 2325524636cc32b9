"""The run's process and its stages' processes: who ends whom, what is reported of an error,
which run is asked to stop.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.errors import fails
from fixtures.local_zone import in_zone

from engine.core import events
from engine.core import subprocesses as children
from engine.core.errors import (
    CancelledError,
    DamagedError,
    EngineError,
    NotBuiltError,
    ResourceError,
    StageError,
    UsageError,
)
from engine.core.messages.project import StageState
from engine.project import control
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.runs import pipeline

if sys.platform == "linux":
    import fcntl

SHORT_PIPE = 4096  # bytes
SLEEPER = (
    "import signal, time; signal.signal(signal.SIGTERM, {handler}); print('ready', flush=True);"
    " time.sleep(60)"
)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Every stage process that the test starts; in its place one that just sleeps."""
    pipeline.load_stage("ingest")  # its modules derive classes from the real Popen
    children: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def popen(_command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        children.append(
            real([sys.executable, "-c", SLEEPER.format(handler="signal.SIG_DFL")], **options)
        )
        return children[-1]

    monkeypatch.setattr(
        pipeline.subprocess,
        "Popen",
        popen,
    )
    yield children
    for child in children:
        if child.poll() is None:
            child.kill()


SECRET = "the code of the vault"


def add_document(project: ProjectFolder) -> None:
    (project.path / "documents").mkdir()
    (project.path / "documents" / "a.txt").write_text("The freezer door was left open.")
    (project.path / "project.toml").write_text('[corpus]\npaths = ["documents"]\n')


def run_state(project: ProjectFolder) -> str:
    (record,) = project.path.glob("runs/*/run.json")
    return str(json.loads(record.read_text())["state"])


@pytest.mark.parametrize(
    ("fault", "state"), [(ValueError, "failed"), (KeyboardInterrupt, "cancelled")]
)
def test_no_child_outlives_a_listener_that_fails(
    project: ProjectFolder,
    started: list[subprocess.Popen[bytes]],
    fault: type[BaseException],
    state: str,
) -> None:
    add_document(project)

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Progress):
            raise fault(SECRET)

    def should_stop() -> bool:
        if started:  # the child says of its progress
            (log,) = project.path.glob("runs/*/events.jsonl")
            events.EventLog(log)(events.Progress(stage="ingest", done=1, total=2, unit="files"))
        return False

    with pytest.raises(fault):
        pipeline.run(
            project,
            stages=["ingest"],
            on_event=listen,
            should_stop=should_stop,
        )
    assert [child.poll() is None for child in started] == [False]
    assert run_state(project) == state
    (record,) = project.path.glob("runs/*/run.json")
    assert SECRET not in record.read_text()
    assert not project.is_running()


def test_no_child_outlives_a_disk_that_is_full(
    project: ProjectFolder, started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    add_document(project)
    real = pipeline.write_text

    def write(path: Path, text: str) -> None:
        if path.name == "stage.json":
            raise OSError(28, "No space left on device")
        real(path, text)

    monkeypatch.setattr(pipeline, "write_text", write)
    with pytest.raises(ResourceError) as caught:
        pipeline.run(project, stages=["ingest"])
    assert caught.value.code == "disk-full"
    assert [child.poll() is None for child in started] == [False]


def test_a_child_that_does_not_stop_is_ended() -> None:
    code = SLEEPER.format(handler="signal.SIG_IGN")
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdout.readline().rstrip() == b"ready"
    children.end_child(child, grace_seconds=0.2)
    assert not psutil.pid_exists(child.pid)


def test_a_listener_that_fails_at_once_leaves_no_run_that_seems_to_go_on(
    project: ProjectFolder,
) -> None:
    def listen(_event: events.Event) -> None:
        raise ValueError("no listener")

    with pytest.raises(ValueError, match="no listener"):
        pipeline.run(
            project,
            stages=[],
            on_event=listen,
        )
    assert run_state(project) == "failed"


def test_force_may_be_read_only_once(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        pipeline.Run, "run_stage", lambda _run, stage, forced: record(stage, forced)
    )

    def record(stage: str, is_forced: bool) -> None:
        forced.append((stage, is_forced))

    pipeline.run(project, stages=iter(["ingest", "index"]), force=iter(["index", "ingest"]))  # type: ignore[arg-type]
    assert forced == [("ingest", True), ("index", True)]


@pytest.mark.parametrize("embedded", [False, True])
def test_what_is_to_be_learnt_comes_after_the_first_search_by_meaning(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, embedded: bool
) -> None:
    order: list[str] = []
    monkeypatch.setattr(
        pipeline.Run,
        "run_stage",
        lambda _run, stage, forced: order.append(stage),
    )
    with closing(project.store()) as store:
        if embedded:
            store.put_artifact(Artifact(VectorsInfo(), "f", "vectors/f"))
    pipeline.run(project)
    pipeline.run(project, stages=pipeline.SEARCH)
    learning = [
        "generate",
        "rank",
        "train",
        "evaluate",
        "embed",
    ]
    assert order == [
        "ingest",
        "index",
        *["embed"] * (not embedded),
        *learning,
        "ingest",
        "index",
        "embed",
    ]


@pytest.mark.parametrize(
    "options",
    [{"stages": "rank"}, {"force": "rank"}, {"force": ["bake"]}, {"stages": ["rank", "bake"]}],
)
def test_wrong_stages_are_refused_before_anything_is_done(
    project: ProjectFolder, options: dict[str, Any]
) -> None:
    with fails(UsageError, "stage-unknown"):
        pipeline.run(project, **options)
    assert not list((project.path / "runs").iterdir())


@pytest.mark.parametrize("stages", [["train"], ["ingest", "train"], ["ingest", "rank", "evaluate"]])
def test_what_no_stage_of_a_run_makes_is_missed_before_anything_is_done(
    project: ProjectFolder, stages: list[str]
) -> None:
    add_document(project)
    heard: list[events.Event] = []
    with pytest.raises(NotBuiltError):
        pipeline.run(
            project,
            stages=stages,
            on_event=heard.append,
        )
    assert [type(event) for event in heard] == [
        events.RunStarted,
        events.StageFailed,
        events.RunFinished,
    ]


def test_runs_are_named_in_universal_time(project: ProjectFolder) -> None:
    with in_zone("Pacific/Kiritimati"):  # 14 hours ahead
        before = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        run = pipeline.run(project, stages=[])
        after = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    assert before <= run[:15] <= after


def test_a_run_is_named_after_all_others_where_the_clock_was_set_back(
    project: ProjectFolder,
) -> None:
    for name in ("99991231-235958-998-ffff", "99991231-235958-999-0000", "a-folder-of-the-user"):
        record_run(
            project,
            name,
            "done",
            1,
            100.0,
        )
    first = pipeline.run(project, stages=[])
    assert first.startswith("99991231-235959-000-")
    assert pipeline.run(project, stages=[]) > first


def record_run(
    project: ProjectFolder,
    name: str,
    state: str,
    pid: int,
    started: float,
) -> Path:
    folder = project.path / "runs" / name
    folder.mkdir()
    (folder / "run.json").write_text(
        json.dumps({"run": name, "pid": pid, "state": state, "time": started})
    )
    return folder


@pytest.fixture
def dead_pid() -> int:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_the_run_that_is_running_gets_the_request_to_stop(
    project: ProjectFolder, dead_pid: int
) -> None:
    current = record_run(
        project,
        "20260101-000000-000-aaaa",
        "running",
        os.getpid(),
        200.0,
    )
    others = [
        record_run(project, "20260102-000000-000-bbbb", "done", os.getpid(), 300.0),
        record_run(project, "20260103-000000-000-cccc", "running", dead_pid, 400.0),
        record_run(project, "20251201-000000-000-dddd", "running", os.getpid(), 100.0),
    ]
    (project.path / "runs" / "20260104-000000-000-eeee").mkdir()
    (project.path / "runs" / "20260104-000000-000-eeee" / "run.json").write_text("[]")
    with project.locked():
        assert control.cancel(project) == current.name
    assert (current / "cancel").exists()
    assert not any((folder / "cancel").exists() for folder in others)


def test_nothing_can_be_stopped_when_nothing_runs(project: ProjectFolder) -> None:
    record_run(
        project,
        "20260101-000000-000-aaaa",
        "running",
        os.getpid(),
        100.0,
    )
    with fails(UsageError, "no-run"):
        control.cancel(project)


class RottenIndexError(DamagedError):
    """An error class of a room's own."""


class OwnError(EngineError):
    """One whose only public base is EngineError."""

    exit_code = 3


@pytest.mark.parametrize(
    ("error", "kind"),
    [(RottenIndexError("a", "b", "c"), DamagedError), (OwnError("a", "b", "c"), EngineError)],
)
def test_an_error_keeps_its_nearest_public_class_on_its_way_to_the_run(
    error: EngineError, kind: type[EngineError]
) -> None:
    revived = EngineError.from_dict(
        json.loads(json.dumps(children.to_short_dict(error))), error.exit_code
    )
    assert type(revived) is kind
    assert (revived.what, revived.why, revived.to_do, revived.exit_code) == (
        "a",
        "b",
        "c",
        error.exit_code,
    )


@pytest.mark.parametrize("name", ["nearest", "Iterable", "difflib", "NoSuchError"])
def test_an_error_of_an_unknown_class_is_a_stage_error(name: str) -> None:
    assert (
        type(EngineError.from_dict({"type": name, "what": "a", "why": "", "to_do": ""}, 5))
        is StageError
    )


@pytest.mark.parametrize("text", ["\x1b", "\U0001f9ca", "\udcff"])
def test_a_long_error_reaches_the_run(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Its pipe is as short as those of Windows: a child waits until somebody reads it."""
    add_document(project)
    code = (
        "import sys, engine.runs.stage_process as process\n"
        "from engine.core.errors import DamagedError\n"
        f"text = {text!r} * 100_000\n"
        "def fail(*_, **__): raise DamagedError(text, text, text)\n"
        "process.execute_stage = fail\n"
        "sys.exit(process.main(sys.argv[1:]))"
    )
    real = subprocess.Popen

    def popen(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        place = command.index("engine.runs.stage_process")
        child = real([sys.executable, "-c", code, *command[place + 1 :]], **options)
        if sys.platform == "linux":
            assert child.stdout is not None
            fcntl.fcntl(
                child.stdout,
                fcntl.F_SETPIPE_SZ,
                SHORT_PIPE,
            )
        return child

    monkeypatch.setattr(
        pipeline.subprocess,
        "Popen",
        popen,
    )
    with pytest.raises(DamagedError) as error:
        pipeline.run(project, stages=["ingest"])
    assert error.value.to_do == text * children.TEXT_SENT


def test_a_child_that_ends_with_a_number_has_crashed(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_document(project)
    real = subprocess.Popen

    def popen(_command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        return real([sys.executable, "-c", "print(7); raise SystemExit(3)"], **options)

    monkeypatch.setattr(
        pipeline.subprocess,
        "Popen",
        popen,
    )
    with fails(StageError, "stage-crashed"):
        pipeline.run(project, stages=["ingest"])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux carries the parent's peak over")
def test_the_peak_of_memory_is_the_processes_own() -> None:
    code = (
        "import os, subprocess, sys\nballast = bytearray(400_000_000)\nchild = 'from"
        " engine.runs.stage_process import peak_memory_mb; print(peak_memory_mb())'\ndef other():"
        " return subprocess.run([sys.executable, '-c', child], stdout=-1, preexec_fn=lambda:"
        " None)\nprint(float(other().stdout))"
    )
    reported = float(
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    )
    assert 10 < reported < 300


def test_the_import_path_holds_no_empty_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}/a{os.pathsep}{os.pathsep}/b{os.pathsep}")
    assert children.import_path().split(os.pathsep)[1:] == ["/a", "/b"]


def test_a_run_can_be_cancelled_while_its_database_is_repaired(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_document(project)

    def repair(_project: ProjectFolder) -> None:
        assert (
            control.cancel(ProjectFolder(project.path))
            == next((project.path / "runs").iterdir()).name
        )

    monkeypatch.setattr(ProjectFolder, "repair", repair)
    with pytest.raises(CancelledError):
        pipeline.run(project, stages=("ingest",))
    assert run_state(project) == "cancelled"


@pytest.mark.parametrize(
    ("stages", "force", "command"),
    [
        (pipeline.ORDER, (), "'engine adapt {0}'"),
        (pipeline.SEARCH, (), "'engine run {0}'"),
        (("generate",), (), "'engine generate {0}'"),
        (("ingest", "index"), (), "'engine run {0} --only ingest,index'"),
        (("train",), ("train",), "'engine train {0} --force'"),
    ],
)
def test_cancelling_reports_the_command_that_resumes(
    project: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    stages: tuple[str, ...],
    force: tuple[str, ...],
    command: str,
) -> None:
    monkeypatch.setattr(pipeline, "check_inputs", lambda *_: None)  # the project is empty
    with pytest.raises(CancelledError) as caught:
        pipeline.run(
            project,
            stages=stages,
            force=force,
            should_stop=lambda: True,
        )
    assert command.format(project.argument) in caught.value.to_do


def test_a_repair_that_fails_is_recorded(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def repair(_project: ProjectFolder) -> None:
        raise ResourceError("The disk is full.")

    monkeypatch.setattr(ProjectFolder, "repair", repair)
    with pytest.raises(ResourceError):
        pipeline.run(project, stages=("ingest",))
    record = control.latest_run(project)
    assert record is not None
    assert record.state == "failed"
    assert isinstance(record.error, ResourceError)


@pytest.mark.posix(reason="modes of files")
def test_the_folder_of_runs_is_private_also_when_it_was_lost(project: ProjectFolder) -> None:
    (project.path / "runs").rmdir()
    former = os.umask(0)
    try:
        pipeline.run(project, stages=())
    finally:
        os.umask(former)
    assert {
        path.stat().st_mode & 0o077 for path in project.path.rglob("*") if path.name != "run.lock"
    } == {0}


@pytest.mark.posix(reason="a folder with open files cannot be renamed on Windows")
def test_a_run_ends_when_its_project_is_deleted(
    project: ProjectFolder, started: list[subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    add_document(project)

    def delete() -> None:
        while not (started and list(project.path.glob("runs/*/stage.json"))):
            time.sleep(0.01)
        project.path.rename(tmp_path / "elsewhere")

    deleting = threading.Thread(target=delete)
    deleting.start()
    with fails(StageError, "run-folder-missing"):
        pipeline.run(project, stages=("ingest",))
    deleting.join(60)
    assert not psutil.pid_exists(started[0].pid)


@pytest.mark.parametrize(
    ("stage", "makes_stale"), [("ingest", True), ("index", False), ("evaluate", False)]
)
def test_vectors_are_stale_with_the_documents_alone(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, stage: str, makes_stale: bool
) -> None:
    """As `engine run` has it."""
    monkeypatch.setattr(
        pipeline,
        "stage_status",
        lambda _, name: StageState(name, "stale" if name == stage else "done", ""),
    )
    with closing(project.store()) as store:
        states = pipeline.all_status(ProjectSnapshot(project, project.settings(), store))
    assert (states[-1].stage, states[-1].state == "stale") == ("embed", makes_stale)
    # What made a stage stale is its reason, not what became stale with it.
    reasons = {state.reason for state in states if state.state == "stale"}
    assert reasons <= {"", f"{stage} is stale"}
