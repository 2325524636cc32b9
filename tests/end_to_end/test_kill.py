"""kill -9 at any moment: the next run finishes with the same figures, and search answers in the
meantime.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from fixtures.endings import KILLED_CODE
from fixtures.pipeline import copy_documents, copy_project, engine_here, environment, figures
from fixtures.preloaded import KILLING

from engine import Project
from engine.core import events
from engine.project.folder import ProjectFolder
from engine.project.stage import ORDER

# of each stage, those after which the stage alone is done again, and those after which a whole run
# follows
MOMENTS = [
    ("ingest", "transaction-1", "stage"),  # what is gone is being forgotten
    pytest.param(
        "ingest", "transaction-2", "run", marks=pytest.mark.slow
    ),  # what is new is being read
    ("ingest", "before-row", "stage"),
    ("index", "before-rename", "stage"),
    pytest.param("index", "renamed", "run", marks=pytest.mark.slow),
    pytest.param(
        "generate", "transaction-1", "run", marks=pytest.mark.slow
    ),  # the queries are being replaced
    ("generate", "row", "stage"),
    ("rank", "before-rename", "stage"),
    pytest.param("rank", "renamed", "run", marks=pytest.mark.slow),
    ("train", "before-rename", "stage"),
    pytest.param("train", "renamed", "run", marks=pytest.mark.slow),
    pytest.param("evaluate", "before-rename", "stage", marks=pytest.mark.slow),
    pytest.param("evaluate", "renamed", "run", marks=pytest.mark.slow),
    pytest.param("embed", "before-rename", "stage", marks=pytest.mark.slow),
    pytest.param("embed", "renamed", "run", marks=pytest.mark.slow),
    ("embed", "row", "stage"),
]


@pytest.fixture(scope="module")
def changed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished project with more documents, so that every stage has work to do. Not run yet."""
    path = copy_project(finished, tmp_path_factory.mktemp("changed") / "project")
    copy_documents(
        path / "documents",
        ("mail", "minutes"),
        5,
    )
    shutil.rmtree(path / "documents" / "incidents")
    copy_documents(
        path / "documents",
        ("incidents",),
        6,
    )
    return path


