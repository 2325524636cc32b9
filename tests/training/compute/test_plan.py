"""How steps are computed: what is chosen for which machine, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fixtures.shown_numbers import numbers

from engine.core.events import Choice, Event
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.settings.load import validate
from engine.training.compute.plan import Plan, free_memory, make_plan
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.job import Job
from engine.training.model.student import Student
from engine.training.recipe import config_of
from engine.training.trainer import train

CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
GPU = Hardware(
    "cuda",
    "bfloat16",
    2,
    (),
)
GB = 2**30


@pytest.fixture(scope="module")
def student(tiny: ModelFolder) -> Student:
    return Student(
        tiny,
        TrainingConfig(max_tokens=128),
        CPU,
    )


def plan(
    student: Student,
    hardware: Hardware,
    free: float,
    **changes: Any,
) -> Plan:
    return make_plan(
        student, replace(TrainingConfig(max_tokens=128), **changes), hardware, int(free)
    )


def reported(found: Plan) -> dict[str, tuple[str, str]]:
    assert all(choice.reason for choice in found.choices)
    return {choice.setting: (choice.value, choice.reason) for choice in found.choices}


def test_a_cpu_with_room_computes_as_ever(student: Student) -> None:
    found = plan(student, CPU, GB)
    assert found == Plan(False, False, 1024, GB / 6, found.choices)
    assert plan(student, CPU, GB, graph_memory_mb=7).graph_bytes == 7 * 2**20
    assert plan(student, GPU, GB).graph_bytes == GB / 2
    choices = reported(found)
    assert choices["gradient checkpointing"][0] == "off"


def test_checkpointing_where_a_micro_batch_does_not_fit(student: Student) -> None:
    needed = 1024 * student.bytes_per_token(128)
    assert not plan(student, CPU, 2 * needed).checkpointing
    tight = plan(
        student,
        CPU,
        2 * needed - 2,
    )
    assert tight.checkpointing
    assert tight.micro_batch_tokens == 1024
    assert "MB" in reported(tight)["gradient checkpointing"][1]
    assert plan(student, CPU, GB, gradient_checkpointing="on").checkpointing
    assert not plan(student, CPU, 0, gradient_checkpointing="off").checkpointing


def test_a_gpu_shrinks_micro_batches_before_it_computes_twice(student: Student) -> None:
    token = student.bytes_per_token(128)
    roomy, half, tight = (
        plan(student, GPU, 2 * tokens * token) for tokens in (10**7, 10_000, 4000)
    )
    assert (roomy.micro_batch_tokens, roomy.checkpointing) == (32 * 1024, False)
    assert (half.micro_batch_tokens, half.checkpointing) == (10_000, False)
    assert tight.checkpointing
    assert tight.micro_batch_tokens > 4096
    assert roomy.graph_bytes == 10**7 * token
    assert plan(student, GPU, 64 * GB, graph_memory_mb=512).graph_bytes == 16 * GB
    assert (reported(half)["micro-batch"][0], "half" in reported(half)["micro-batch"][1]) == (
        "10,000 tokens",
        True,
    )
    tokens, reason = reported(roomy)["micro-batch"]
    assert (numbers(tokens), numbers(reason), "training.micro_batch_tokens" in reason) == (
        [32 * 1024],
        [32],
        True,
    )
    assert half.graph_bytes == 10_000 * token, "more than a small GPU has would be kept"
    assert roomy.fused


def test_processes_share_the_free_memory_of_a_cpu() -> None:
    assert free_memory(CPU) > GB
    assert free_memory(CPU, processes=4) < free_memory(CPU) / 2


def test_free_memory_of_a_gpu_is_read_after_unused_memory_was_given_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    held = [3 * GB]
    monkeypatch.setattr(
        torch.cuda,
        "empty_cache",
        lambda: held.clear(),
    )
    monkeypatch.setattr(
        torch.cuda,
        "mem_get_info",
        lambda _device: (8 * GB - sum(held), 8 * GB),
    )
    assert free_memory(GPU) == 8 * GB


def test_training_reports_the_choices(
    tiny: ModelFolder, recipe: TrainingConfig, data: TrainingData, tmp_path: Path
) -> None:
    events: list[Event] = []
    short = replace(
        recipe,
        steps=1,
        gradient_checkpointing="on",
        eval_every=0,
    )
    train(Job(tiny, data, short, CPU, tmp_path, events.append, lambda: False))
    choices = {event.setting: event.value for event in events if isinstance(event, Choice)}
    assert choices["gradient checkpointing"] == "on"
    assert choices["GradCache"] == "off"
    train(
        Job(
            tiny,
            data,
            replace(short, graph_memory_mb=0),
            CPU,
            tmp_path / "b",
            events.append,
            lambda: False,
        )
    )
    last = [
        event for event in events if isinstance(event, Choice) and event.setting == "GradCache"
    ][-1]
    assert (last.value, "0 MB" in last.reason) == ("on", True)


def test_settings_reach_the_recipe() -> None:
    assert (
        config_of(validate({"training": {"gradient_checkpointing": "on"}})).gradient_checkpointing
        == "on"
    )


@pytest.mark.parametrize(
    ("training", "encoder", "tokens"),
    [
        ({}, {}, 256),
        ({}, {"max_tokens": 1024}, 1024),
        ({"preset": "paper"}, {"max_tokens": 1024}, 1024),
        ({"max_tokens": 64}, {"max_tokens": 1024}, 64),
        ({"max_tokens": 512}, {}, 256),
        ({"preset": "quick"}, {"max_tokens": 1024}, 128),
        ({"preset": "quick", "max_tokens": 512}, {"max_tokens": 1024}, 512),
    ],
)
def test_texts_are_trained_as_long_as_they_are_encoded(
    training: dict[str, Any], encoder: dict[str, Any], tokens: int
) -> None:
    assert config_of(validate({"training": training, "encoder": encoder})).max_tokens == tokens
