"""The recipe of the CL baseline, and how its training is reported."""

from __future__ import annotations

import dataclasses

import pytest
from fixtures.errors import fails
from fixtures.tiny_gguf import build_tiny_gguf

from engine.core.errors import SettingsError
from engine.core.events import Choice, Event, HeldOut, Progress, TrainStep, Warned
from engine.settings.load import validate
from engine.settings.schema import DEFAULT_MODEL
from engine.training.baseline import as_part_of, baseline_config, check_baseline
from engine.training.config import PRESETS
from engine.training.recipe import config_of


def test_the_baseline_is_the_recipe_with_plain_infonce():
    settings = validate(
        {"training": {"preset": "quick", "steps": 33, "seed": 7, "teacher": "rrf", "adapter_scope": "queries"}}
    )
    found, own = baseline_config(settings), config_of(settings)
    assert (found.objective, found.adapter_scope, found.negatives_per_query, found.shared_chunks) == (
        "infonce",
        "both",
        0,
        0,
    )
    assert not found.needs_teacher
    assert not found.needs_vectors
    assert found.queries_per_step == 16
    changed = {
        field.name for field in dataclasses.fields(own) if getattr(own, field.name) != getattr(found, field.name)
    }
    assert changed == {
        "objective", "queries_per_step", "adapter_scope", "negatives_per_query", "shared_chunks", "teacher",
    }  # fmt: skip
    assert (found.steps, found.seed, found.learning_rate) == (33, 7, own.learning_rate)


@pytest.mark.parametrize("preset", ["paper", "cl"])
def test_of_the_published_recipe_it_is_the_published_baseline(preset):
    assert baseline_config(validate({"training": {"preset": preset, "queries_per_step": 5}})) == PRESETS["cl"]


@pytest.mark.parametrize(
    "encoder",
    [
        {},
        {"small_model": DEFAULT_MODEL},
        {"endpoint": "http://127.0.0.1:1/v1"},
        {"small_model": DEFAULT_MODEL, "endpoint": "http://127.0.0.1:1/v1"},
    ],
)
def test_there_is_none_of_an_encoder_that_is_not_trained_itself(encoder, tmp_path):
    check_baseline(validate({}))
    model = (
        {"model": str(build_tiny_gguf(tmp_path / "tiny.gguf", template=None, llama__pooling_type=1))}
        if not encoder
        else {}
    )
    with fails(SettingsError, "baseline-untrainable") as caught:
        check_baseline(validate({"encoder": encoder | model}))
    assert caught.value.key == "evaluation.cl_baseline"


@pytest.mark.parametrize("scope", ["both", "queries"])
def test_it_is_for_queries_and_chunks(scope):
    assert baseline_config(validate({"training": {"preset": "quick", "adapter_scope": scope}})).adapter_scope == "both"


def test_its_steps_are_reported_as_progress_of_the_stage_that_wants_it():
    reported: list[Event] = []
    relay = as_part_of("evaluate", reported.append)
    relay(TrainStep(step=3, steps=12, loss=1.0, learning_rate=0.1, tokens_per_second=1, memory_mb=1, seconds_left=1))
    relay(Progress(stage="train", done=1, total=2, unit="chunks"))
    relay(Warned(stage="train", text="slow"))
    relay(Choice(stage="train", setting="optimizer", value="AdamW", reason=""))
    relay(HeldOut(step=3, hit_at_10=1.0, ndcg_at_10=1.0, best=True))
    assert reported == [
        Progress(stage="evaluate", done=3, total=12, unit=reported[0].unit),  # type: ignore[attr-defined]
        Progress(stage="evaluate", done=1, total=2, unit="chunks"),
        Warned(stage="evaluate", text="slow"),
    ]
