"""Masked-language pre-training: what it learns, and that it can be broken off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.training import After, adapter, same

from engine.core.errors import CancelledError, StageError
from engine.core.events import Choice, Event, HeldOut, TrainStep, Warned
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.model.student import Student
from engine.training.pretraining.loop import describe_new_head
from engine.training.trainer import TrainResult

CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
pytestmark = pytest.mark.usefixtures("every_step_is_reported")
Pretrain = Callable[..., TrainResult]


# Learning


def test_the_loss_falls_on_a_small_repeated_corpus(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData
) -> None:
    chunks = [
        *(["contract party law court judge", "pressure boundary layer heat flow speed sound"] * 100)
    ]
    given = replace(bare, chunks=chunks)
    reported: list[Event] = []
    result = go(
        masked, emit=reported.append, given=given, pretrain_steps=80, pretrain_learning_rate=1e-2
    )
    losses = [event.loss for event in reported if isinstance(event, TrainStep)]
    assert len(losses) == 80
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    assert any(
        np.abs(value).max() > 1e-3 for name, value in adapter(result).items() if "lora_B" in name
    )


def test_a_fresh_head_learns_alone_at_first(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData
) -> None:
    asked = After(2)
    reported = list[Event]()

    def listen(event: Event) -> None:
        asked.listen(event)
        reported.append(event)

    early = go(
        masked, emit=listen, given=bare, should_finish=asked
    )  # two of ten steps are the head's
    assert (early.steps, early.ended) == (2, "asked")
    assert all(not value.any() for name, value in adapter(early).items() if "lora_B" in name)
    (choice,) = (
        event
        for event in reported
        if isinstance(event, Choice) and event.setting == "head for masked words"
    )
    assert choice.value == "a new one"
    assert "2 steps" in choice.reason
    late = go(
        masked,
        "late",
        given=bare,
    )
    assert any(value.any() for name, value in adapter(late).items() if "lora_B" in name)


def test_a_step_without_enough_memory_is_repeated_with_half_the_micro_batch(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pre-training keeps no graphs of several micro-batches, so there are none to drop first."""
    token_states = Student.token_states
    events = list[Event]()

    def scarce(self: Student, rows: list[list[int]]) -> torch.Tensor:
        if len(rows) * max(map(len, rows)) > 128:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return token_states(self, rows)

    monkeypatch.setattr(Student, "token_states", scarce)
    result = go(
        masked,
        given=bare,
        pretrain_steps=1,
        pretrain_chunks_per_step=16,
        micro_batch_tokens=256,
        max_tokens=64,
        emit=events.append,
    )
    (warning,) = (event.text for event in events if isinstance(event, Warned))
    assert "128 tokens" in warning
    assert result.steps == 1


def test_how_long_a_fresh_head_learns_alone_is_reported_in_words() -> None:
    assert "step" not in describe_new_head(0)
    assert "1 step," in describe_new_head(1)
    assert "2 steps," in describe_new_head(2)


def test_the_models_own_head_is_used(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData, with_head: ModelFolder
) -> None:
    asked = After(1)
    result = go(
        masked,
        emit=asked.listen,
        given=bare,
        model=with_head,
        should_finish=asked,
    )
    (choice,) = (
        e for e in asked.reported if isinstance(e, Choice) and e.setting == "head for masked words"
    )
    assert choice.value == "the model's own"
    assert any(
        value.any() for name, value in adapter(result).items() if "lora_B" in name
    )  # from the first step on


def test_held_out_checks_choose_the_best_step(
    go: Pretrain, masked: TrainingConfig, data: TrainingData
) -> None:
    # The held-out queries are copies of their chunks: the base model finds all of them, and
    # training only loses some.
    copies = replace(data, heldout_queries=[data.chunks[p] for p in data.heldout_positives])
    reported: list[Event] = []
    result = go(
        masked,
        emit=reported.append,
        given=copies,
        pretrain_steps=100,
        eval_every=10,
        patience=2,
        heldout_pool=200,
        pretrain_learning_rate=0.1,
    )
    checks = [event.step for event in reported if isinstance(event, HeldOut)]
    assert checks == [0, 30, 40]  # none while the head learns alone, up to step 20
    assert (result.best_step, result.steps, result.ended) == (0, 40, "no gain")
    assert all(not value.any() for name, value in adapter(result).items() if "lora_B" in name)


