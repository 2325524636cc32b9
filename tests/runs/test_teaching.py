"""Which reranker could teach the encoder, and how many passages it would score."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.tiny_cross_encoder import build_cross_encoder
from fixtures.user_folders import DATA

from engine.core.errors import ModelError
from engine.core.messages.offer import TeacherCost
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.runs import teaching
from engine.runs.estimate import PASSES_PER_TEXT, QUERY_COST, count_passes
from engine.runs.teaching import count_passages, estimate_teacher, find_teacher
from engine.service import models
from engine.settings.load import validate
from engine.training.recipe import config_of


def snapshot(
    languages: dict[str, int] | None = None, queries: int = 100, chunks: int = 10, **sections: Any
) -> Any:
    counts = Counter({"queries": queries, "chunks": chunks})
    store = SimpleNamespace(
        counts=lambda: counts, characters_by_language=lambda _: Counter(languages or {})
    )
    return SimpleNamespace(settings=validate(sections), store=store)


@pytest.fixture
def reranker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(DATA, str(tmp_path / "data"))
    return build_cross_encoder(tmp_path / "tiny-reranker")


def test_the_one_that_settings_name_comes_first_then_one_that_is_here(reranker: Path) -> None:
    assert find_teacher(snapshot()) == ""
    server = {"reranker": "http://127.0.0.1:8081/v1"}
    assert find_teacher(snapshot(search=server)) == ""
    models.add(
        reranker,
        link=False,
        name="here",
        should_stop=lambda: False,
    )
    assert find_teacher(snapshot()) == "here"
    assert find_teacher(snapshot(search=server)) == "here"
    assert find_teacher(snapshot(search={"reranker": "mine"})) == "mine"
    both: Any = {"search": {"reranker": "mine"}, "training": {"cross_encoder": "taught"}}
    assert find_teacher(snapshot(**both)) == "taught"


@pytest.mark.parametrize(("languages", "offered"), [({"en": 9, "de": 2}, True), ({"de": 9}, False)])
def test_one_that_does_not_know_the_documents_language_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, languages: dict[str, int], offered: bool
) -> None:
    english = SimpleNamespace(
        kind="reranker",
        name="english",
        folder=Path("english"),
    )
    encoder = SimpleNamespace(
        kind="encoder",
        name="other",
        folder=Path("other"),
    )
    entry = SimpleNamespace(knows=lambda code: code == "en")
    monkeypatch.setattr(
        teaching,
        "list_installed",
        lambda: [encoder, english],
    )
    monkeypatch.setattr(
        teaching,
        "find_entry_of",
        lambda _: entry,
    )
    assert find_teacher(snapshot(languages)) == ("english" if offered else "")


@pytest.mark.parametrize(
    ("training", "queries", "passages"),
    [
        ({}, 100, 100 * 17),  # each query once, however many steps
        ({}, 5000, 200 * 8 * 17),  # 200 steps of 8 queries
        ({"steps": 3, "queries_per_step": 4, "teacher_candidates": 2}, 100, 12 * 5),
        ({"objective": "mixed"}, 100, 0),  # no lists
    ],
)
def test_the_passages_that_it_scores(
    training: dict[str, Any],
    queries: int,
    passages: int,
) -> None:
    assert count_passages(snapshot(queries=queries, training=training), "x") == passages


def test_before_there_are_queries_the_expected_number_counts() -> None:
    new_snapshot = snapshot(queries=0, chunks=10)
    new_snapshot.settings = validate({"queries": {"per_chunk": 3, "max_queries": 20}})
    assert count_passages(new_snapshot, "x") == 20 * 17


def test_nothing_teaches_an_encoder_that_is_not_trained() -> None:
    server = snapshot(encoder={"endpoint": "http://127.0.0.1:8081/v1"})
    assert count_passages(server, "x") == 0


def test_a_list_of_candidates_counts_in_the_time_of_a_training() -> None:
    training: dict[str, Any] = {"adapter_scope": "both"}
    taught = config_of(
        validate({"training": {**training, "teacher": "cross-encoder", "cross_encoder": "x"}})
    )
    # 200 steps of 8 queries, each with 17 chunks, forward and backward.
    chunks = 200 * 8 * 17
    queries = 200 * 8 * QUERY_COST
    taught = replace(taught, eval_every=0)
    assert count_passes(taught, 100, 100, 9) == pytest.approx(PASSES_PER_TEXT * (chunks + queries))


def test_its_speed_is_measured_in_another_process(
    finished_built: Path, tmp_path: Path, reranker: Path
) -> None:
    project = ProjectFolder.open(Path(shutil.copytree(finished_built, tmp_path / "project")))
    project.change_settings({"search.reranker": str(reranker), "training.teacher_candidates": 2})
    store = project.store()
    cost = estimate_teacher(ProjectSnapshot(project, project.settings(), store))
    assert cost is not None
    assert (cost.name, cost.chosen) == (str(reranker), False)
    assert cost.passages % 5 == 0
    assert cost.rate > 0
    project.change_settings({"training.teacher": "cross-encoder"})
    (reranker / "config.json").unlink()
    with fails(ModelError, "cross-encoder-invalid"):
        estimate_teacher(ProjectSnapshot(project, project.settings(), store))
    store.close()


def test_the_hours_are_passages_by_passages_a_second() -> None:
    cost = TeacherCost("x", 8500, 0.5)
    assert cost.seconds == 17_000
    assert "8,500" in cost.format_cost
    assert "5 hours" in cost.format_cost