@pytest.fixture(scope="module")
def before(changed: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Stage → a copy of the changed project in which the stages before it are done; `end`: all
    are.
    """
    root = tmp_path_factory.mktemp("before")
    copies = {}
    path = Path(shutil.copytree(changed, root / "walk"))
    for stage in ORDER:
        copies[stage] = Path(shutil.copytree(path, root / stage))
        engine_here(stage, str(path))
    return {**copies, "end": path}


@pytest.fixture(scope="module")
def expected(before: dict[str, Path]) -> dict[str, object]:
    """The figures of unbroken stages over the changed documents."""
    return figures(before["end"])


def killed(
    project: Path,
    stage: str,
    point: str,
    *arguments: str,
) -> None:
    """Run `engine` until it, and the stage's process, are killed at that moment."""
    path = os.pathsep.join([KILLING, environment()["PYTHONPATH"]])
    run = subprocess.run(
        [sys.executable, "-m", "engine", *arguments, str(project)],
        env={**environment(), "PYTHONPATH": path, "KILL_STAGE": stage, "KILL_POINT": point},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == -signal.SIGKILL, f"it went past {point}: {run.stderr}"
    newest = max((project / "runs").iterdir())
    assert json.loads((newest / "run.json").read_text())["state"] == "running", (
        "the run had time to tidy up"
    )


OF_THE_FILES = re.compile(
    r"gone\.$|changed since (it was|they were) read\.$|reads what is there now\.$|not in .* yet: "
)  # the test changed them


def assert_searchable(path: Path) -> None:
    project = Project.open(path)
    for mode in ("bm25", "semantic"):
        result = project.search("freezer door left open", mode=mode)
        assert result.hits, mode
        assert not [note for note in result.notes if not OF_THE_FILES.search(note)]
        assert all(hit.snippet for hit in result.hits)
    project.close()


def assert_tidy(project: Path) -> None:
    """Every artifact folder is named by the database, and nothing is left of interrupted builds.

    On Windows, but for an index that this process still has open. The next run removes it.
    """
    from engine.core.platforms.files import find_leftovers
    from engine.runs.pipeline import find_folders_in_use

    folder = ProjectFolder.open(project)
    store = folder.store(check=True)
    named = find_folders_in_use(store)
    store.close()
    there = {
        f"{root}/{path.name}"
        for root in ("lexical", "rankings", "adapters", "reports", "vectors")
        for path in set((project / root).iterdir()) - set(find_leftovers(project / root))
    }
    assert there == named


def built(path: Path) -> dict[str, object]:
    """Kind of artifact → all that decides what later stages make of it, without anything that
    names a run or folder.
    """
    store = ProjectFolder.open(path).store()
    try:
        artifacts = store.artifacts()
        queries = [(query.text, query.split, query.evidence) for query in store.queries()]
        counts = store.counts()
    finally:
        store.close()
    left_out = ("adapter", "seconds")  # a folder, and a time
    contents = {
        kind: (
            artifact.fingerprint,
            {key: value for key, value in artifact.info.to_dict().items() if key not in left_out},
        )
        for kind, artifact in artifacts.items()
    }
    return {**contents, "rows": counts, "asked": queries}


@pytest.mark.posix(reason="SIGKILL at a chosen moment")
@pytest.mark.parametrize(("stage", "point", "then"), MOMENTS)
def test_a_stage_killed_at_any_moment_is_done_again_to_the_same_figures(
    before: dict[str, Path],
    expected: dict[str, object],
    tmp_path: Path,
    stage: str,
    point: str,
    then: str,
) -> None:
    project = Path(shutil.copytree(before[stage], tmp_path / "project"))
    killed(project, stage, point, stage)
    assert_searchable(project)
    if then == "stage":
        engine_here(stage, str(project))
        assert built(project) == built(before[(*ORDER, "end")[ORDER.index(stage) + 1]])
    else:
        engine_here("adapt", str(project))
        assert figures(project) == expected
    assert_searchable(project)
    assert_tidy(project)


@pytest.mark.posix(reason="SIGKILL at a chosen moment")
def test_a_run_killed_while_it_tidies_up(
    before: dict[str, Path], expected: dict[str, object], tmp_path: Path
) -> None:
    project = Path(shutil.copytree(before["end"], tmp_path / "project"))
    (project / "lexical" / ("0" * 16)).mkdir()
    killed(project, "tidy", "backup", "index")
    assert (project / "lexical" / ("0" * 16)).exists()
    assert_searchable(project)
    engine_here("adapt", str(project))
    assert figures(project) == expected
    assert_tidy(project)


def started(project: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "engine", *arguments, str(project)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def new_run(
    run: subprocess.Popen[bytes], project: Path, before: set[Path], begun: Callable[[Path], bool]
) -> Path:
    """The folder of the run that has come since, once it has `begun`."""
    deadline = time.monotonic() + 120
    while True:
        for folder in set((project / "runs").iterdir()) - before:
            if begun(folder):
                return folder
        assert run.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def trains(folder: Path) -> bool:
    return any(
        isinstance(event, events.TrainStep) for event, _ in events.read(folder / "events.jsonl")
    )


@pytest.mark.parametrize("victims", ["parent", pytest.param("both", marks=pytest.mark.slow)])
def test_a_run_killed_in_training_frees_the_lock_and_resumes_to_the_same_figures(
    before: dict[str, Path], expected: dict[str, object], tmp_path: Path, victims: str
) -> None:
    """A killed parent takes its child along."""
    project = Path(shutil.copytree(before["train"], tmp_path / "project"))
    earlier = set((project / "runs").iterdir())
    run = started(project, "adapt")
    stage = json.loads((new_run(run, project, earlier, trains) / "stage.json").read_text())
    assert stage["stage"] == "train"
    if victims == "both":
        psutil.Process(stage["pid"]).kill()
    run.kill()
    run.wait(60)
    assert_searchable(project)
    engine_here("adapt", str(project))
    assert figures(project) == expected
    assert_tidy(project)


def test_a_killed_child_ends_the_run_with_a_clear_error(
    before: dict[str, Path], tmp_path: Path
) -> None:
    project = Path(shutil.copytree(before["train"], tmp_path / "project"))
    earlier = set((project / "runs").iterdir())
    # the stage waits for it: it cannot end before it is killed
    with ProjectFolder(project).locked("stage"):
        run = started(project, "index", "--force")
        newest = new_run(
            run,
            project,
            earlier,
            lambda folder: (folder / "stage.json").exists(),
        )
        psutil.Process(json.loads((newest / "stage.json").read_text())["pid"]).kill()
    run.wait(60)
    failures = [
        event
        for event, _ in events.read(newest / "events.jsonl")
        if isinstance(event, events.StageFailed)
    ]
    assert len(failures) == 1
    assert failures[0].error["code"] == KILLED_CODE
    assert json.loads((newest / "run.json").read_text())["state"] == "failed"
