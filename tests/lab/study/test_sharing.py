"""A training that several studies measure, or one study measures in several ways, is made once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import (
    SAMPLE,
    SETTINGS,
    copy_documents,
    copy_project,
    engine_here,
    stage_here,
    stages_in_this_process,
)
from fixtures.tiny_model import encoder_settings

from engine.core.events import Event, StageSkipped, StageStarted
from engine.lab.study import workspace
from engine.lab.study.catalogue import catalogue, study_of
from engine.lab.study.listing import listing
from engine.lab.study.running import StudyRun, study_cells
from engine.lab.study.workspace import basis_of
from engine.project.folder import ProjectFolder

SHORT = {
    "training.steps": 2,
    "training.queries_per_step": 4,
    "training.max_tokens": 48,
    "lab.samples": 10,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """A project of eight documents and the judged questions about them, built up to rank."""
    path = tmp_path_factory.mktemp("built") / "project"
    few = {"queries": {"max_queries": 60}, "encoder": encoder_settings(tiny_model)}
    ProjectFolder.create(path, {**SETTINGS, **few})
    copy_documents(
        path / "documents",
        ("incidents", "policies"),
        4,
    )
    questions = path.with_name("questions.jsonl")
    with (SAMPLE / "questions.jsonl").open(encoding="utf-8") as lines:
        own = [line for line in lines if (path / "documents" / json.loads(line)["path"]).exists()]
    questions.write_text("".join(own), "utf-8")
    engine_here(
        "import-judgments",
        str(path),
        str(questions),
    )
    for stage in ("ingest", "index", "generate", "rank"):
        stage_here(path, stage)
    return path


@pytest.fixture
def project(built: Path, tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(copy_project(built, tmp_path / "project"))


def study_run(
    project: ProjectFolder,
    name: str,
    **options: Any,
) -> StudyRun:
    basis, chunks = basis_of(project)
    settings = {**SHORT, **{f"lab.{option}": value for option, value in options.items()}}
    cells = study_cells(
        project,
        study_of(name),
        chunks,
        settings=settings,
    )
    return StudyRun(
        project,
        study_of(name),
        cells,
        basis,
    )


def run(work: StudyRun) -> tuple[dict[str, Any], list[str]]:
    """The page, and for each time that the stage `train` was reached the name of its event."""
    reached: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, (StageStarted, StageSkipped)) and event.stage == "train":
            reached.append(type(event).__name__)

    with stages_in_this_process():
        return work.run(on_event=watch), reached


@pytest.mark.timeout(600)
def test_what_another_study_measures_otherwise_is_not_trained_again(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, reached = run(study_run(project, "bmembed-t6"))
    assert reached == ["StageStarted"]
    work = study_run(project, "bmembed-t5")
    assert (len(work.to_do()), work.to_train()) == (1, [])
    perturbed, reached = run(work)
    assert reached == ["StageSkipped"]
    clean = {row["system"]: row["values"] for row in perturbed["rows"]}["BMEmbed, original"]
    usual = {row["system"]: row["values"] for row in first["rows"]}["BMEmbed"]
    assert clean["hit@4"]["value"] == usual["hit@4"]["value"]
    assert usual["training seconds"] > 0

    # A kept adapter that is damaged is trained again.
    (weights,) = project.path.glob("sweep/*/trainings/*/adapter/*.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    trained, reached = run(study_run(project, "bmembed-t6", top_k=4))
    assert reached == ["StageStarted"]
    usual = {row["system"]: row["values"] for row in trained["rows"]}["BMEmbed"]

    work = study_run(
        project,
        "bmembed-t6",
        top_k=3,
    )
    assert (len(work.to_do()), work.to_train()) == (1, [])
    again, reached = run(work)
    assert reached == ["StageSkipped"]
    values = {row["system"]: row["values"] for row in again["rows"]}["BMEmbed"]
    assert values["training seconds"] == usual["training seconds"] > 0

    monkeypatch.setattr(workspace, "MAX_KEPT_BYTES", 10)
    (weights.parent / "adapter_config.json").unlink()
    _, reached = run(study_run(project, "bmembed-t6", top_k=2))
    assert reached == ["StageStarted"]
    assert study_run(project, "bmembed-t6", top_k=6).to_train(), "it was too large to keep"

    # The figures are kept even if the adapter cannot be.
    monkeypatch.undo()
    (folder,) = project.path.glob("sweep/*/trainings")
    shutil.rmtree(folder)
    folder.write_text("")
    run(study_run(project, "bmembed-t6", top_k=6))
    work = study_run(
        project,
        "bmembed-t6",
        top_k=6,
    )
    assert work.to_do() == []
    assert study_run(project, "bmembed-t6", top_k=8).to_train()


def test_as_many_trainings_as_the_papers_have(project: ProjectFolder) -> None:
    """BMEmbed: BMEmbed and CL, ListMLE, 2 shares of the queries, 10 of m and 4 more of k, and 4
    temperatures; evaluation: PT, FT, PT-FT; pipelines: CLS, mean, hyperbolic with 3 weights.
    """
    project.change_settings({"encoder.pooling": "mean", "ranking.m": None, "ranking.k": None})
    measured = set()
    trained: dict[str, set[str]] = {}
    for study in catalogue().values():
        if study.needs == ["sentence pairs"] or "small model" in study.needs:
            continue
        for cell in study_cells(project, study, 5000):
            measured.add(cell.key)
            trained.setdefault(study.name.partition("-")[0], set()).add(cell.training)
    assert {paper: len(keys) for paper, keys in trained.items()} == {
        "bmembed": 2 + 1 + 2 + 10 + 4 + 4,
        "domain": 3,
        "pipelines": 5,
    }
    # Table 5 of BMEmbed and the hyperbolic row of the pipelines are measured with changed queries.
    assert len(measured) == 31 + 2


def test_the_list_ends_with_all_of_them(project: ProjectFolder) -> None:
    listed = list(listing(project))
    whole = listed[-1]
    assert (whole.name, whole.missing) == ("all", "")
    single = [one for one in listed[:-1] if not one.missing]
    assert whole.cells == whole.to_do < sum(one.cells for one in single)
    assert 0 < whole.seconds < sum(one.seconds for one in single)
    assert max(one.seconds for one in single) <= whole.seconds
    assert whole.cost.startswith(f"{whole.cells} trainings, {whole.cells} to do")
