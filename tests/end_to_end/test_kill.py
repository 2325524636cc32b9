"""kill -9 at any stage: the next run finishes with the same figures, and search answers in the meantime."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fixtures.pipeline import copy_documents, engine, environment, figures

from engine import events
from engine.stage import ORDER


@pytest.fixture(scope="module")
def changed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished project with more documents, so that every stage has work to do. Not run yet."""
    path = Path(shutil.copytree(finished, tmp_path_factory.mktemp("changed") / "project"))
    copy_documents(path / "documents", ("mail", "minutes"), 5)
    shutil.rmtree(path / "documents" / "incidents")
    copy_documents(path / "documents", ("incidents",), 6)
    return path


@pytest.fixture(scope="module")
def expected(changed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """The figures of an unbroken run over the changed documents."""
    path = Path(shutil.copytree(changed, tmp_path_factory.mktemp("unbroken") / "project"))
    engine("run", str(path))
    return figures(path)


def start_and_kill(project: Path, stage: str, victims: str, wanted: type[events.Event]) -> None:
    """Start a run and kill -9 it as soon as `stage` has told an event of the wanted kind."""
    before = set((project / "runs").iterdir())
    run = subprocess.Popen(
        [sys.executable, "-m", "engine", "run", str(project)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not any(reached(folder, stage, wanted) for folder in set((project / "runs").iterdir()) - before):
        assert run.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    (folder,) = set((project / "runs").iterdir()) - before
    while not (folder / "stage.json").exists() or json.loads((folder / "stage.json").read_text())["stage"] != stage:
        time.sleep(0.002)
    child = json.loads((folder / "stage.json").read_text())["pid"]
    if victims in ("both", "child"):
        os.kill(child, signal.SIGKILL)
    if victims in ("both", "parent"):
        run.kill()
    run.wait(60)


def reached(folder: Path, stage: str, wanted: type[events.Event]) -> bool:
    log = folder / "events.jsonl"
    if not log.exists():
        return False
    return any(isinstance(event, wanted) and getattr(event, "stage", "train") == stage for event, _ in events.read(log))


def assert_searchable(project: Path) -> None:
    for mode in ("bm25", "semantic"):
        found = json.loads(engine("search", str(project), "freezer door left open", "--mode", mode, "--json").stdout)
        assert found["hits"], mode
        assert all(hit["snippet"] for hit in found["hits"])


@pytest.mark.parametrize("stage", ORDER)
def test_a_run_killed_in_any_stage_resumes_to_the_same_figures(
    changed: Path, expected: dict[str, object], tmp_path: Path, stage: str
) -> None:
    project = Path(shutil.copytree(changed, tmp_path / "project"))
    wanted = events.TrainStep if stage == "train" else events.StageStarted
    start_and_kill(project, stage, "both", wanted)
    assert_searchable(project)
    engine("run", str(project))
    assert figures(project) == expected
    assert_searchable(project)
    assert not list(project.glob("*/.tmp-*")), "leftovers of the interrupted build"


def test_a_killed_parent_takes_its_child_along_and_frees_the_lock(changed: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(changed, tmp_path / "project"))
    start_and_kill(project, "train", "parent", events.TrainStep)
    assert engine("run", str(project), check=False).returncode == 0


def test_a_killed_child_ends_the_run_with_a_clear_error(changed: Path, tmp_path: Path) -> None:
    project = Path(shutil.copytree(changed, tmp_path / "project"))
    start_and_kill(project, "train", "child", events.TrainStep)
    newest = sorted((project / "runs").iterdir())[-1]
    failures = [event for event, _ in events.read(newest / "events.jsonl") if isinstance(event, events.StageFailed)]
    assert len(failures) == 1
    assert "killed" in failures[0].error["what"]
    assert json.loads((newest / "run.json").read_text())["state"] == "failed"
