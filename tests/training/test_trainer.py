from __future__ import annotations

import itertools
import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.training import adapter, check_same_encoder, same, same_training

from engine.core.errors import CancelledError, ResourceError, StageError
from engine.core.events import Choice, Event, HeldOut, TrainStep
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.encoders.transformer import TransformerEncoder
from engine.training.config import PRESETS, Objective, TrainingConfig
from engine.training.data import TrainingData
from engine.training.heldout import build_pool, measure
from engine.training.trainer import TrainResult

pytestmark = pytest.mark.usefixtures("every_step_is_reported")
Run = Callable[..., TrainResult]
QUICK = ("infonce", "mixed")  # of the objectives, at every test; each loss has tests of its own


class StopAfter:
    """Asks to stop once `step` was reached."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.reached = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, TrainStep):
            self.reached = event.step

    def asked(self) -> bool:
        return self.reached >= self.step


@pytest.mark.parametrize(
    "objective",
    [
        one if one in QUICK else pytest.param(one, marks=pytest.mark.slow)
        for one in get_args(Objective)
    ],
)
def test_training_learns(
    run: Run, recipe: TrainingConfig, data: TrainingData, objective: str
) -> None:
    # Asked with the very queries it is trained on: what matters here is that the gradients point
    # the right way.
    seen = replace(
        data, heldout_queries=data.queries, heldout_positives=data.positives, heldout_hard=None
    )
    result = run(
        recipe,
        given=seen,
        objective=objective,
        steps=40,
        queries_per_step=16,
        eval_every=20,
        learning_rate=5e-3,
        negatives_per_query=4,
        micro_batch_tokens=4096,
    )
    _, early, late = result.history
    assert late["loss"] < early["loss"]
    if objective not in ("listnet", "listmle"):  # whose teacher does not know the positive
        assert result.best_ndcg_at_10 is not None
        assert result.best_ndcg_at_10 > result.history[0]["ndcg_at_10"] + 5


def test_events(run: Run, recipe: TrainingConfig) -> None:
    seen: list[Event] = []
    result = run(recipe, emit=seen.append)
    steps = [event for event in seen if isinstance(event, TrainStep)]
    assert [event.step for event in steps] == list(range(1, 13))
    assert all(
        np.isfinite(event.loss) and event.tokens_per_second > 0 and event.memory_mb > 100
        for event in steps
    )
    assert steps[-1].seconds_left == 0
    assert max(event.learning_rate for event in steps) == pytest.approx(recipe.learning_rate)
    assert [event.step for event in seen if isinstance(event, HeldOut)] == [0, 4, 8, 12]
    assert [entry["step"] for entry in result.history] == [0, 4, 8, 12]
    assert all(0 < entry["target_entropy"] < np.log(16) for entry in result.history[1:])


def test_a_text_is_tokenised_once(
    run: Run, recipe: TrainingConfig, data: TrainingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over several epochs and held-out checks."""
    from engine.encoders.text_model import TextModel

    asked: Counter[str] = Counter()
    tokenised = TextModel.token_rows

    def counted(model: TextModel, texts: list[str]) -> list[list[int]]:
        asked.update(texts)
        return tokenised(model, texts)

    monkeypatch.setattr(TextModel, "token_rows", counted)
    run(
        recipe,
        steps=12,
        queries_per_step=40,
    )
    assert {asked[query] for query in data.queries} == {1}
    assert {asked[chunk] for chunk in data.chunks} <= {0, 1}


def test_the_same_seed_gives_the_same_adapter_and_another_does_not(
    run: Run, recipe: TrainingConfig, whole: TrainResult
) -> None:
    assert same_training(whole, run(recipe, "same"))
    assert not same_training(whole, run(recipe, "other", seed=1))


@pytest.mark.parametrize(
    ("stop", "dropout"),
    [
        (5, 0.0),
        (8, 0.2),
        *(
            pytest.param(*more, marks=pytest.mark.slow)
            for more in ((1, 0.0), (8, 0.0), (1, 0.2), (5, 0.2))
        ),
    ],
)
def test_a_broken_off_training_ends_as_an_unbroken_one(
    run: Run, recipe: TrainingConfig, stop: int, dropout: float
) -> None:
    whole = run(
        recipe,
        "whole",
        lora_dropout=dropout,
        graph_memory_mb=0,
    )
    stopper = StopAfter(stop)
    with fails(CancelledError, "cancelled", f"{stop} of 12"):
        run(
            recipe,
            "broken",
            emit=stopper,
            should_stop=stopper.asked,
            lora_dropout=dropout,
            graph_memory_mb=0,
        )
    seen: list[Event] = []
    resumed = run(
        recipe,
        "broken",
        emit=seen.append,
        lora_dropout=dropout,
        graph_memory_mb=0,
    )
    assert min(event.step for event in seen if isinstance(event, TrainStep)) == stop + 1
    assert any(isinstance(event, Choice) and event.value == str(stop) for event in seen)
    assert same_training(whole, resumed)