def test_the_best_of_several_checks_is_kept(go: Pretrain, masked: TrainingConfig) -> None:
    result = go(masked, eval_every=4)
    assert [entry["step"] for entry in result.history] == [0, 4, 8, 10]
    best = max(result.history[1:], key=lambda entry: entry["ndcg_at_10"])
    assert result.best_ndcg_at_10 == best["ndcg_at_10"]
    assert result.best_step == best["step"]


def test_before_fine_tuning_nothing_is_measured(go: Pretrain, masked: TrainingConfig) -> None:
    reported: list[Event] = []
    result = go(
        masked,
        emit=reported.append,
        method="PT-FT",
    )
    assert not any(isinstance(event, HeldOut) for event in reported)
    assert (result.steps, result.best_step, result.best_ndcg_at_10) == (10, 10, None)


def test_a_loss_that_is_not_finite_is_an_error(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData
) -> None:
    with fails(StageError, "training-diverged") as caught:
        go(
            masked,
            given=bare,
            pretrain_learning_rate=1.0,
            pretrain_steps=200,
            clip_norm=1e30,
            weight_decay=0.0,
            lora_alpha=1e30,
        )
    assert "training.pretrain_learning_rate" in caught.value.to_do


# Broken off and resumed


def test_the_same_seed_gives_the_same_adapter_and_another_does_not(
    go: Pretrain, masked: TrainingConfig, bare: TrainingData
) -> None:
    first, second, other = (
        go(masked, name, given=bare, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    assert same(adapter(first), adapter(second))
    assert not same(adapter(first), adapter(other))


@pytest.mark.parametrize(
    ("stop", "dropout"),
    [
        (1, 0.0),
        (2, 0.2),
        (5, 0.2),
        *(
            pytest.param(*more, marks=pytest.mark.slow)
            for more in ((2, 0.0), (5, 0.0), (9, 0.0), (1, 0.2), (9, 0.2))
        ),
    ],
)
def test_broken_off_it_ends_as_an_unbroken_one(
    go: Pretrain, masked: TrainingConfig, stop: int, dropout: float
) -> None:
    """Within the steps of the head alone (1), at their end (2), and after."""
    whole = go(
        masked,
        "whole",
        lora_dropout=dropout,
    )
    asked = After(stop)
    with fails(CancelledError, "cancelled", f"{stop} of 10"):
        go(
            masked,
            "broken",
            emit=asked.listen,
            should_stop=asked,
            lora_dropout=dropout,
        )
    reported: list[Event] = []
    resumed = go(
        masked,
        "broken",
        emit=reported.append,
        lora_dropout=dropout,
    )
    assert min(event.step for event in reported if isinstance(event, TrainStep)) == stop + 1
    assert same(adapter(whole), adapter(resumed))
    assert whole.history == resumed.history


def test_killed_it_goes_on_from_its_last_checkpoint(go: Pretrain, masked: TrainingConfig) -> None:
    whole = go(masked, "whole")

    def die(event: Event) -> None:
        if isinstance(event, TrainStep) and event.step == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(masked, "killed", emit=die)
    reported: list[Event] = []
    resumed = go(
        masked,
        "killed",
        emit=reported.append,
    )
    assert (
        min(event.step for event in reported if isinstance(event, TrainStep)) == 7
    )  # a checkpoint every 3 steps
    assert same(adapter(whole), adapter(resumed))


def test_what_is_done_is_not_done_again_and_other_settings_are(
    go: Pretrain, masked: TrainingConfig
) -> None:
    first = go(masked)
    reported: list[Event] = []
    assert same(adapter(first), adapter(go(masked, emit=reported.append)))
    assert not any(isinstance(event, TrainStep) for event in reported)
    go(
        masked,
        emit=reported.append,
        mask_share=0.3,
    )
    assert [event.step for event in reported if isinstance(event, TrainStep)] == list(range(1, 11))
