"""Both sides, then queries alone: two adapters, of which the second begins where the first ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from fixtures.shown_numbers import numbers
from fixtures.training import CPU, After, adapter, same
from safetensors.numpy import load_file

from engine.core.errors import CancelledError
from engine.core.events import Choice, Event, HeldOut, TrainStep
from engine.encoders.model_folder import ModelFolder
from engine.encoders.transformer import TransformerEncoder
from engine.project.stage import StageContext
from engine.training import query_refinement
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.heldout import build_pool, measure
from engine.training.job import Job
from engine.training.methods import learn
from engine.training.query_refinement import counted, joined
from engine.training.trainer import TrainResult, train

pytestmark = pytest.mark.usefixtures("every_step_is_reported")
Learn = Callable[..., TrainResult]
STEPS, MORE = 6, 8


@pytest.fixture
def staged(recipe: TrainingConfig) -> TrainingConfig:
    return replace(
        recipe, adapter_scope="both-then-queries", steps=STEPS, query_steps=MORE, eval_every=2, checkpoint_every=2,
        queries_per_step=16, learning_rate=2e-3, query_learning_rate=5e-3, heldout_pool=200, patience=9,
    )  # fmt: skip


@pytest.fixture
def seen(data: TrainingData) -> TrainingData:
    """The held-out queries are those that are trained on: each step makes them better."""
    return replace(data, heldout_queries=data.queries, heldout_positives=data.positives, heldout_hard=None)


@pytest.fixture
def go(tiny: ModelFolder, seen: TrainingData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Learn:
    def vectors(_context: StageContext, folder: Path) -> np.ndarray:
        encoder = TransformerEncoder.load(tiny, adapter=folder, hardware=CPU, max_tokens=128)
        return encoder.encode_chunks(list(seen.chunks))

    monkeypatch.setattr(query_refinement, "adapted_chunk_vectors", vectors)

    def learnt(
        config: TrainingConfig, name: str = "run", reported: list[Event] | None = None, **asked: Any
    ) -> TrainResult:
        nothing, listen = cast(Any, None), asked.pop("listen", (reported if reported is not None else []).append)
        context = StageContext(
            nothing, nothing, nothing, "train", "f", "r", listen, asked.pop("should_stop", lambda: False), **asked
        )
        result, reason = learn(context, tiny, seen, config, CPU, tmp_path / name)
        assert result is not None
        assert reason == ""
        return result

    return learnt


def chunk_tensors(result: TrainResult) -> dict[str, np.ndarray]:
    assert result.chunk_adapter is not None
    return load_file(result.chunk_adapter / "adapter_model.safetensors")


def test_the_first_part_is_the_training_of_both_sides_and_the_second_goes_on_from_it(
    go: Learn, tiny: ModelFolder, seen: TrainingData, staged: TrainingConfig, tmp_path: Path
) -> None:
    result = go(staged)
    both = go(replace(staged, adapter_scope="both"), "both")
    assert same(chunk_tensors(result), adapter(both))
    vectors = TransformerEncoder.load(tiny, adapter=both.adapter, hardware=CPU, max_tokens=128).encode_chunks(
        list(seen.chunks)
    )
    alone = train(Job(
        tiny, replace(seen, fixed_chunks=vectors), staged.for_refinement(), CPU, tmp_path / "alone",
        start=both.adapter))  # fmt: skip
    assert same(adapter(result), adapter(alone))
    assert not same(adapter(result), adapter(both))


def test_what_is_kept_is_what_the_two_encoders_find_together(
    go: Learn, tiny: ModelFolder, seen: TrainingData, staged: TrainingConfig
) -> None:
    result = go(staged)
    first = max(entry["ndcg_at_10"] for entry in result.history if entry["step"] <= STEPS)
    assert result.best_ndcg_at_10 is not None
    assert result.best_ndcg_at_10 > first
    pool = build_pool(seen, staged)
    assert pool is not None
    of_queries = TransformerEncoder.load(tiny, adapter=result.adapter, hardware=CPU, max_tokens=128)
    of_chunks = TransformerEncoder.load(tiny, adapter=result.chunk_adapter, hardware=CPU, max_tokens=128)
    queries = of_queries.encode_queries([seen.heldout_queries[i] for i in pool.queries])
    chunks = of_chunks.encode_chunks([seen.chunks[i] for i in pool.chunks])
    assert measure(queries, chunks, pool.positives)[1] == pytest.approx(result.best_ndcg_at_10, abs=0.5)


def test_steps_are_counted_through(go: Learn, staged: TrainingConfig) -> None:
    reported: list[Event] = []
    result = go(staged, reported=reported)
    steps = [event for event in reported if isinstance(event, TrainStep)]
    assert [event.step for event in steps] == list(range(1, STEPS + MORE + 1))
    assert {event.steps for event in steps} == {STEPS + MORE}
    checks = [event.step for event in reported if isinstance(event, HeldOut)]
    assert checks == [0, 2, 4, 6, 6, 8, 10, 12, 14]
    assert [entry["step"] for entry in result.history] == [0, 2, 4, 6, 8, 10, 12, 14]
    assert result.steps == STEPS + MORE
    assert STEPS < result.best_step <= STEPS + MORE
    (choice,) = (event for event in reported if isinstance(event, Choice) and event.setting == "query adapter")
    assert choice.value == "one of its own"


def test_where_nothing_better_is_found_one_adapter_is_enough(go: Learn, staged: TrainingConfig) -> None:
    reported: list[Event] = []
    result = go(replace(staged, query_learning_rate=1e-9), reported=reported)
    assert result.chunk_adapter is None
    assert (result.steps, result.best_step <= STEPS) == (STEPS, True)
    assert same(adapter(result), adapter(go(replace(staged, adapter_scope="both"), "both")))
    (choice,) = (event for event in reported if isinstance(event, Choice) and event.setting == "query adapter")
    assert (choice.value, 8 in numbers(choice.reason)) == ("none", True)  # steps of the second part


def test_finishing_in_the_first_part_leaves_out_the_second(go: Learn, staged: TrainingConfig) -> None:
    after = After(3)
    result = go(staged, listen=after.listen, should_finish=after)
    assert (result.chunk_adapter, result.steps, result.ended) == (None, 3, "asked")


def test_broken_off_in_the_second_part_it_resumes_to_the_bit(go: Learn, staged: TrainingConfig) -> None:
    whole = go(staged)
    after = After(STEPS + 3)
    with pytest.raises(CancelledError):
        go(staged, "broken", listen=after.listen, should_stop=after)
    reported: list[Event] = []
    resumed = go(staged, "broken", reported=reported)
    assert next(event.step for event in reported if isinstance(event, TrainStep)) > STEPS
    assert same(adapter(resumed), adapter(whole))
    assert same(chunk_tensors(resumed), chunk_tensors(whole))
    assert resumed.history == whole.history


def test_two_trainings_as_one() -> None:
    def entry(step: int) -> dict[str, float | int]:
        return {"step": step, "ndcg_at_10": step}

    first = TrainResult(Path("both"), 40, 20, 50.0, [entry(0), entry(20), entry(40)], "no gain")
    second = TrainResult(Path("queries"), 10, 5, 51.0, [entry(0), entry(5), entry(10)])
    whole = joined(first, second)
    assert (whole.adapter, whole.chunk_adapter) == (Path("queries"), Path("both"))
    assert (whole.steps, whole.best_step, whole.best_ndcg_at_10, whole.ended) == (50, 45, 51.0, "all steps")
    assert [one["step"] for one in whole.history] == [0, 20, 40, 45, 50]


def test_of_events_that_count_no_steps_nothing_is_changed() -> None:
    reported: list[Event] = []
    choice = Choice(stage="train", setting="device", value="cpu", reason="no GPU")
    step = TrainStep(
        step=3, steps=8, loss=1.0, learning_rate=0.1, tokens_per_second=1.0, memory_mb=1.0, seconds_left=1.0
    )
    counted(reported.append, before=40)(choice)
    counted(reported.append, before=40)(step)
    counted(reported.append, after=10)(step)
    counted(reported.append, after=10)(choice)
    assert reported == [choice, replace(step, step=43, steps=48), replace(step, steps=18), choice]


def test_the_second_parts_recipe(recipe: TrainingConfig) -> None:
    staged = replace(
        recipe, adapter_scope="both-then-queries", query_steps=7, query_learning_rate=0.01, refresh_every=3
    )
    second = staged.for_refinement()
    assert (second.adapter_scope, second.steps, second.learning_rate, second.refresh_every) == ("queries", 7, 0.01, 0)
    assert second.shared_chunks == 8192
    assert replace(staged, shared_chunks=20_000).for_refinement().shared_chunks == 20_000
    apart = replace(staged, objective="triplet", negatives_per_query=2)
    assert apart.for_refinement().shared_chunks == apart.shared_chunks  # no query would look at them
