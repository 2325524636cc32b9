"""Runs in the background, and what is asked of them from outside: real processes, real signals."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import copy_documents, engine, engine_here, environment, stage_here

from engine import Project
from engine.cli.status_text import read_status
from engine.core import events
from engine.project import control
from engine.project.folder import ProjectFolder
from engine.runs import pipeline

pytestmark = pytest.mark.skipif(os.name == "nt", reason="sessions and signals are those of POSIX")


def wait_until(
    true: Callable[[], Any],
    what: str,
    seconds: float = 120,
) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := true():
            return result
        time.sleep(0.05)
    raise AssertionError(f"it did not come to this: {what}")


def log_of(folder: Path) -> list[events.Event]:
    return [event for event, _ in events.read(folder / "events.jsonl")]


def has_logged(folder: Path, kind: type[events.Event]) -> Callable[[], bool]:
    return lambda: any(isinstance(event, kind) for event in log_of(folder))


def record(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


def wait_for_end(folder: Path) -> str:
    return str(
        wait_until(
            lambda: (state := record(folder)["state"]) != "running" and state, "an end of the run"
        )
    )


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")  # an orphan that nobody has waited for yet is gone, too
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


def steps_logged(folder: Path) -> list[int]:
    return [event.step for event in log_of(folder) if isinstance(event, events.TrainStep)]


@pytest.fixture(scope="module")
def ranked(make_project: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that is ready to train. Tests copy it."""
    path = make_project(
        tmp_path_factory.mktemp("ranked") / "project", queries={"consistency_top": 0}
    )
    copy_documents(
        path / "documents",
        ("incidents", "policies"),
        6,
    )
    for stage in ("ingest", "index", "generate", "rank"):
        stage_here(path, stage)
    return path


@pytest.fixture
def project(ranked: Path, tmp_path: Path) -> Iterator[Path]:
    path = Path(shutil.copytree(ranked, tmp_path / "project"))
    yield path
    for run in path.glob("runs/*/run.json"):  # of a test that failed halfway
        if record(run.parent)["state"] == "running" and not is_gone(record(run.parent)["pid"]):
            os.kill(record(run.parent)["pid"], signal.SIGKILL)


def train_for(project: Path, steps: int) -> None:
    settings = project / "project.toml"
    text = re.sub(
        r"^steps = .*$",
        f"steps = {steps}",
        settings.read_text(),
        flags=re.M,
    )
    settings.write_text(re.sub(r"^eval_every = .*$", f"eval_every = {steps}", text, flags=re.M))


def start(project: Path, *options: str) -> Path:
    """Start a run in the background; its folder."""
    begun = json.loads(engine("run", str(project), "--detach", "--json", *options).stdout)
    folder = Path(begun["folder"])
    assert set(begun) == {"run", "folder", "state", "pid", "time", "error"}
    assert (folder.name, begun["pid"]) == (begun["run"], record(folder)["pid"])
    return folder


