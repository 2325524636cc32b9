"""The copy that a sweep works in: made of the project as it is, used again, forgotten when the documents change."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.pipeline import copy_documents, stage_here

from engine.api import Project
from engine.cli.status_text import as_text, status_of
from engine.core.errors import CancelledError, EngineError, NotBuiltError, ProjectBusyError, ResourceError, StageError
from engine.core.records import JudgedQuery
from engine.experiments.sweep.grid import make_grid
from engine.experiments.sweep.running import Sweep, failure
from engine.experiments.sweep.workspace import Workspace, basis_of, sweeping, unfinished
from engine.export.purge import purge
from engine.project.folder import ProjectFolder


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "project"
    chosen = {"corpus": {"paths": ["documents"]}, "queries": {"max_queries": 30, "consistency_top": 0}}
    ProjectFolder.create(path, chosen)
    copy_documents(path / "documents", ("incidents",), 2)
    for stage in ("ingest", "index", "generate", "rank"):
        stage_here(path, stage)
    return path


@pytest.fixture
def project(built: Path, tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(Path(shutil.copytree(built, tmp_path / "project")))


def workspace(project: ProjectFolder) -> Workspace:
    return Workspace(project, basis_of(project)[0])


def judge(project: ProjectFolder, text: str) -> None:
    store = project.store()
    store.put_judged([JudgedQuery(text, text, ("evidence",))])
    store.close()


def test_the_copy_has_what_the_stages_need_and_no_documents(project: ProjectFolder) -> None:
    before = (project.path / "project.toml").read_bytes()
    copy = workspace(project).open()
    assert sorted(path.name for path in copy.path.iterdir() if path.is_dir()) == [
        "adapters", "cache", "lexical", "rankings", "reports",
    ]  # fmt: skip
    assert copy.settings().evaluation.interpolation_weights == []
    assert not copy.settings().evaluation.robustness
    assert (project.path / "project.toml").read_bytes() == before
    ours, theirs = project.store(), copy.store()
    assert theirs.queries() == ours.queries()
    assert theirs.artifacts() == ours.artifacts()
    ours.close()
    theirs.close()
    assert copy.path.stat().st_mode & 0o077 == 0


def test_a_sweep_that_was_begun_is_gone_on_with_though_more_was_judged(project: ProjectFolder) -> None:
    first = workspace(project)
    first.open()
    first.keep("k1", {"tables": {}})
    assert first.figures("k1") == {"key": "k1", "tables": {}}
    judge(project, "a new one")
    again = workspace(project)
    assert again.judged_since
    assert again.figures("k1")
    again.close()
    assert workspace(project).figures("k1") is None, "a finished sweep is not mixed with other judged queries"
    again.forget(basis_of(project)[0])
    assert not (project.path / "sweep").exists()


def test_a_cell_that_version_0_1_finished_counts(project: ProjectFolder) -> None:
    work = workspace(project)
    work.open()
    work.keep("k1", {"side": "query", "steps": 3})
    figures = work.figures("k1")
    assert figures is not None
    assert (figures["adapter_scope"], figures["steps"]) == ("queries", 3)


def test_other_documents_queries_or_models_make_another_sweep(project: ProjectFolder) -> None:
    first = workspace(project)
    first.open()
    project.change_settings({"training.steps": 5, "ranking.k": 20, "search.mode": "bm25"})
    assert workspace(project).folder == first.folder, "what cells set, and what none depends on"
    project.change_settings({"encoder.max_tokens": 64})
    other = workspace(project)
    assert other.folder != first.folder
    other.open()
    assert not first.folder.exists()


def test_a_torn_file_of_figures_is_a_cell_to_do(project: ProjectFolder) -> None:
    grid = make_grid(["training.steps=5,6"], project.settings(), 10)
    work = Sweep(project, grid, basis_of(project)[0])
    work.workspace.open()
    work.workspace.keep(grid.cells[0].key, {})
    assert [work.state(cell) for cell in grid.cells] == ["done", "to do"]
    (work.workspace.folder / "cells" / f"{grid.cells[0].key}.json").write_text('{"key": "')
    assert [cell.number for cell in work.to_do()] == [1, 2]


def test_what_is_not_built_yet_is_an_error(tmp_path: Path) -> None:
    with fails(NotBuiltError, "not-built", stage="generate"):
        basis_of(ProjectFolder.create(tmp_path / "new", {}))


def test_two_sweeps_at_once_are_refused(project: ProjectFolder) -> None:
    grid = make_grid(["training.steps=5"], project.settings(), 10)
    work = Sweep(project, grid, basis_of(project)[0])
    with project.locked("sweep"), fails(ProjectBusyError, "project-busy", "sweep"):
        work.run()
    with project.locked("sweep"), fails(ProjectBusyError, "project-busy", "sweep"):
        purge(project)
    with project.locked(), fails(ProjectBusyError, "project-busy", command="status"):
        work.workspace.open()
    assert not list((project.path / "sweep").glob("*/*project"))


def test_a_cell_has_the_projects_present_settings_and_its_own_changes(project: ProjectFolder) -> None:
    space = workspace(project)
    assert space.open({"ranking.k": 200}).settings().ranking.k == 200
    project.change_settings({"training.learning_rate": 0.004})
    found = space.open({"training.steps": 3}).settings()
    assert found.ranking.k == project.settings().ranking.k != 200
    assert (found.training.steps, found.training.learning_rate) == (3, 0.004)
    assert found.evaluation.interpolation_weights == []


def test_steering_reaches_the_copy_at_work(project: ProjectFolder) -> None:
    copy = workspace(project).open()
    assert sweeping(project) == project
    with copy.locked():
        assert sweeping(project) == copy
        with project.locked():
            assert sweeping(project) == project


def test_a_purge_takes_the_sweep_along(project: ProjectFolder) -> None:
    workspace(project).open()
    removed = purge(project).removed
    assert "sweep" in {one.path for one in removed}
    assert not (project.path / "sweep").exists()


class Scripted:
    """In place of the runs of the copy: what each of them comes to."""

    def __init__(self, *ends: EngineError | None) -> None:
        self.ends = list(ends)
        self.settings: list[object] = []

    def __call__(self, folder: ProjectFolder) -> Any:
        return SimpleNamespace(folder=folder, run=lambda *_, **__: self._run(folder))

    def _run(self, folder: ProjectFolder) -> None:
        self.settings.append(folder.settings().training.steps)
        if end := self.ends.pop(0):
            raise end


def scripted(monkeypatch: pytest.MonkeyPatch, *ends: EngineError | None) -> Scripted:
    made = Scripted(*ends)
    monkeypatch.setattr("engine.experiments.sweep.running.Project", made)
    figures = {"tables": {}, "geometry": {}, "adapter_scope": "both"}
    monkeypatch.setattr("engine.experiments.sweep.running.figures_of", lambda _project: figures)
    return made


def test_a_failed_cell_stops_no_other_and_is_tried_again(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = make_grid(["training.steps=5,6,7"], project.settings(), 10)
    work = Sweep(project, grid, basis_of(project)[0])
    made = scripted(monkeypatch, None, StageError("It broke.", "The reason."), None)
    found = work.run()
    assert made.settings == [5, 6, 7]
    assert found["finished"] == 2
    assert [cell["error"] and cell["error"]["what"] for cell in found["cells"]] == [None, "It broke.", None]
    assert ": 2" in str(failure(work.failed))
    assert work.workspace.copy.path.is_dir(), "there is something left to do"
    again = Sweep(project, grid, basis_of(project)[0])
    made = scripted(monkeypatch, None)
    assert again.run()["finished"] == 3
    assert made.settings == [6]
    assert not again.workspace.copy.path.exists()
    assert project.settings().training.steps is None


@pytest.mark.parametrize("end", [CancelledError("Stopped."), ResourceError("The disk is full.")])
def test_a_sweep_that_is_stopped_reports_what_it_has(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, end: EngineError
) -> None:
    grid = make_grid(["training.steps=5,6,7"], project.settings(), 10)
    scripted(monkeypatch, None, end)
    with pytest.raises(type(end)) as caught:
        Sweep(project, grid, basis_of(project)[0]).run()
    assert caught.value.command == ("sweep" if isinstance(end, CancelledError) else "")
    (report,) = project.path.glob("reports/sweep-*/sweep.json")
    assert json.loads(report.read_text())["finished"] == 1
    with pytest.raises(CancelledError):
        Sweep(project, grid, basis_of(project)[0]).run(should_stop=lambda: True)


def test_the_same_training_is_run_once(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    grid = make_grid(["ranking.m=6,9", "training.steps=5"], project.settings(), 10)
    made = scripted(monkeypatch, None)
    found = Sweep(project, grid, basis_of(project)[0]).run()
    assert made.settings == [5]
    assert [cell["same_as"] for cell in found["cells"]] == [None, 1]
    assert found["finished"] == 2


def test_a_sweep_that_is_not_finished_is_an_error(project: ProjectFolder) -> None:
    assert unfinished(project) is None
    work = workspace(project)
    work.open()
    work.keep("k1", {"tables": {}})
    assert unfinished(project) == {"running": False, "finished": 1, "folder": str(work.folder)}
    (line,) = [line for line in as_text(status_of(Project(project)), "mine") if "engine sweep" in line]
    assert "1 cell" in line
    assert "'engine sweep mine …'" in line
    with project.locked("sweep"):
        assert unfinished(project) == {"running": True, "finished": 1, "folder": str(work.folder)}
        assert all("engine sweep" not in line for line in as_text(status_of(Project(project)), "mine"))
    work.close()
    assert unfinished(project) is None
