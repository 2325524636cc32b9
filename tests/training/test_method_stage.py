"""Stage `train` by each method of METHODS.md §3, in a small real project."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.pipeline import copy_documents, stage_here
from fixtures.shown_numbers import numbers

from engine.core.errors import CancelledError
from engine.core.events import Choice, Event
from engine.core.records import Query
from engine.corpus.text.document_queries import document_queries
from engine.encoders.model_folder import ModelFolder
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.artifact_info import AdapterInfo
from engine.project.store.artifacts import Artifact
from engine.queries.from_documents import find_untrained
from engine.runs.progress import ResumePoint, find_resume_point
from engine.training import stopping_queries as stopping
from engine.training.data import TrainingData
from engine.training.dataset import training_data
from engine.training.heldout import HeldOutFigures
from engine.training.history import history_of
from engine.training.recipe import resolve_config
from engine.training.stopping_queries import MIN_TO_STOP, choose_stopping_queries


@pytest.fixture(scope="module")
def ranked(tiny: ModelFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranked") / "project"
    chosen: dict[str, dict[str, Any]] = {
        "corpus": {"paths": ["documents"], "chunk_tokens": 96, "retrain_threshold": 0.0},
        "encoder": {"model": str(tiny.path), "max_tokens": 96},
        "queries": {"max_queries": 80, "consistency_top": 0},
        "ranking": {"k": 20},
        "training": {
            "preset": "quick",
            "steps": 4,
            "queries_per_step": 4,
            "pretrain_steps": 6,
            "pretrain_chunks_per_step": 4,
            "checkpoint_every": 2,
            "eval_every": 2,
            "pretrain_learning_rate": 0.01,
        },
    }
    ProjectFolder.create(path, chosen)
    copy_documents(
        path / "documents",
        ("incidents", "minutes"),
        6,
    )
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
        context = StageContext(
            project, project.settings(), store, "train", "", "", [].append, lambda: False
        )
        chunks = store.chunks()
        titles = [
            one
            for one in find_untrained(context, chunks, document_queries(store))
            if one.start >= 0
        ]
        assert titles
        config = resolve_config(context)
        for method, told in (("FT", True), ("PT-FT", False), ("PT", False)):
            texts = training_data(
                context, replace(config, method=method, adapter_scope="both")
            ).chunks
            holds_title = set()
            for title in titles:
                for text, chunk in zip(texts, chunks, strict=True):
                    is_inside = chunk.start <= title.start < chunk.end
                    if chunk.document_id == title.written_in and is_inside:
                        holds_title.add(title.text in text)
            assert holds_title == {told}, method


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few extractive queries of the project are taken for enough by a language model."""
    monkeypatch.setattr(
        stopping,
        "is_extractive",
        lambda *_: False,
    )
    monkeypatch.setattr(stopping, "MIN_TO_STOP", 1)


def figures(ndcg: float) -> HeldOutFigures:
    """Of two queries that find their chunks as well as each other."""
    return HeldOutFigures(np.array([True, True]), np.array([ndcg, ndcg]))