def test_a_detached_run_outlives_whoever_started_it(project: Path) -> None:
    command = (
        f"trap '' HUP; {sys.executable} -m engine run {project} --only rank --force --detach"
        " --json; exec sleep 60"
    )
    at_work = ProjectFolder(project).locked(
        "stage"
    )  # the stage waits for it: it cannot end before the signals come
    with (
        at_work,
        subprocess.Popen(
            ["bash", "-c", command],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as caller,
    ):
        assert caller.stdout is not None
        begun = json.loads(caller.stdout.readline())
        folder = Path(begun["folder"])
        wait_until(has_logged(folder, events.StageStarted), "a stage at work")
        assert os.getsid(begun["pid"]) == begun["pid"] != os.getsid(caller.pid)
        os.killpg(caller.pid, signal.SIGHUP)
        os.kill(
            begun["pid"], signal.SIGHUP
        )  # as the end of a login session sends it to every process
        os.killpg(caller.pid, signal.SIGKILL)
        assert caller.wait(60) == -signal.SIGKILL
        assert record(folder)["state"] == "running"
    assert wait_for_end(folder) == "done"
    assert log_of(folder)[0] == events.RunStarted(run=begun["run"], stages=["rank"])
    assert [event.stage for event in log_of(folder) if isinstance(event, events.StageFinished)] == [
        "rank"
    ]
    wait_until(lambda: is_gone(begun["pid"]), "the end of its process")


def test_a_detached_run_that_cannot_begin_has_an_error(project: Path) -> None:
    (project / "runs").rename(project / "former")
    (project / "runs").write_text("no folder")
    completed = subprocess.run(
        [sys.executable, "-m", "engine", "adapt", str(project), "--detach", "--json"],
        env={**environment(), "BMEMBED_ERRORS": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    error = json.loads(completed.stderr.splitlines()[-1])
    assert completed.returncode != 0
    assert set(error) == {"type", "code", "what", "why", "to_do", "stage", "command"}
    assert str(project) in error["what"]
    assert completed.stdout == ""


def test_pause_resume_and_cancel_a_detached_training(project: Path) -> None:
    train_for(project, 400)
    folder = start(project, "--only", "train")
    if sys.platform == "linux":
        opened = {
            name: os.readlink(f"/proc/{record(folder)['pid']}/fd/{name}")
            for name in ("0", "1", "2")
        }
        assert opened["0"] == opened["1"] == "/dev/null"
        assert "deleted" in opened["2"], "errors go to a file that nobody else can open"
    wait_until(lambda: max(steps_logged(folder), default=0) >= 3, "three steps")
    engine_here("pause", str(project))
    wait_until(has_logged(folder, events.Paused), "the pause")
    steps = steps_logged(folder)
    status = read_status(Project.open(project))
    assert (status.running, status.resumes_at) == (True, None)
    progress = status.progress
    assert progress is not None
    assert (progress.stage, progress.paused) == ("train", "waiting")
    assert (progress.done, progress.total, progress.unit) == (steps[-1], 400, "steps")
    assert "engine resume" in engine_here("status", str(project)).stdout
    busy = engine_here(
        "adapt",
        str(project),
        "--detach",
        "--json",
        check=False,
    )
    assert (busy.returncode, busy.stdout) == (4, ""), "a paused run holds the project"
    assert "engine cancel" in busy.stderr
    assert steps_logged(folder) == steps, "it trained on although it was paused"
    engine_here("resume", str(project))
    wait_until(lambda: max(steps_logged(folder)) > steps[-1], "a step after the pause")
    control.pause(ProjectFolder(project))
    wait_until(lambda: isinstance(log_of(folder)[-1], events.Paused), "another pause")
    engine_here("cancel", str(project))
    assert wait_for_end(folder) == "cancelled"
    paused = [
        event.name for event in log_of(folder) if isinstance(event, events.Paused | events.Resumed)
    ]
    assert paused == ["paused", "resumed", "paused"]
    status = read_status(Project.open(project))
    assert status.progress is None
    assert status.resumes_at is not None
    assert status.resumes_at.steps == 400
    assert status.resumes_at.step >= max(steps_logged(folder))


PAUSING = """
import sys
from engine.core import events
from engine.project import control
from engine.runs import pipeline
from engine.project.folder import ProjectFolder
project = ProjectFolder.open(sys.argv[1])
def listen(event):
    if isinstance(event, events.StageStarted):
        control.pause(project)
    print(event.name, flush=True)
pipeline.run(project, stages=[sys.argv[2]], force=[sys.argv[2]], on_event=listen)
"""


@pytest.mark.parametrize(
    ("stage", "by"), [("index", "cancel"), ("rank", "kill"), ("rank", "resume")]
)
def test_a_stage_waits_at_its_first_safe_point(
    project: Path,
    stage: str,
    by: str,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PAUSING, str(project), stage],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as run:
        assert run.stdout is not None
        assert [run.stdout.readline().strip() for _ in range(2)] == ["run_started", "stage_started"]
        assert (
            next(line for line in run.stdout if line not in ("choice\n", "progress\n"))
            == "paused\n"
        )
        folder = max((project / "runs").iterdir())
        child = json.loads((folder / "stage.json").read_text())["pid"]
        assert not is_gone(child)
        if by == "kill":
            run.kill()
        else:
            getattr(control, by)(ProjectFolder(project))
        rest = [line.strip() for line in run.stdout]
    wait_until(lambda: is_gone(child), "the end of the stage's process")
    if by == "resume":
        assert (run.returncode, rest[0]) == (0, "resumed")
        assert rest[-2:] == ["stage_finished", "run_finished"]
    elif by == "cancel":
        assert rest == ["run_finished"]
        assert record(folder)["state"] == "cancelled"


def test_a_training_finished_early_is_done_and_the_run_goes_on(project: Path) -> None:
    train_for(project, 600)  # of more, the time is estimated: that loads the model once more
    folder = start(project, "--only", "train,evaluate")
    wait_until(lambda: max(steps_logged(folder), default=0) >= 3, "three steps")
    engine_here("finish", str(project))
    assert wait_for_end(folder) == "done"
    (choice,) = (
        event
        for event in log_of(folder)
        if isinstance(event, events.Choice) and event.setting == "steps"
    )
    assert 3 <= int(choice.value) < 600
    assert f"step {choice.value}" in choice.reason
    summaries = {
        event.stage: event.summary
        for event in log_of(folder)
        if isinstance(event, events.StageFinished)
    }
    assert list(summaries) == ["train", "evaluate"]
    assert (summaries["train"]["ended"], summaries["train"]["steps"]) == (
        "asked",
        int(choice.value),
    )
    again: list[events.Event] = []
    pipeline.run(
        ProjectFolder(project),
        stages=["train"],
        on_event=again.append,
    )
    assert any(isinstance(event, events.StageSkipped) for event in again), (
        "what was finished early is up to date"
    )
    assert not (project / "checkpoints").exists(), "a forced training would start from one"
