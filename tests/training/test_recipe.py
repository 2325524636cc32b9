"""Which recipe fits the queries: by their backend, and by how many of them BM25 solves."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import RankingsInfo
from engine.project.store.artifacts import Artifact
from engine.ranking.hit_at_1 import bm25_hit_at_1
from engine.settings.load import validate
from engine.training.config import CONTRASTIVE, PRESETS, SHARED_CHUNKS
from engine.training.recipe import config_of, objective_reason, scope_reason

HARD, EASY = 0.65, 0.85
BUILT_RECIPE = replace(PRESETS["standard"], adapter_scope="queries", shared_chunks=SHARED_CHUNKS)
CONTRASTIVE_RECIPE = replace(CONTRASTIVE["standard"], adapter_scope="both")


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (HARD, CONTRASTIVE_RECIPE),
        (0.0, CONTRASTIVE_RECIPE),
        (0.7, BUILT_RECIPE),
        (EASY, BUILT_RECIPE),
        (None, BUILT_RECIPE),
    ],
)
def test_extractive_queries_that_bm25_does_not_solve_are_learnt_by_contrast(
    first: float | None, expected: object
) -> None:
    assert config_of(validate({}), first) == expected


def test_contrast_is_infonce_within_the_batch_of_queries_and_chunks() -> None:
    config = config_of(validate({}), HARD)
    assert (config.objective, config.adapter_scope, config.negatives_per_query, config.shared_chunks) == (
        "infonce",
        "both",
        0,
        0,
    )
    assert not config.needs_teacher
    assert not config.needs_vectors


@pytest.mark.parametrize(
    "sections",
    [
        {"queries": {"backend": "imported"}},
        {"queries": {"backend": "gguf"}},
        {"training": {"preset": "paper"}},
        {"training": {"preset": "cl"}},
        {"training": {"objective": "shared_listnet"}},
        {"training": {"adapter_scope": "queries"}},
        {"training": {"adapter_scope": "both"}},
        {"training": {"method": "PT-FT"}},
        {"training": {"teacher": "bm25"}},
        {"training": {"teacher_temperature": 3.0}},
        {"training": {"refresh_every": 50}},
        {"training": {"refresh_every": 0}},
        {"training": {"infonce_weight": 0.0}},
        {"training": {"teacher_bm25_weight": 0.0}},
        {"training": {"shared_chunks": 0}},
        {"training": {"queries_per_step": 7}},
    ],
)
def test_settings_and_other_queries_leave_the_recipe_as_it_is(sections: dict[str, dict[str, object]]) -> None:
    settings = validate(sections)
    assert config_of(settings, HARD) == config_of(settings)


def test_a_quick_training_stays_quick() -> None:
    config, quick = config_of(validate({"training": {"preset": "quick"}}), HARD), PRESETS["quick"]
    assert config.objective == "infonce"
    assert (config.steps, config.queries_per_step, config.max_tokens) == (
        quick.steps,
        quick.queries_per_step,
        quick.max_tokens,
    )


def test_numbers_of_project_toml_hold_for_it_too() -> None:
    config = config_of(validate({"training": {"steps": 7, "learning_rate": 3e-4, "seed": 5}}), HARD)
    assert config == replace(CONTRASTIVE_RECIPE, steps=7, learning_rate=3e-4, seed=5)


def test_the_reasons_name_the_share() -> None:
    settings = validate({})
    config = config_of(settings, HARD)
    assert "for 65%" in objective_reason(settings, HARD)
    hard, easy = scope_reason(settings, config, HARD), scope_reason(settings, config_of(settings, EASY), EASY)
    assert all((hard, easy, hard != easy))
    assert objective_reason(settings, EASY) == "preset 'standard'"
    chosen = validate({"training": {"objective": "infonce"}})
    assert "project.toml" in objective_reason(chosen, HARD)


@pytest.mark.parametrize(
    ("info", "share"),
    [
        ({"bm25_hit_at_1": 0.25}, 0.25),
        ({"found_first": 0.25}, 0.25),
        ({"bm25_hit_at_1": None}, None),
        ({"queries": "of before"}, None),
    ],
)
def test_the_share_is_that_of_the_rankings(tmp_path: Path, info: dict[str, object], share: float | None) -> None:
    folder = ProjectFolder.create(tmp_path / "project", {})
    with closing(folder.store()) as store:
        assert bm25_hit_at_1(store) is None
        store.put_artifact(Artifact(RankingsInfo.from_dict(info), "f"))
        assert bm25_hit_at_1(store) == share