def test_the_time_of_a_training_is_that_of_all_its_runs(
    run: Run, recipe: TrainingConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: float(next(ticks)))  # which nobody else looks at
    monkeypatch.setattr("engine.training.loop.time", clock)
    stopper = StopAfter(5)
    with pytest.raises(CancelledError):
        run(
            recipe,
            "broken",
            emit=stopper,
            should_stop=stopper.asked,
        )
    state = json.loads((max((tmp_path / "broken").glob("step-*")) / "state.json").read_text())[
        "state"
    ]
    assert state["seconds"] > 0
    before = next(ticks)
    resumed = run(recipe, "broken")
    assert state["seconds"] < resumed.seconds <= state["seconds"] + next(ticks) - before
    assert run(recipe, "broken").seconds == pytest.approx(resumed.seconds, abs=5), (
        "one that is finished takes no longer"
    )


@pytest.mark.parametrize("heldout", [True, False])
def test_the_last_step_is_kept_where_that_is_asked_for(
    run: Run, recipe: TrainingConfig, data: TrainingData, heldout: bool
) -> None:
    """Also where the checks would have stopped at step 8, and kept the start: the rate ruins the
    model.
    """
    if heldout:
        given = data
    else:
        given = replace(
            data,
            heldout_queries=(),
            heldout_positives=data.heldout_positives[:0],
        )
    harmful = replace(
        recipe,
        learning_rate=0.1,
        patience=1,
        keep="last",
    )
    last = run(
        harmful,
        "last",
        given=given,
    )
    assert (last.steps, last.best_step, last.ended) == (12, 12, "all steps")
    plain = run(
        replace(harmful, eval_every=0),
        "plain",
        given=given,
    )
    assert same(adapter(last), adapter(plain)), "a check changes nothing"
    if heldout:
        assert last.best_ndcg_at_10 == last.history[-1]["ndcg_at_10"]
        assert run(replace(harmful, keep="best"), "best", given=given).steps < 12


def test_stopping_within_a_held_out_check(
    run: Run, recipe: TrainingConfig, whole: TrainResult, tmp_path: Path
) -> None:
    calls: list[int] = []
    stopper = StopAfter(4)

    def late() -> bool:  # asked once more within the check that follows step 4
        if stopper.asked():
            calls.append(1)
        return len(calls) == 1

    with pytest.raises(CancelledError):
        run(
            recipe,
            "broken",
            emit=stopper,
            should_stop=late,
        )
    state = json.loads((max((tmp_path / "broken").glob("step-*")) / "state.json").read_text())[
        "state"
    ]
    assert state["step"] == 4
    assert state["history"][-1]["step"] == 0
    assert same_training(whole, run(recipe, "broken"))


