"""`engine sweep` as a user runs it: real trainings in a copy, killed and continued, the project
left as it is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.errors import error_of
from fixtures.pipeline import engine, engine_here, environment, figures
from fixtures.shown_numbers import numbers

from engine import Project
from engine.core import events
from engine.lab.study.measures import SETS
from engine.project.folder import ProjectFolder

LONG = (
    "--grid",
    "training.steps=600",
    "--grid",
    "training.patience=100",
)  # lasts longer than three commands
WAIT = 600  # seconds, where much else runs on the machine
Start = Callable[..., "subprocess.Popen[str]"]
AXES = (
    "--grid",
    "training.objective=infonce,listnet",
    "--grid",
    "ranking.m=4",
    "--grid",
    "training.steps=60",
)


def state(path: Path) -> tuple[object, ...]:
    """What must not change: settings, artifacts, queries and what search finds."""
    project = Project.open(path)
    store = project.folder.store()
    records = (store.artifacts(), store.queries(), store.judged())
    store.close()
    hits = [(hit.chunk_id, hit.score) for hit in project.search("freezer door left open").hits]
    project.close()
    return (path / "project.toml").read_bytes(), records, hits


def without_times(page: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """All cells and rows without what depends on the clock."""
    for row in page["rows"]:
        row["values"].pop("training seconds", None)
    return [{**cell, "seconds": None} for cell in page["cells"]], page["rows"]


def steps_told(copy: Path) -> list[int]:
    newest = max((copy / "runs").iterdir())
    logged = (event for event, _ in events.read(newest / "events.jsonl"))
    return [event.step for event in logged if isinstance(event, events.TrainStep)]


@pytest.fixture
def start() -> Iterator[Start]:
    """Begins a sweep; those that a test leaves behind are ended."""
    begun: list[subprocess.Popen[str]] = []

    def begin(project: Path, *axes: str) -> subprocess.Popen[str]:
        run = subprocess.Popen(
            [sys.executable, "-m", "engine", "sweep", str(project), *(axes or AXES)],
            env=environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        begun.append(run)
        return run

    yield begin
    for run in begun:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(run.pid)
            for started in (*process.children(recursive=True), process):
                started.terminate()


def until_second_cell_has_a_checkpoint(project: Path, run: subprocess.Popen[str]) -> Path:
    """Returns the sweep's copy of the project."""
    deadline = time.monotonic() + WAIT
    while True:
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < deadline
        if list(project.glob("sweep/*/cells/*.json")) and list(
            project.glob("sweep/*/project/checkpoints/*/step-*")
        ):
            return next(project.glob("sweep/*/project"))
        time.sleep(0.01)


def test_a_dry_run_lists_the_cells_and_makes_nothing(project: Path) -> None:
    completed = engine_here("sweep", str(project), *AXES, "--dry-run")
    assert numbers(completed.stderr) == [2, 2, 120, 2], "cells, those to train, steps, evaluations"
    assert completed.stdout.splitlines()[0].split("  ")[1:] == ["1", "objective infonce", "[to do]"]
    plan = json.loads(engine_here("sweep", str(project), *AXES, "--dry-run", "--json").stdout)
    assert [cell["state"] for cell in plan["cells"]] == ["to do", "to do"]
    assert not (project / "sweep").exists()
    code, error = error_of("sweep", str(project), "--grid", "training.k=3")
    assert (code, error["code"], "ranking.k" in error["to_do"]) == (2, "settings-unknown-key", True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_killed_sweep_goes_on_where_it_was(start: Start, project: Path, tmp_path: Path) -> None:
    unbroken = Path(shutil.copytree(project, tmp_path / "unbroken"))
    before = state(project)
    run = start(project)
    copy = until_second_cell_has_a_checkpoint(project, run)
    child = json.loads((max((copy / "runs").iterdir()) / "stage.json").read_text())["pid"]
    for pid in (run.pid, child):
        psutil.Process(pid).kill()
    run.communicate(timeout=60)
    (finished_cell,) = project.glob("sweep/*/cells/*.json")
    finished = finished_cell.read_bytes(), finished_cell.stat().st_mtime_ns
    assert state(project) == before
    engine("import-judgments", str(project), str(_question(tmp_path)))
    plan = json.loads(engine("sweep", str(project), *AXES, "--dry-run", "--json").stdout)
    assert ([cell["state"] for cell in plan["cells"]], plan["to_do"]) == (["done", "to do"], 1)
    again = engine("sweep", str(project), *AXES, "--json")
    assert "--force" in again.stderr, "the judged queries have changed since it began"
    assert (finished_cell.read_bytes(), finished_cell.stat().st_mtime_ns) == finished
    page = json.loads(again.stdout)
    assert without_times(page) == without_times(
        json.loads(engine("sweep", str(unbroken), *AXES, "--json").stdout)
    )
    assert page["finished"] == 2
    assert [row["label"] for row in page["rows"]] == [
        "BM25",
        "base",
        "objective infonce",
        "objective listnet",
    ]
    assert {"ndcg@10", "held-out ndcg@10"} <= set(page["columns"])
    assert all(row["values"]["Δ held-out ndcg@10"]["verdict"] for row in page["rows"][2:])
    assert not copy.exists(), "a finished sweep needs no copy"
    engine("sweep", str(project), "--grid", "search.top=3", check=False)
    assert state(project)[0] == before[0]
    assert state(project)[2] == before[2]
    engine("index", str(project))
    assert (Path(page["folder"]) / f"{page['name']}.html").is_file(), (
        "the next run tidied the report away"
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_half_trained_cell_resumes_and_what_cells_share_is_made_once(
    start: Start, project: Path
) -> None:
    run = start(project, *AXES[:-2], *LONG)
    copy = until_second_cell_has_a_checkpoint(project, run)
    (project_cells,) = project.glob("sweep/*/cells")
    assert len(list(project_cells.iterdir())) == 1
    engine("pause", str(project))
    engine("resume", str(project))
    engine("cancel", str(project))
    _, reported = run.communicate(timeout=60)
    assert run.returncode == 130, reported
    reached = int(
        max(path.name for path in copy.glob("checkpoints/*/step-*")).removeprefix("step-")
    )
    sweep = start(project, *AXES[:-2], *LONG)
    deadline = time.monotonic() + WAIT
    newest = max((copy / "runs").iterdir())
    while not ((fresh := max((copy / "runs").iterdir())) != newest and steps_told(copy)):
        assert sweep.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert min(steps_told(copy)) > reached, "the second cell began from its first step"
    skipped = [
        event.stage
        for event, _ in events.read(fresh / "events.jsonl")
        if isinstance(event, events.StageSkipped)
    ]
    assert skipped == ["rank"], "the rankings are those of the first cell"
    output, told_of_cells = sweep.communicate(timeout=WAIT)
    assert sweep.returncode == 0, told_of_cells
    (page,) = project.glob("studies/sweep-*.json")
    content = json.loads(page.read_text())
    assert content["finished"] == 2
    assert {f"Δ {queries}ndcg@10" for queries in SETS.values()} <= set(content["columns"])
    assert all(row["values"]["Δ held-out ndcg@10"]["verdict"] for row in content["rows"][2:])
    assert str(page.with_suffix(".html")) in output
    assert figures(project)["in_use"], "the project's own report stands"
    assert not ProjectFolder(project).is_running()


def _question(folder: Path) -> Path:
    path = folder / "question.jsonl"
    path.write_text(json.dumps({"query": "asked since", "evidence": ["freezer"]}) + "\n")
    return path
