"""The copy that a sweep works in: made of the project as it is, used again, forgotten when the
documents change.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.pipeline import copy_documents, stage_here
from fixtures.project_files import mode
from fixtures.tiny_model import build_tiny_model

from engine.api import Project
from engine.cli.status_text import format_status, read_status
from engine.core.errors import (
    CancelledError,
    DatasetError,
    EngineError,
    NotBuiltError,
    ProjectBusyError,
    ResourceError,
    SettingsError,
    StageError,
)
from engine.core.records import JudgedQuery
from engine.endpoint.servers import known_servers, note_server
from engine.export.purge import purge
from engine.lab.study.catalogue import study_of, sweep_of
from engine.lab.study.grid import Cell, changed_settings, make_grid
from engine.lab.study.listing import listing
from engine.lab.study.running import StudyRun, failure, study_cells
from engine.lab.study.workspace import (
    Workspace,
    basis_of,
    find_controlled_project,
    read_unfinished_sweep,
)
from engine.project.folder import ProjectFolder
from engine.training.recipe import config_of

SERVER = "http://127.0.0.1:8080/v1"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("built") / "project"
    chosen = {
        "corpus": {"paths": ["documents"]},
        "queries": {"max_queries": 30, "consistency_top": 0},
    }
    ProjectFolder.create(path, chosen)
    copy_documents(
        path / "documents",
        ("incidents",),
        2,
    )
    for stage in ("ingest", "index", "generate", "rank"):
        stage_here(path, stage)
    return path


@pytest.fixture
def project(built: Path, tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(Path(shutil.copytree(built, tmp_path / "project")))


def workspace(project: ProjectFolder) -> Workspace:
    return Workspace(project, basis_of(project)[0])


def sweep(project: ProjectFolder, *cells: Cell) -> StudyRun:
    return StudyRun(
        project,
        sweep_of(cells),
        cells,
        basis_of(project)[0],
    )


def judge(project: ProjectFolder, text: str) -> None:
    store = project.store()
    store.put_judged([JudgedQuery(text, text, ("evidence",))])
    store.close()


def test_the_copy_has_what_the_stages_need_and_no_documents(project: ProjectFolder) -> None:
    before = (project.path / "project.toml").read_bytes()
    copy = workspace(project).open()
    assert sorted(path.name for path in copy.path.iterdir() if path.is_dir()) == [
        "adapters",
        "cache",
        "imports",
        "lexical",
        "rankings",
        "reports",
    ]
    assert copy.settings().evaluation.interpolation_weights == []
    assert (project.path / "project.toml").read_bytes() == before
    ours = project.store()
    theirs = copy.store()
    assert theirs.queries() == ours.queries()
    assert theirs.artifacts() == ours.artifacts()
    ours.close()
    theirs.close()
    assert mode(copy.path) & 0o077 == 0


def test_a_sweep_that_was_begun_is_gone_on_with_though_more_was_judged(
    project: ProjectFolder,
) -> None:
    first = workspace(project)
    first.open()
    first.keep("k1", {"tables": {}})
    assert first.figures("k1") == {"key": "k1", "tables": {}}
    judge(project, "a new one")
    again = workspace(project)
    assert again.judged_since
    assert again.figures("k1")
    again.close()
    assert workspace(project).figures("k1") is None, (
        "a finished sweep is not mixed with other judged queries"
    )
    again.forget(basis_of(project)[0])
    assert not (project.path / "sweep").exists()


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
    before = workspace(project).folder
    project.change_settings({"evaluation.depth": 50})
    assert workspace(project).folder != before, "figures depend on it"


def test_the_figures_of_a_study_are_of_as_many_hits_as_is_asked_for(
    project: ProjectFolder,
) -> None:
    judge(project, "a question")
    wanted = study_of("domain-t3")
    basis, chunks = basis_of(project)
    keys = set()
    for top in (9, 3):
        cells = study_cells(
            project,
            wanted,
            chunks,
            settings={"lab.top_k": top},
        )
        own = StudyRun(project, wanted, cells, basis).study
        assert own.columns[0] == f"accuracy@{top}"
        assert own.correlations[0].of == [f"accuracy@{top}", "COE"]
        assert changed_settings(project.settings(), cells[0].changes), "they are no settings"
        keys.add(cells[0].key)
    assert len(keys) == 2, "figures depend on it"


def test_a_torn_file_of_figures_is_a_cell_to_do(project: ProjectFolder) -> None:
    cells = make_grid(
        ["training.steps=5,6"],
        project.settings(),
        10,
    )
    work = sweep(project, *cells)
    work.workspace.open()
    work.workspace.keep(cells[0].key, {})
    assert [work.state(cell) for cell in cells] == ["done", "to do"]
    (work.workspace.folder / "cells" / f"{cells[0].key}.json").write_text('{"key": "')
    assert [cell.number for cell in work.to_do()] == [1, 2]


def test_an_artifact_that_is_not_built_yet_is_an_error(tmp_path: Path) -> None:
    with fails(NotBuiltError, "not-built", stage="generate"):
        basis_of(ProjectFolder.create(tmp_path / "new", {}))


def test_two_sweeps_at_once_are_refused(project: ProjectFolder) -> None:
    cells = make_grid(
        ["training.steps=5"],
        project.settings(),
        10,
    )
    work = sweep(project, *cells)
    with project.locked("sweep"), fails(ProjectBusyError, "project-busy", "sweep"):
        work.run()
    with project.locked("sweep"), fails(ProjectBusyError, "project-busy", "sweep"):
        purge(project)
    with (
        project.locked(is_run=True),
        fails(ProjectBusyError, "project-busy", command="status"),
    ):
        work.workspace.open()
    assert not list((project.path / "sweep").glob("*/*project"))


def test_a_cell_has_the_projects_present_settings_and_its_own_changes(
    project: ProjectFolder,
) -> None:
    space = workspace(project)
    assert space.open({"ranking.k": 200}).settings().ranking.k == 200
    project.change_settings({"training.learning_rate": 0.004})
    found = space.open({"training.steps": 3}).settings()
    assert found.ranking.k == project.settings().ranking.k != 200
    assert (found.training.steps, found.training.learning_rate) == (3, 0.004)
    assert found.evaluation.interpolation_weights == []


def test_steering_reaches_the_copy_at_work(project: ProjectFolder) -> None:
    copy = workspace(project).open()
    assert find_controlled_project(project) == project
    with copy.locked():
        assert find_controlled_project(project) == copy
        with project.locked():
            assert find_controlled_project(project) == project


def test_a_purge_takes_the_sweep_along(project: ProjectFolder) -> None:
    workspace(project).open()
    removed = purge(project).removed
    assert "sweep" in {one.path for one in removed}
    assert not (project.path / "sweep").exists()


def test_what_a_study_lacks_is_an_error(project: ProjectFolder) -> None:
    for name in ("bmembed-t2", "bmembed-t8"):
        with fails(DatasetError, "study-data-missing"):
            study_cells(
                project,
                study_of(name),
                10,
            )
    judge(project, "a question")
    cells = study_cells(
        project,
        study_of("bmembed-t2"),
        10,
    )
    assert cells
    with fails(DatasetError, "study-data-missing"):  # no document answers it
        StudyRun(project, study_of("bmembed-t2"), cells, basis_of(project)[0]).run()
    with fails(SettingsError, "study-setting-of-the-data", "corpus.chunk_tokens"):
        study_cells(
            project,
            study_of("bmembed-t2"),
            10,
            settings={"corpus.chunk_tokens": 64},
        )


def test_the_cells_of_a_study_have_its_recipe_not_the_projects(
    project: ProjectFolder, tiny_model: Path
) -> None:
    judge(project, "a question")
    project.change_settings(
        {
            "training.learning_rate": 0.05,
            "training.seed": 7,
            "encoder.pooling": "cls",
            "ranking.k": 60,
        }
    )
    models = [str(tiny_model), "all-MiniLM-L6-v2"]
    cells = study_cells(
        project, study_of("bmembed-t9"), 10, models, seeds=2, settings={"training.steps": 3}
    )
    assert [(cell.model, cell.label.split(",")[0], cell.seed) for cell in cells[:3]] == [
        (tiny_model.name, "all queries", 7),
        (tiny_model.name, "all queries", 8),
        (tiny_model.name, "50 % of the queries", 7),
    ]
    assert len(cells) == len({cell.key for cell in cells}) == 12
    copy = workspace(project).open(cells[-1].changes).settings()
    assert (copy.encoder.model, copy.encoder.pooling, copy.training.seed) == (
        "all-MiniLM-L6-v2",
        "from the model",
        8,
    )
    assert (copy.training.learning_rate, copy.training.preset, copy.training.steps) == (
        None,
        "paper",
        3,
    )
    assert (copy.ranking.k, copy.evaluation.use_judged) == (
        60,
        False,
    ), "the project's depth; judged questions choose nothing"


@pytest.mark.parametrize("by", ["project", "study"])
def test_the_small_model_is_used_in_mafins_tables_only(
    project: ProjectFolder, tiny_model: Path, by: str
) -> None:
    judge(project, "a question")
    small_model = {"encoder.small_model": str(tiny_model)}
    given: dict[str, Any] = {}
    if by == "project":
        project.change_settings(small_model)
    else:
        given = small_model
    own = project.settings()
    for name, small, augmentation in (
        ("bmembed-t2", "", None),
        ("domain-t2", "", None),
        ("pipelines-2", "", None),
        ("mafin-t1", str(tiny_model), "mafin"),
    ):
        for models in ((), (str(tiny_model),)):
            for cell in study_cells(project, study_of(name), 10, models, settings=given):
                found = changed_settings(own, cell.changes)
                assert (found.encoder.small_model, config_of(found).augmentation) == (
                    small,
                    augmentation,
                ), cell.name


def test_a_label_smoothing_that_is_set_is_not_searched_for(
    project: ProjectFolder, tiny_model: Path
) -> None:
    judge(project, "a question")
    small = {"encoder.small_model": str(tiny_model)}
    keys = [
        study_cells(project, study_of("mafin-t1"), 10, settings={**small, **given})[0].key
        for given in ({}, {"training.label_smoothing": 0.1}, {"training.label_smoothing": 0.2}, {})
    ]
    assert keys[0] == keys[3]
    assert len(set(keys)) == 3


def test_other_weights_in_the_folder_of_the_small_model_are_measured_again(
    project: ProjectFolder, tmp_path: Path
) -> None:
    judge(project, "a question")
    small = tmp_path / "small"
    found = []
    project.change_settings({"encoder.small_model": str(small)})
    for seed in (1, 2):
        shutil.rmtree(small, ignore_errors=True)
        build_tiny_model(small, seed=seed)
        cell, _ = study_cells(
            project,
            study_of("mafin-t1"),
            10,
        )
        found.append((cell.key, basis_of(project)[0].data))
    assert all(one != other for one, other in zip(*found, strict=True)), (
        "sweeps have the basis alone"
    )


def test_models_whose_folders_are_called_the_same_are_told_apart(
    project: ProjectFolder, tmp_path: Path
) -> None:
    judge(project, "a question")
    a, b, hub = (
        str(build_tiny_model(tmp_path / at))
        for at in ("a/m", "b/m", "models--org--m2/snapshots/0f3")
    )
    cells = study_cells(
        project,
        study_of("bmembed-t6"),
        10,
        [a, b, hub],
        seeds=2,
    )
    assert [cell.model for cell in cells] == [a, a, b, b, "m2", "m2"]


def test_other_sentence_pairs_and_general_questions_are_measured_again(
    project: ProjectFolder,
) -> None:
    pairs = project.path / "pairs.tsv"
    general = project.path / "general"
    (general / "qrels").mkdir(parents=True)
    files = [
        pairs,
        general / "corpus.jsonl",
        general / "qrels" / "test.tsv",
    ]
    for file in files:
        file.write_text("a\tb\t1\n")
    options = {"lab.sentence_pairs": "pairs.tsv", "lab.general_set": "general"}

    def key() -> str:
        return study_cells(project, study_of("bmembed-t8"), 10, settings=options)[0].key

    keys = [key(), key()]
    assert keys[0] == keys[1]
    for number, file in enumerate(files, 1):
        os.utime(file, (number, number))
        keys.append(key())
    assert len(set(keys)) == 4


@pytest.mark.parametrize("place", ["project", "current folder"])
def test_sentence_pairs_may_be_given_for_the_study_alone(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = project.path if place == "project" else tmp_path
    (folder / "given.tsv").write_text("a\tb\t1\n")
    (cell,) = study_cells(
        project, study_of("bmembed-t8"), 10, settings={"lab.sentence_pairs": "given.tsv"}
    )
    assert cell.changes["lab.sentence_pairs"] == str(folder / "given.tsv")


def test_what_studies_take(project: ProjectFolder) -> None:
    assert [one.cells for one in listing(None) if one.name in ("bmembed-t1", "bmembed-t10")] == [
        0,
        21,
    ]
    judge(project, "a question")
    found = {one.name: one for one in listing(project)}
    assert found["bmembed-t8"].missing
    assert (found["bmembed-t2"].to_do, found["bmembed-t2"].more) == (2, False)
    assert found["bmembed-t7"].seconds == pytest.approx(2 * found["bmembed-t6"].seconds, rel=0.01)
    cells = study_cells(
        project,
        study_of("bmembed-t6"),
        basis_of(project)[1],
    )
    work = workspace(project)
    work.open()
    work.keep(cells[0].key, {"rows": {}})
    again = {one.name: one.to_do for one in listing(project)}
    assert (again["bmembed-t6"], again["bmembed-t7"]) == (
        0,
        1,
    ), "finished cells count for every study"


def test_the_list_counts_what_is_asked_for(project: ProjectFolder) -> None:
    judge(project, "a question")
    small = {"encoder.small_model": "all-MiniLM-L6-v2", "training.epochs": 1}
    once = {one.name: one for one in listing(project, settings=small)}
    thrice = {one.name: one for one in listing(project, seeds=3, settings=small)}
    assert (once["bmembed-t6"].cells, thrice["bmembed-t6"].cells) == (1, 3)
    assert thrice["bmembed-t6"].seconds == pytest.approx(3 * once["bmembed-t6"].seconds, rel=0.01)
    assert not once["mafin-t1"].missing
    smoothed = {**small, "training.label_smoothing": 0.1}
    fixed = {one.name: one for one in listing(project, settings=smoothed)}
    assert 0 < fixed["mafin-t1"].seconds < once["mafin-t1"].seconds


class Scripted:
    """In place of the runs of the copy: what each of them comes to."""

    def __init__(self, *ends: EngineError | None) -> None:
        self.ends = list(ends)
        self.settings: list[object] = []

    def __call__(self, folder: ProjectFolder) -> Any:
        return SimpleNamespace(folder=folder, run=lambda *_, **__: self._run(folder))

    def _run(self, folder: ProjectFolder) -> None:
        self.settings.append(folder.settings().training.steps)
        note_server(folder.path, SERVER)
        if end := self.ends.pop(0):
            raise end


def scripted(monkeypatch: pytest.MonkeyPatch, *ends: EngineError | None) -> Scripted:
    made = Scripted(*ends)
    monkeypatch.setattr("engine.lab.study.running.Project", made)
    figures = {
        "rows": {},
        "similarities": None,
        "reason": "",
    }
    monkeypatch.setattr(
        "engine.lab.study.running.figures_of", lambda _project, _cell, _seconds: figures
    )
    return made


def test_a_failed_cell_stops_no_other_and_is_tried_again(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = make_grid(
        ["training.steps=5,6,7"],
        project.settings(),
        10,
    )
    work = sweep(project, *cells)
    made = scripted(
        monkeypatch,
        None,
        StageError("It broke.", "The reason."),
        None,
    )
    found = work.run()
    assert made.settings == [5, 6, 7]
    assert found["finished"] == 2
    assert [cell["error"] and cell["error"]["what"] for cell in found["cells"]] == [
        None,
        "It broke.",
        None,
    ]
    assert ": 2" in str(failure(work.failed))
    assert work.workspace.copy.path.is_dir(), "there is something left to do"
    again = sweep(project, *cells)
    made = scripted(monkeypatch, None)
    assert again.run()["finished"] == 3
    assert made.settings == [6]
    assert not again.workspace.copy.path.exists()
    assert known_servers(project.path) == [SERVER], "purge names it"
    assert project.settings().training.steps is None


def test_a_comparison_and_a_copy_that_were_begun_outlive_other_studies(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_grid(
        ["training.steps=5,6"],
        project.settings(),
        10,
    )
    scripted(
        monkeypatch,
        None,
        CancelledError("Stopped."),
        None,
    )
    sweep(project, first).run()
    with pytest.raises(CancelledError):
        sweep(project, second).run()
    begun = workspace(project)
    trained = begun.comparison_folder("other") / "mafin" / "0.1"
    trained.mkdir(parents=True)
    assert sweep(project, first).run()["finished"] == 1
    assert begun.copy.path.is_dir(), "nothing was to do, so the other one's copy is left"
    sweep(project, second).run()
    assert not begun.copy.path.exists()
    assert trained.is_dir()
    begun.keep("other", {})
    assert not begun.comparison_folder("other").exists()


@pytest.mark.parametrize("end", [CancelledError("Stopped."), ResourceError("The disk is full.")])
def test_a_sweep_that_is_stopped_reports_what_it_has(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, end: EngineError
) -> None:
    cells = make_grid(
        ["training.steps=5,6,7"],
        project.settings(),
        10,
    )
    scripted(monkeypatch, None, end)
    with pytest.raises(type(end)) as caught:
        sweep(project, *cells).run()
    assert caught.value.command == ("sweep" if isinstance(end, CancelledError) else "")
    (report,) = project.path.glob("studies/sweep-*.json")
    assert json.loads(report.read_text())["finished"] == 1
    with pytest.raises(CancelledError):
        sweep(project, *cells).run(should_stop=lambda: True)


def test_the_same_training_is_run_once(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = make_grid(
        ["ranking.m=6,9", "training.steps=5"],
        project.settings(),
        10,
    )
    made = scripted(monkeypatch, None)
    found = sweep(project, *cells).run()
    assert made.settings == [5]
    assert [cell["same_as"] for cell in found["cells"]] == [None, 1]
    assert found["finished"] == 2


def test_a_sweep_that_is_not_finished_is_an_error(project: ProjectFolder) -> None:
    assert read_unfinished_sweep(project) is None
    work = workspace(project)
    work.open()
    work.keep("k1", {"tables": {}})
    assert read_unfinished_sweep(project) == {
        "running": False,
        "finished": 1,
        "folder": str(work.folder),
    }
    finished = set(format_status(read_status(Project(project)), "mine"))
    with project.locked("sweep"):
        assert read_unfinished_sweep(project) == {
            "running": True,
            "finished": 1,
            "folder": str(work.folder),
        }
        (line,) = finished - set(format_status(read_status(Project(project)), "mine"))
        assert "1 cell" in line
    work.close()
    assert read_unfinished_sweep(project) is None