@pytest.mark.usefixtures("checked")
def test_pt_without_a_gain_makes_no_adapter_and_gives_the_reason(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.training import loop

    checks = iter([figures(0.8), *[figures(0.7)] * 9])
    monkeypatch.setattr(
        loop,
        "measure",
        lambda *_: next(checks),
    )
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

    checks = iter([figures(0.7), figures(0.8), figures(0.75), *[figures(0.7)] * 9])
    monkeypatch.setattr(
        loop,
        "measure",
        lambda *_: next(checks),
    )
    project.change_settings({"training.method": "PT"})
    summary, warnings = stage_here(project.path, "train")
    assert not warnings
    assert (summary["steps"], summary["best_step"]) == (6, 2)
    info = adapter_of(project).info
    assert history_of(project, info).held_out == ([0, 70.0], [2, 80.0], [4, 75.0], [6, 70.0])


def test_where_extractive_queries_alone_could_stop_it_the_last_step_is_kept(
    project: ProjectFolder,
) -> None:
    summary, _ = stage_here(project.path, "train")
    assert (summary["steps"], summary["best_step"], summary["ended"]) == (4, 4, "all steps")
    assert history_of(project, adapter_of(project).info).held_out == ()


def stopping_queries(project: ProjectFolder) -> tuple[TrainingData, dict[str, str]]:
    """What training learns from, and the choices that were reported."""
    reported: list[Event] = []
    with closing(project.store()) as store:
        context = StageContext(
            project, project.settings(), store, "train", "", "", reported.append, lambda: False
        )
        data = training_data(context, replace(resolve_config(context), adapter_scope="both"))
    return data, {event.setting: event.value for event in reported if isinstance(event, Choice)}


def validation_queries(project: ProjectFolder) -> list[Query]:
    with closing(project.store()) as store:
        return [query for query in store.queries() if query.split == "validation"]


def test_titles_of_validation_documents_stop_the_training(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "MIN_TO_STOP", 1)
    data, choices = stopping_queries(project)
    count = len(data.heldout_queries)
    assert count > 0
    assert choices["stopped by"].startswith(f"{count} titles and headings, 0 ")
    assert not data.heldout_synthetic


def test_a_file_of_validation_queries_that_the_backend_does_not_use_changes_nothing(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "MIN_TO_STOP", 1)
    _, before = stopping_queries(project)
    monkeypatch.setattr(
        stopping,
        "has_validation_queries",
        lambda _: True,
    )
    assert not any(query.imported for query in validation_queries(project))
    _, choices = stopping_queries(project)
    assert choices["stopped by"] == before["stopped by"]


def test_titles_and_other_queries_of_validation_documents_are_pooled(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stopping, "MIN_TO_STOP", 1)
    titles, _ = stopping_queries(project)
    monkeypatch.setattr(
        stopping,
        "is_extractive",
        lambda *_: False,
    )
    both, choices = stopping_queries(project)
    generated = [query.text for query in validation_queries(project)]
    assert generated
    count = len(titles.heldout_queries)
    assert choices["stopped by"].startswith(f"{count} titles and headings, {len(generated)} ")
    assert both.heldout_synthetic
    assert list(both.heldout_queries) == [*titles.heldout_queries, *generated]
    assert both.heldout_hard is not None
    assert both.heldout_hard.shape == (count + len(generated), stopping.HARD_PER_QUERY)


@pytest.mark.usefixtures("checked")
def test_queries_that_stop_the_training_are_answered_by_their_chunks(
    project: ProjectFolder,
) -> None:
    data, _ = stopping_queries(project)
    with closing(project.store()) as store:
        texts = {chunk.id: chunk.embedded_text for chunk in store.chunks()}
    generated = validation_queries(project)
    first = len(data.heldout_queries) - len(generated)
    answers = [data.chunks[row] for row in data.heldout_positives[first:]]
    for query, answer in zip(generated, answers, strict=True):
        assert answer in texts[query.chunk_id] or texts[query.chunk_id] in answer


@pytest.mark.usefixtures("checked")
def test_a_text_that_is_to_be_found_does_not_begin_with_the_title_that_asks_for_it(
    project: ProjectFolder,
) -> None:
    data, _ = stopping_queries(project)
    count = len(data.heldout_queries) - len(validation_queries(project))
    assert count > 0
    for title, row in zip(data.heldout_queries[:count], data.heldout_positives, strict=False):
        assert not data.chunks[row].startswith(title)


@pytest.mark.parametrize(("count", "used", "shown"), [(59, 0, [59, MIN_TO_STOP]), (60, 60, [])])
def test_sixty_imported_validation_queries_choose_the_step_and_fifty_nine_do_not(
    project: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    used: int,
    shown: list[float],
) -> None:
    monkeypatch.setattr(
        stopping,
        "has_validation_queries",
        lambda _: True,
    )
    reported: list[Event] = []
    with closing(project.store()) as store:
        context = StageContext(
            project, project.settings(), store, "train", "", "", reported.append, lambda: False
        )
        chunks = store.chunks()
        chunk = chunks[0]
        query = Query(
            "Who pays?", "question", chunk.id, chunk.document_id, "", "validation", imported=True
        )
        ranked = np.zeros((count, stopping.HARD_PER_QUERY), dtype=np.int64)
        found, _ = choose_stopping_queries(
            context,
            [query] * count,
            chunks,
            ranked,
        )
    assert len(found.texts) == used
    (choice,) = (event for event in reported if isinstance(event, Choice))
    assert numbers(choice.reason) == shown
    assert "titles" not in choice.reason, "they do not count"


def test_too_little_text_is_reported(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.training.pretraining import mlm_head

    monkeypatch.setattr(
        mlm_head,
        "MIN_TOKENS",
        10**9,
    )
    project.change_settings({"training.method": "PT"})
    summary, _ = stage_here(project.path, "train")
    assert summary["adapter"] is None
    assert 10**9 in numbers(summary["reason"])


def test_a_broken_off_pre_training_reports_where_it_resumes(project: ProjectFolder) -> None:
    project.change_settings({"training.method": "PT-FT"})

    def stop() -> bool:
        return bool(list((project.path / "checkpoints").glob("*/pretraining/step-*")))

    with fails(CancelledError, "cancelled", "2 of 6"):
        stage_here(project.path, "train", stop)
    store = project.store()
    try:
        assert find_resume_point(
            ProjectSnapshot(project, project.settings(), store)
        ) == ResumePoint(2, 6, pretraining=True)
    finally:
        store.close()
    summary, _ = stage_here(project.path, "train")
    assert summary["steps"] == 4


def test_false_negatives_mean_nothing_to_a_loss_that_follows_the_teacher(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.change_settings(
        {"training.objective": "listnet", "training.false_negatives": "drop", "training.steps": 1}
    )
    reported: dict[str, tuple[str, str]] = {}
    monkeypatch.setattr(
        StageContext, "report_choice", lambda _, setting, *said: reported.update({setting: said})
    )
    stage_here(project.path, "train")
    value, reason = reported["false negatives"]
    assert value == "keep"
    assert "negatives" in reason


def test_a_loss_that_was_chosen_is_not_put_down_to_the_preset(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: dict[str, tuple[str, str]] = {}
    monkeypatch.setattr(
        StageContext, "report_choice", lambda _, setting, *said: reported.update({setting: said})
    )
    project.change_settings({"training.objective": "infonce", "training.steps": 1})
    stage_here(project.path, "train")
    assert (reported["objective"][0], "project.toml" in reported["objective"][1]) == (
        "infonce",
        True,
    )
    project.change_settings({"training.objective": None})
    stage_here(project.path, "train")
    assert reported["objective"] == ("mixed", "preset 'quick'")