def test_a_torn_checkpoint_falls_back_to_the_one_before(
    run: Run, recipe: TrainingConfig, whole: TrainResult, tmp_path: Path
) -> None:
    stopper = StopAfter(8)
    with pytest.raises(CancelledError):
        run(
            recipe,
            "broken",
            emit=stopper,
            should_stop=stopper.asked,
        )
    for damage in ("cut", "flipped", "no state", "torn state"):
        newest = Path(shutil.copytree(tmp_path / "broken", tmp_path / damage)) / "step-00000008"
        payload = bytearray((newest / "tensors.safetensors").read_bytes())
        if damage == "cut":
            (newest / "tensors.safetensors").write_bytes(payload[: len(payload) // 2])
        elif damage == "flipped":
            payload[len(payload) // 2] ^= 1
            (newest / "tensors.safetensors").write_bytes(payload)
        elif damage == "no state":
            (newest / "state.json").unlink()
        else:
            (newest / "state.json").write_text('{"version": 1, "key"')
        seen: list[Event] = []
        resumed = run(
            recipe,
            damage,
            emit=seen.append,
        )
        assert min(event.step for event in seen if isinstance(event, TrainStep)) == 7, (
            damage
        )  # checkpoints: 6 and 8
        assert same_training(whole, resumed), damage


def test_only_two_checkpoints_are_kept_and_nothing_half_written(
    run: Run, recipe: TrainingConfig, tmp_path: Path
) -> None:
    run(recipe)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "adapter",
        "step-00000009",
        "step-00000012",
    ]


def test_a_finished_training_is_not_repeated(run: Run, recipe: TrainingConfig) -> None:
    first = run(recipe)
    seen: list[Event] = []
    assert same_training(first, run(recipe, emit=seen.append))
    assert not any(isinstance(event, TrainStep) for event in seen)


def test_a_checkpoint_of_other_settings_or_data_is_not_resumed(
    run: Run, recipe: TrainingConfig, data: TrainingData
) -> None:
    def first_step(**changes: object) -> int:
        seen: list[Event] = []
        run(
            recipe,
            emit=seen.append,
            **changes,
        )
        return min((event.step for event in seen if isinstance(event, TrainStep)), default=0)

    assert first_step() == 1
    assert first_step(learning_rate=1e-3) == 1
    assert first_step(given=replace(data, queries=["other", *data.queries[1:]])) == 1
    assert first_step(given=replace(data, queries=["other", *data.queries[1:]])) == 0


def test_training_that_hurts_ends_early_and_keeps_the_base(
    run: Run, recipe: TrainingConfig, data: TrainingData, tiny: ModelFolder
) -> None:
    # The held-out queries are copies of their chunks: the base model finds all of them, and
    # training only loses some.
    copies = replace(data, heldout_queries=[data.chunks[p] for p in data.heldout_positives])
    seen: list[Event] = []
    result = run(
        recipe,
        given=copies,
        emit=seen.append,
        steps=100,
        eval_every=10,
        patience=2,
        learning_rate=0.1,
        heldout_pool=200,
    )
    assert (result.best_step, result.steps) == (0, 20)
    assert result.history[0]["hit_at_10"] == 100
    assert any(isinstance(event, Choice) and "no gain" in event.reason for event in seen)
    cpu = Hardware(
        "cpu",
        "float32",
        1,
        (),
    )
    adapted = TransformerEncoder.load(tiny, adapter=result.adapter, hardware=cpu).encode_queries(
        data.queries
    )
    np.testing.assert_allclose(
        adapted, TransformerEncoder.load(tiny, hardware=cpu).encode_queries(data.queries), atol=1e-6
    )


def test_without_held_out_queries_the_last_step_is_kept(
    run: Run, recipe: TrainingConfig, data: TrainingData
) -> None:
    bare = replace(
        data,
        heldout_queries=(),
        heldout_positives=np.empty(0, int),
        heldout_hard=None,
    )
    result = run(recipe, given=bare)
    assert (result.steps, result.best_step, result.best_ndcg_at_10) == (12, 12, None)
    assert [entry["step"] for entry in result.history] == list(range(1, 13)), (
        "the losses are drawn all the same"
    )
    assert all(
        set(entry) == {"step", "loss", "target_entropy"} and entry["loss"] > 0
        for entry in result.history
    )
    assert any(
        np.abs(value).max() > 1e-3 for name, value in adapter(result).items() if "lora_B" in name
    )


def test_a_loss_that_is_not_finite_is_an_error(
    run: Run, recipe: TrainingConfig, data: TrainingData
) -> None:
    broken = replace(
        data,
        base_queries=np.full((80, 32), np.nan),
        base_chunks=np.ones((200, 32)),
    )
    with fails(StageError, "training-diverged", "step 1") as caught:
        run(recipe, given=broken)
    assert "learning_rate" in caught.value.to_do


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:113] DefaultCPUAllocator: not enough memory: you tried"
            " to allocate"
        ),
    ],
)
def test_missing_memory_is_a_resource_error(
    run: Run, recipe: TrainingConfig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    from engine.training import trainer

    def fail(*args: object, **options: object) -> None:
        raise error

    monkeypatch.setattr(trainer, "compute_gradients", fail)
    with fails(ResourceError, "memory-full") as caught:
        run(recipe)
    assert "queries_per_step" in caught.value.to_do


def test_other_errors_of_torch_are_not_called_missing_memory(
    run: Run, recipe: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.training import trainer

    def fail(*args: object, **options: object) -> None:
        raise RuntimeError("shapes cannot be multiplied; check the memory format")

    monkeypatch.setattr(trainer, "compute_gradients", fail)
    with pytest.raises(RuntimeError, match="multiplied"):
        run(recipe)


def test_a_full_disk_is_a_resource_error(
    run: Run, recipe: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from engine.training import checkpoint

    def fail(temporary: Path, final: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(checkpoint, "publish_folder", fail)
    with fails(ResourceError, "disk-full"):
        run(recipe)


@pytest.mark.parametrize("preset", ["paper", "cl"])
def test_a_preset_to_compare_with_trains(
    run: Run,
    data: TrainingData,
    preset: str,
) -> None:
    bare = replace(
        data,
        heldout_queries=(),
        heldout_positives=np.empty(0, int),
        heldout_hard=None,
    )
    result = run(
        PRESETS[preset],
        given=bare,
        steps=3,
    )
    assert result.steps == 3
    assert any(
        np.abs(value).max() > 0 for name, value in adapter(result).items() if "lora_B" in name
    )


def test_the_pool_holds_positives_then_hard_then_random_chunks(
    data: TrainingData, recipe: TrainingConfig
) -> None:
    config = replace(
        recipe,
        heldout_pool=60,
        heldout_queries=15,
    )
    pool = build_pool(data, config)
    assert pool is not None
    assert data.heldout_hard is not None
    assert len(pool.queries) == 15
    assert len(pool.chunks) == len(set(pool.chunks.tolist())) == 60
    assert pool.chunks[pool.positives].tolist() == data.heldout_positives[pool.queries].tolist()
    assert set(data.heldout_hard[pool.queries, 0].tolist()) <= set(pool.chunks.tolist())
    everything = build_pool(data, replace(config, heldout_pool=1000))
    assert everything is not None
    assert len(everything.chunks) == 200


def test_measure_by_hand() -> None:
    # Ranks of the positives: 1, 2 (one better), 2 (an equal one of lower number goes first).
    chunks = np.array([[1, 0], [0.8, 0.6], [0.8, 0.6], [0, 1]], dtype=np.float32)
    queries = np.array([[0, 1], [1, 0], [0.8, 0.6]], dtype=np.float32)
    found = measure(
        queries,
        chunks,
        np.array([3, 1, 2]),
    )
    assert found.hit_at_10 == 100
    assert found.ndcg.tolist() == pytest.approx([1, 1 / np.log2(3), 1 / np.log2(3)])
    assert found.ndcg_at_10 == pytest.approx(100 * (1 + 2 / np.log2(3)) / 3)
    far = np.linspace(1, 0.1, 12, dtype=np.float32)[:, None]
    outside = measure(
        np.ones((1, 1), np.float32),
        far,
        np.array([10]),
    )
    assert (outside.hit_at_10, outside.ndcg_at_10) == (0, 0)
    last = measure(
        np.ones((1, 1), np.float32),
        far,
        np.array([9]),
    )
    assert (last.hit_at_10, last.ndcg_at_10) == (100, pytest.approx(100 / np.log2(11)))


def test_a_step_that_a_gpu_has_no_memory_for_is_made_again_with_less_at_a_time(
    run: Run,
    recipe: TrainingConfig,
    data: TrainingData,
    tiny: ModelFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    from engine.core.events import Warned
    from engine.training.model.student import Student

    forward = Student.forward
    events = list[Event]()
    thrifty = run(
        recipe, "thrifty", steps=4, micro_batch_tokens=128, graph_memory_mb=0, lora_dropout=0.2
    )

    def scarce(self: Student, rows: list[list[int]], prompt_length: int = 0) -> torch.Tensor:
        if torch.is_grad_enabled() and len(rows) * max(map(len, rows)) > 128:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(self, rows, prompt_length)

    monkeypatch.setattr(Student, "forward", scarce)
    found = run(
        recipe,
        "scarce",
        steps=4,
        micro_batch_tokens=256,
        max_tokens=128,
        lora_dropout=0.2,
        emit=events.append,
    )
    reported = [event.text for event in events if isinstance(event, Warned)]
    assert ["graphs" in text for text in reported] == [True, False]
    assert "128 tokens" in reported[1]
    assert found.steps == 4
    check_same_encoder(
        tiny,
        found.adapter,
        thrifty.adapter,
        data.chunks[:20],
    )
    monkeypatch.setattr(
        Student,
        "forward",
        lambda *_: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA out of memory.")),
    )
    with fails(ResourceError, "memory-full"):
        run(recipe, "none", steps=4)
