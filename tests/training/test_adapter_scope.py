"""An adapter for queries alone: the chunks keep the untouched encoder's vectors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from fixtures.errors import fails
from fixtures.training import adapter, same

from engine.core.errors import CancelledError, SettingsError
from engine.core.events import Event, TrainStep
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder
from engine.encoders.transformer import TransformerEncoder
from engine.settings.load import validate
from engine.training.batches import BatchSampler
from engine.training.config import SHARED_CHUNKS, TrainingConfig
from engine.training.data import TrainingData
from engine.training.heldout import build_pool, measure
from engine.training.model.student import Student
from engine.training.objectives.objective import BaseVectors, Objective
from engine.training.recipe import config_of
from engine.training.trainer import TrainResult

CPU = Hardware(
    "cpu",
    "float32",
    2,
    (),
)
Run = Callable[..., TrainResult]
QUERY = {
    "adapter_scope": "queries",
    "shared_chunks": 1000,
    "negatives_per_query": 0,
}


def test_shared_chunks_join_every_step(data: TrainingData, recipe: TrainingConfig) -> None:
    everything = BatchSampler(
        data, replace(recipe, shared_chunks=200, negatives_per_query=0)
    ).batch(0)
    assert everything.chunks.tolist() == list(range(200))
    assert everything.positives.tolist() == data.positives[everything.queries].tolist()
    some = BatchSampler(data, replace(recipe, shared_chunks=30, negatives_per_query=0))
    first = some.batch(0)
    again = some.batch(0)
    second = some.batch(1)
    assert 30 <= len(first.chunks) <= 30 + len(first.queries)
    assert first.chunks.tolist() == again.chunks.tolist() != second.chunks.tolist()
    own = replace(
        recipe,
        objective="triplet",
        negatives_per_query=2,
    )
    assert BatchSampler(data, replace(own, shared_chunks=200)).batch(0).chunks.tolist() == (
        BatchSampler(data, own).batch(0).chunks.tolist()
    )  # no query would look at them


def test_the_gradient_is_that_of_the_queries_with_fixed_chunks(
    run: Run, tiny: ModelFolder, data: TrainingData, recipe: TrainingConfig
) -> None:
    """One step of plain SGD arithmetic by hand: the first AdamW step moves each weight by the
    sign of its gradient.
    """
    config = replace(
        recipe, steps=1, queries_per_step=8, warmup=0.0, weight_decay=0.0, eval_every=0, **QUERY
    )
    moved = adapter(run(config))
    student = Student(tiny, config, CPU)
    base = TransformerEncoder.load(
        tiny,
        hardware=CPU,
        max_tokens=config.max_tokens,
    )
    chunks = torch.from_numpy(base.encode_chunks(list(data.chunks)))
    batch = BatchSampler(data, config).batch(0)
    vectors = BaseVectors(base.encode_queries(list(data.queries)), chunks.numpy())
    loss, _ = Objective(config, vectors, "cpu").build_loss(batch)
    student.training_mode()
    own = student.forward(student.query_rows([data.queries[i] for i in batch.queries]))
    gradients = torch.autograd.grad(loss(torch.cat([own, chunks])), student.working)
    for (name, before), gradient in zip(student.masters.items(), gradients, strict=True):
        after = next(
            value for key, value in moved.items() if key.endswith(name.replace(".default", ""))
        )
        clear = gradient.abs() > 1e-4
        step = torch.from_numpy(after) - before.detach()
        assert torch.equal(torch.sign(step[clear]), -torch.sign(gradient[clear])), name


def test_held_out_checks_rank_the_untouched_chunk_vectors(
    run: Run, tiny: ModelFolder, data: TrainingData, recipe: TrainingConfig
) -> None:
    config = replace(
        recipe, steps=20, eval_every=20, queries_per_step=16, learning_rate=5e-3, **QUERY
    )
    seen = replace(
        data, heldout_queries=data.queries, heldout_positives=data.positives, heldout_hard=None
    )
    result = run(config, given=seen)
    assert result.best_ndcg_at_10 is not None
    assert result.best_ndcg_at_10 > result.history[0]["ndcg_at_10"] + 5  # it learns
    pool = build_pool(seen, config)
    assert pool is not None
    base = TransformerEncoder.load(
        tiny,
        hardware=CPU,
        max_tokens=config.max_tokens,
    )
    adapted = TransformerEncoder.load(
        tiny, adapter=result.adapter, hardware=CPU, max_tokens=config.max_tokens
    )
    queries = adapted.encode_queries([seen.heldout_queries[i] for i in pool.queries])
    chunks = base.encode_chunks([data.chunks[i] for i in pool.chunks])
    assert measure(queries, chunks, pool.positives).ndcg_at_10 == pytest.approx(
        result.best_ndcg_at_10, abs=0.5
    )


def test_nothing_of_the_chunks_is_encoded(
    run: Run, recipe: TrainingConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object) -> None:
        raise AssertionError("a chunk was encoded")

    monkeypatch.setattr(Student, "chunk_rows", refuse)
    assert run(replace(recipe, steps=4, eval_every=2, **QUERY)).steps == 4


def test_a_broken_off_training_resumes_to_the_bit(run: Run, recipe: TrainingConfig) -> None:
    config = replace(
        recipe,
        steps=6,
        checkpoint_every=2,
        eval_every=2,
        **QUERY,
    )
    reached = [0]

    def watch(event: Event) -> None:
        if isinstance(event, TrainStep):
            reached[0] = event.step

    whole = run(config)
    with pytest.raises(CancelledError):
        run(
            config,
            "broken",
            emit=watch,
            should_stop=lambda: reached[0] >= 3,
        )
    resumed = run(config, "broken")
    assert same(adapter(whole), adapter(resumed))


@pytest.mark.parametrize("values", [{"method": "PT-FT"}, {"method": "PT"}])
def test_what_would_change_chunk_vectors_is_refused(values: dict[str, object]) -> None:
    with fails(SettingsError, "training-settings-conflict"):
        TrainingConfig(adapter_scope="queries", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("sections", "side", "shared"),
    [
        ({}, "queries", SHARED_CHUNKS),  # extractive queries are the default
        ({"queries": {"backend": "both"}}, "queries", SHARED_CHUNKS),
        ({"queries": {"backend": "imported"}}, "both", 0),
        ({"queries": {"backend": "gguf"}}, "both", 0),
        ({"training": {"preset": "paper"}}, "both", 0),
        ({"training": {"preset": "cl"}}, "both", 0),
        ({"training": {"objective": "triplet", "negatives_per_query": 4}}, "both", 0),
        ({"training": {"objective": "infonce"}}, "queries", SHARED_CHUNKS),
        ({"training": {"method": "PT-FT"}}, "both", 0),
        ({"training": {"adapter_scope": "both"}}, "both", 0),
        ({"training": {"adapter_scope": "both", "shared_chunks": 5}}, "both", 5),
        (
            {"training": {"adapter_scope": "queries"}, "queries": {"backend": "imported"}},
            "queries",
            SHARED_CHUNKS,
        ),
        ({"training": {"adapter_scope": "queries", "shared_chunks": 0}}, "queries", 0),
        ({"training": {"adapter_scope": "queries", "objective": "triplet"}}, "queries", 0),
        ({"training": {"teacher": "cross-encoder", "cross_encoder": "judge"}}, "queries", 0),
    ],
)
def test_an_omitted_side_follows_the_queries(
    sections: dict[str, dict[str, object]], side: str, shared: int
) -> None:
    config = config_of(validate(sections))
    assert (config.adapter_scope, config.shared_chunks) == (side, shared)
