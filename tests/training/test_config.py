from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict, replace

import pytest
from fixtures.errors import fails

from engine.core.errors import SettingsError
from engine.settings.load import validate
from engine.training.compute.optimizer import learning_rate
from engine.training.config import PRESETS, TrainingConfig


def test_learning_rate_by_hand() -> None:
    rates = [learning_rate(step, 10, 1.0, 0.2) for step in range(10)]
    assert rates == pytest.approx([0.5, 1.0, 1.0, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])


def test_learning_rate_without_warmup_and_with_nothing_else() -> None:
    assert [learning_rate(step, 2, 1.0, 0.0) for step in range(2)] == [1.0, 0.5]
    assert [learning_rate(step, 2, 1.0, 1.0) for step in range(2)] == [0.5, 1.0]
    assert learning_rate(0, 1, 1.0, 0.1) == 1.0


def test_the_paper_preset_is_the_papers() -> None:
    paper = asdict(PRESETS["paper"])
    wanted = {
        "objective": "listnet",
        "teacher_temperature": 2.0,
        "student_temperature": 0.05,
        "queries_per_step": 8,
        "learning_rate": 2e-5,
        "lora_rank": 16,
        "lora_alpha": 32.0,
        "lora_dropout": 0.1,
        "steps": 500,
        "warmup": 0.1,
        "max_tokens": 256,
        "target": "fixed",
    }
    assert {key: paper[key] for key in wanted} == wanted


def test_the_cl_preset_is_the_papers_baseline() -> None:
    paper = asdict(PRESETS["paper"])
    baseline = asdict(PRESETS["cl"])
    differing = {key: value for key, value in baseline.items() if paper[key] != value}
    assert differing == {"objective": "infonce", "queries_per_step": 16}
    assert (baseline["negatives_per_query"], baseline["student_temperature"]) == (0, 0.05)


@pytest.mark.parametrize("objective", ["triplet", "plackett_luce"])
def test_losses_on_own_negatives_want_some(objective: str) -> None:
    with fails(SettingsError, "training-setting-invalid", "negatives_per_query"):
        replace(PRESETS["paper"], **{"objective": objective})
    assert replace(PRESETS["standard"], **{"objective": objective}).uses_own_negatives


def test_a_cross_encoder_has_to_be_named() -> None:
    with fails(SettingsError, "cross-encoder-not-chosen"):
        TrainingConfig(teacher="cross-encoder")
    assert (
        TrainingConfig(teacher="cross-encoder", cross_encoder="x").used_teacher == "cross-encoder"
    )


def test_every_value_of_the_settings_is_one_of_the_recipe() -> None:
    from typing import get_args

    from engine.settings.training_schema import TrainingSettings
    from engine.training import config

    fields = TrainingSettings.model_fields
    for key, kind in (
        ("objective", config.Objective),
        ("teacher", config.Teacher),
        ("target", config.Target),
        ("false_negatives", config.FalseNegatives),
    ):
        offered = next(part for part in get_args(fields[key].annotation) if part is not type(None))
        assert get_args(offered) == get_args(kind), key
    assert get_args(fields["preset"].annotation) == tuple(PRESETS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("steps", 0),
        ("learning_rate", float("nan")),
        ("infonce_weight", 1.5),
        ("label_smoothing", 0.51),
        ("triplet_margin", -0.1),
        ("lora_dropout", 1),
        ("student_temperature", 0.0),
        ("queries_per_step", 0),
    ],
)
def test_values_out_of_range_are_named(key: str, value: object) -> None:
    with fails(SettingsError, "settings-invalid", key):
        validate({"training": {key: value}})


def test_importing_the_room_loads_nothing_heavy() -> None:
    code = (
        "import sys, engine.training, engine.training.config, engine.training.data;print([m for m"
        " in ('torch', 'transformers', 'peft', 'sentence_transformers') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )
