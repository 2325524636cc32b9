"""Stage `train` by each method of METHODS.md §3, in a small real project."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.pipeline import copy_documents, stage_here

from engine.core.errors import CancelledError
from engine.encoders.model_folder import ModelFolder
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import AdapterInfo, TrainingHistory
from engine.project.store.artifacts import Artifact
from engine.queries.document_written import untrained
from engine.runs.progress import ResumePoint, resume_point
from engine.training import dataset
from engine.training.dataset import training_data
from engine.training.history import history_of
from engine.training.recipe import resolve_config
from engine.written_queries.document_queries import document_queries


@pytest.fixture(scope="module")
def ranked(tiny: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranked") / "project"
    chosen: dict[str, dict[str, Any]] = {
        "corpus": {"paths": ["documents"], "chunk_tokens": 96, "retrain_threshold": 0.0},
        "encoder": {"model": str(tiny.path), "max_tokens": 96},
        "queries": {"max_queries": 80, "consistency_top": 0},
        "ranking": {"k": 20},
        "training": {
            "preset": "quick", "steps": 4, "queries_per_step": 4, "pretrain_steps": 6, "pretrain_chunks_per_step": 4,
            "checkpoint_every": 2, "eval_every": 2, "pretrain_learning_rate": 0.01,
        },
    }  # fmt: skip
    ProjectFolder.create(path, chosen)
    copy_documents(path / "documents", ("incidents", "minutes"), 6)
    for stage in ("ingest", "index", "generate", "rank"):
        stage_here(path, stage)
    return path


@pytest.fixture
def project(ranked: Path, tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(Path(shutil.copytree(ranked, tmp_path / "project")))


def adapter_of(project: ProjectFolder) -> Artifact[AdapterInfo]:
    store = project.store()
    try:
        found = store.artifact(AdapterInfo)
    finally:
        store.close()
    assert found is not None
    return found


def test_pt_ft_makes_an_adapter(project: ProjectFolder) -> None:
    project.change_settings({"training.method": "PT-FT"})
    store = project.store()
    heldout = sum(query.split == "heldout" for query in store.queries())
    store.close()
    assert 1 < heldout < 20
    summary, warnings = stage_here(project.path, "train")
    assert not warnings
    assert summary["steps"] == 4
    assert (project.path / summary["adapter"] / "adapter_model.safetensors").is_file()
    assert list((project.path / "checkpoints").glob("*")) == []


def test_titles_that_decide_are_not_pre_trained_on(project: ProjectFolder) -> None:
    with closing(project.store()) as store:
        context = StageContext(project, project.settings(), store, "train", "", "", [].append, lambda: False)
        chunks = store.chunks()
        titles = [one for one in untrained(context, chunks, document_queries(store)) if one.start >= 0]
        assert titles
        config = resolve_config(context)
        for method, told in (("FT", True), ("PT-FT", False), ("PT", False)):
            texts = training_data(context, replace(config, method=method, adapter_scope="both")).chunks
            said = [
                title.text in text
                for title in titles
                for text, chunk in zip(texts, chunks, strict=True)
                if chunk.document_id == title.written_in and chunk.start <= title.start < chunk.end
            ]
            assert said
            assert all(said) if told else not any(said), method


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few extractive queries of the project are taken for enough by a language model."""
    monkeypatch.setattr(dataset, "is_extractive", lambda *_: False)
    monkeypatch.setattr(dataset, "MIN_TO_CHOOSE", 1)


@pytest.mark.usefixtures("checked")
def test_pt_without_a_gain_makes_none_and_gives_the_reason(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.training import loop

    figures = iter([(90.0, 80.0), *[(80.0, 70.0)] * 9])
    monkeypatch.setattr(loop, "measure", lambda *_: next(figures))
    project.change_settings({"training.method": "PT"})
    summary, warnings = stage_here(project.path, "train")
    assert summary["adapter"] is None
    assert "of 6," in summary["reason"]
    (warning,) = warnings
    assert summary["reason"] in warning
    assert adapter_of(project).info.reason == summary["reason"]
    assert list((project.path / "checkpoints").glob("*")) == []


@pytest.mark.usefixtures("checked")
def test_pt_with_a_gain_makes_one(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.training import loop

    figures = iter([(80.0, 70.0), (90.0, 80.0), (85.0, 75.0), *[(80.0, 70.0)] * 9])
    monkeypatch.setattr(loop, "measure", lambda *_: next(figures))
    project.change_settings({"training.method": "PT"})
    summary, warnings = stage_here(project.path, "train")
    assert not warnings
    assert (summary["steps"], summary["best_step"]) == (6, 2)
    info = adapter_of(project).info
    assert info.history == TrainingHistory()  # the database holds no curves
    assert history_of(project, info).held_out == ([0, 70.0], [2, 80.0], [4, 75.0], [6, 70.0])


def test_where_extractive_queries_alone_could_stop_it_the_last_step_is_kept(project: ProjectFolder) -> None:
    summary, _ = stage_here(project.path, "train")
    assert (summary["steps"], summary["best_step"], summary["ended"]) == (4, 4, "all steps")
    assert history_of(project, adapter_of(project).info).held_out == ()


def test_too_little_text_is_reported(project: ProjectFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.training.pretraining import mlm_head

    monkeypatch.setattr(mlm_head, "MIN_TOKENS", 10**9)
    project.change_settings({"training.method": "PT"})
    summary, _ = stage_here(project.path, "train")
    assert summary["adapter"] is None
    assert summary["reason"]


def test_a_broken_off_pre_training_reports_where_it_resumes(project: ProjectFolder) -> None:
    project.change_settings({"training.method": "PT-FT"})

    def stop() -> bool:
        return bool(list((project.path / "checkpoints").glob("*/pretraining/step-*")))

    with fails(CancelledError, "cancelled", "2 of 6"):
        stage_here(project.path, "train", stop)
    store = project.store()
    try:
        assert resume_point(ProjectSnapshot(project, project.settings(), store)) == ResumePoint(2, 6, pretraining=True)
    finally:
        store.close()
    summary, _ = stage_here(project.path, "train")
    assert summary["steps"] == 4


def test_false_negatives_mean_nothing_to_a_loss_that_follows_the_teacher(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.change_settings({"training.objective": "listnet", "training.false_negatives": "drop", "training.steps": 1})
    reported: dict[str, tuple[str, str]] = {}
    monkeypatch.setattr(StageContext, "choose", lambda _, setting, *said: reported.update({setting: said}))
    stage_here(project.path, "train")
    value, reason = reported["false negatives"]
    assert value == "keep"
    assert "negatives" in reason


def test_a_loss_that_was_chosen_is_not_put_down_to_the_preset(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: dict[str, tuple[str, str]] = {}
    monkeypatch.setattr(StageContext, "choose", lambda _, setting, *said: reported.update({setting: said}))
    project.change_settings({"training.objective": "infonce", "training.steps": 1})
    stage_here(project.path, "train")
    assert (reported["objective"][0], "project.toml" in reported["objective"][1]) == ("infonce", True)
    project.change_settings({"training.objective": None})
    stage_here(project.path, "train")
    assert reported["objective"] == ("mixed", "preset 'quick'")
