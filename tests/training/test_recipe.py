"""Which recipe fits the queries: by their backend."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.settings.load import validate
from engine.training.config import PRESETS, SHARED_CHUNKS
from engine.training.data import TrainingData
from engine.training.recipe import choose_adapter_scope, config_of, limit_epochs, set_steps


def test_extractive_queries_are_trained_on_queries_alone_against_all_chunks() -> None:
    assert config_of(validate({})) == replace(
        PRESETS["standard"], adapter_scope="queries", shared_chunks=SHARED_CHUNKS
    )


@pytest.mark.parametrize("backend", ["imported", "gguf"])
def test_queries_worded_as_questions_teach_the_chunks_too(backend: str) -> None:
    assert config_of(validate({"queries": {"backend": backend}})).adapter_scope == "both"


@pytest.mark.parametrize(
    ("preset", "numbers"), [("standard", (60, 32, 128)), ("quick", (40, 24, 128))]
)
@pytest.mark.parametrize("backend", ["imported", "gguf", "endpoint"])
def test_queries_worded_as_questions_are_told_apart_by_the_chunks_of_a_step(
    backend: str, preset: str, numbers: tuple[int, int, int]
) -> None:
    config = config_of(validate({"queries": {"backend": backend}, "training": {"preset": preset}}))
    assert (config.objective, config.negatives_per_query) == ("infonce", 0)
    assert (config.steps, config.queries_per_step, config.max_tokens) == numbers


@pytest.mark.parametrize(
    "training", [{"objective": "triplet"}, {"teacher": "mixture"}, {"preset": "paper"}]
)
def test_another_loss_teacher_or_preset_keeps_the_numbers_of_its_preset(
    training: dict[str, str],
) -> None:
    config = config_of(validate({"queries": {"backend": "imported"}, "training": training}))
    preset = PRESETS[training.get("preset", "standard")]
    assert (config.steps, config.negatives_per_query) == (preset.steps, preset.negatives_per_query)
    assert config.objective == training.get("objective", preset.objective)


def test_project_toml_changes_single_numbers_of_the_recipe_for_written_queries() -> None:
    training = {"negatives_per_query": 2, "max_tokens": 200}
    config = config_of(validate({"queries": {"backend": "imported"}, "training": training}))
    assert (config.negatives_per_query, config.max_tokens, config.steps) == (2, 200, 60)


def test_numbers_of_project_toml_hold() -> None:
    config = config_of(
        validate(
            {"training": {"steps": 7, "learning_rate": 3e-4, "seed": 5, "adapter_scope": "both"}}
        )
    )
    assert config == replace(
        PRESETS["standard"], steps=7, learning_rate=3e-4, seed=5, adapter_scope="both"
    )


def test_the_reason_of_the_scope_differs_by_what_was_set() -> None:
    plain = validate({})
    chosen = validate({"training": {"objective": "infonce", "adapter_scope": "both"}})
    assert "project.toml" in choose_adapter_scope(chosen, config_of(chosen))[1]
    assert "project.toml" not in choose_adapter_scope(plain, config_of(plain))[1]


def test_epochs_that_no_check_can_end_are_as_many_as_without_a_gain() -> None:
    no_rankings = np.empty((1, 0), dtype=np.int64)
    bare = TrainingData(
        ["q"],
        np.zeros(1, dtype=np.int64),
        no_rankings,
        no_rankings,
        ["a", "b"],
    )
    checked = replace(
        bare,
        heldout_queries=["h"],
        heldout_positives=np.zeros(1, dtype=np.int64),
    )

    def steps(data: TrainingData, **training: object) -> int:
        settings = validate({"training": training})
        return limit_epochs(set_steps(config_of(settings), settings, 320), data, settings).steps

    assert (steps(checked, preset="mafin"), steps(bare, preset="mafin")) == (20 * 10, 4 * 10)
    assert steps(bare, preset="mafin", epochs=8) == 80, "project.toml wants so many"
    assert steps(bare, preset="pipelines") == steps(checked, preset="pipelines") == 30
    assert steps(bare) == steps(checked) == 200
