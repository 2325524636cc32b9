"""One run at a time holds a project."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.project_files import mode

from engine.core.errors import EngineError, ProjectBusyError
from engine.core.subprocesses import import_path
from engine.project.folder import ProjectFolder, holder_of


@pytest.fixture
def command() -> str:
    """What the other process does."""
    return "run"


@pytest.fixture
def is_run() -> bool:
    """Whether it is a run."""
    return True


@pytest.fixture
def holder(
    project: ProjectFolder,
    command: str,
    is_run: bool,
) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds the project."""
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom engine.project.folder import"
        " ProjectFolder\nproject, command, is_run = sys.argv[1:]\nif command:\n"
        "    sys.argv = ['/somewhere/bin/engine', command, 'a query', project]\n"
        "with ProjectFolder(Path(project)).locked(is_run=bool(is_run)):\n"
        "    print('held', flush=True)\n    time.sleep(60)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(project.path), command, "run" if is_run else ""],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": import_path()},
    )
    assert child.stdout is not None
    assert child.stdout.readline().rstrip() == b"held"
    yield child
    child.kill()
    child.wait()


def test_the_lock_is_held_against_another_process_and_freed_by_its_death(
    project: ProjectFolder, holder: subprocess.Popen[bytes]
) -> None:
    by_whom = f"engine run (process {holder.pid}, since {date.today()}"
    with (
        fails(ProjectBusyError, "project-busy", by_whom, command="status") as caught,
        project.locked(),
    ):
        pass
    assert caught.value.exit_code == 4
    assert "a query" not in (project.path / "run.lock").read_text()
    assert project.is_running()
    with project.locked("stage"):
        pass
    holder.kill()
    holder.wait()
    assert not project.is_running()
    with project.locked():
        assert project.is_running()


@pytest.mark.parametrize("command", ["export", "runs", "/a/project", ""])
@pytest.mark.parametrize("is_run", [False])
@pytest.mark.usefixtures("holder")
def test_what_holds_a_project_and_is_no_run_is_not_to_be_cancelled(project: ProjectFolder) -> None:
    with pytest.raises(ProjectBusyError) as caught, project.locked():
        pass
    assert caught.value.command == ""
    assert "'engine" not in caught.value.to_do


@pytest.mark.parametrize("command", [""])
@pytest.mark.usefixtures("holder")
def test_a_run_that_no_command_line_has_begun_can_be_cancelled(project: ProjectFolder) -> None:
    with fails(ProjectBusyError, "project-busy", command="status"), project.locked():
        pass


def test_a_process_that_is_gone_holds_nothing(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    record = {
        "pid": gone.pid,
        "since": "2026-11-28 13:05",
        "command": "engine run",
    }
    for text in (json.dumps(record), "", "4711", "[]", "{}", '{"pid": "x"}', "null"):
        (tmp_path / "run.lock").write_text(text)
        assert holder_of(tmp_path / "run.lock") is None
    assert holder_of(tmp_path / "none.lock") is None


def test_the_lock_is_released_by_an_exception(project: ProjectFolder) -> None:
    with pytest.raises(ValueError, match="x"), project.locked():
        raise ValueError("x")
    with project.locked():
        assert mode(project.path / "run.lock") == 0o600


def test_asking_whether_a_run_holds_the_project_does_not_stop_one_from_starting(
    project: ProjectFolder,
) -> None:
    asking = threading.Event()
    finished = threading.Event()

    def ask() -> None:
        with project.locked():  # as `is_running` does, but longer
            asking.set()
            finished.wait(0.05)

    thread = threading.Thread(target=ask)
    thread.start()
    assert asking.wait(60)
    with project.locked():
        thread.join(60)
    assert not thread.is_alive()


def test_a_folder_that_cannot_be_locked(project: ProjectFolder) -> None:
    (project.path / "run.lock").mkdir()
    with fails(EngineError, "project-not-locked"), project.locked():
        pass
