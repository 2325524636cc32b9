"""A hyperbolic encoder is an adapter: trained on −d_L, and loaded from its folder as it was
trained.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.training import CPU, check_same_encoder

from engine.core.errors import SettingsError
from engine.encoders.geometry.lorentz import Lorentz
from engine.encoders.geometry.similarity import COSINE
from engine.encoders.geometry.spaces import Hyperbolic, read_geometry
from engine.encoders.model_folder import ModelFolder
from engine.encoders.transformer import TransformerEncoder
from engine.settings.load import validate
from engine.training.batches import Batch, BatchSampler
from engine.training.config import PRESETS, TrainingConfig
from engine.training.data import TrainingData
from engine.training.heldout import build_pool, measure
from engine.training.objectives.hyperbolic import distance_scores, entailment
from engine.training.objectives.losses import infonce
from engine.training.objectives.objective import Objective
from engine.training.recipe import config_of
from engine.training.trainer import TrainResult

Run = Callable[..., TrainResult]
LORENTZ: dict[str, Any] = {
    "similarity": "lorentz",
    "objective": "infonce",
    "negatives_per_query": 4,
}


def test_it_learns_and_is_loaded_as_it_was_trained(
    run: Run, recipe: TrainingConfig, data: TrainingData, tiny: ModelFolder
) -> None:
    seen = replace(
        data, heldout_queries=data.queries, heldout_positives=data.positives, heldout_hard=None
    )
    config = replace(
        recipe, **LORENTZ, steps=30, queries_per_step=16, eval_every=15, learning_rate=5e-3
    )
    result = run(config, given=seen)
    assert result.history[-1]["loss"] < result.history[1]["loss"]
    assert result.best_ndcg_at_10 is not None
    assert result.best_ndcg_at_10 > result.history[0]["ndcg_at_10"] + 5
    encoder = TransformerEncoder.load(
        tiny, adapter=result.adapter, hardware=CPU, max_tokens=config.max_tokens
    )
    assert encoder.similarity == Lorentz(1.0)
    pool = build_pool(seen, config)
    assert pool is not None
    queries = encoder.encode_queries([seen.heldout_queries[row] for row in pool.queries])
    chunks = encoder.encode_chunks([seen.chunks[row] for row in pool.chunks])
    assert np.ptp(np.linalg.norm(chunks, axis=1)) > 0.01
    ndcg = measure(queries, chunks, pool.positives, encoder.similarity).ndcg_at_10
    assert ndcg == pytest.approx(result.best_ndcg_at_10, abs=0.5)  # merged weights round otherwise
    base = TransformerEncoder.load(
        tiny,
        adapter=result.adapter,
        adapter_scale=0.0,
        hardware=CPU,
    )
    assert base.similarity is COSINE


def test_vectors_are_spread_as_cosines_are_before_the_first_step(
    run: Run, recipe: TrainingConfig, data: TrainingData, tiny: ModelFolder
) -> None:
    found = run(
        recipe, similarity="lorentz", curvature=4.0, steps=1, eval_every=0, learning_rate=1e-9
    ).adapter
    encoder = TransformerEncoder.load(
        tiny, adapter=found, hardware=CPU, max_tokens=recipe.max_tokens
    )
    points = np.concatenate(
        [encoder.encode_queries(data.queries[:32]), encoder.encode_chunks(data.chunks[:32])]
    )
    assert np.arcsinh(2 * np.linalg.norm(points, axis=1)).mean() == pytest.approx(
        1, rel=1e-3
    )  # √c‖v‖
    geometry = read_geometry(found)
    assert isinstance(geometry, Hyperbolic)
    assert geometry.curvature == 4.0


def test_grad_cache_changes_nothing(
    run: Run, recipe: TrainingConfig, data: TrainingData, tiny: ModelFolder
) -> None:
    whole = run(
        recipe,
        "whole",
        **LORENTZ,
    )
    twice = run(
        recipe,
        "twice",
        **LORENTZ,
        graph_memory_mb=0,
    )
    check_same_encoder(
        tiny,
        whole.adapter,
        twice.adapter,
        data.chunks[:20],
    )
    assert [one["loss"] for one in twice.history[1:]] == pytest.approx(
        [one["loss"] for one in whole.history[1:]], rel=1e-3
    )


@pytest.mark.parametrize("weight", [0.0, 0.5])
def test_the_loss_is_infonce_on_distances_and_entailment(
    data: TrainingData, recipe: TrainingConfig, weight: float
) -> None:
    config = replace(
        recipe,
        **LORENTZ,
        entailment_weight=weight,
        curvature=2.0,
    )
    batch = BatchSampler(data, config).batch(0)
    vectors = torch.randn(
        len(batch.queries) + len(batch.chunks), 6, generator=torch.Generator().manual_seed(0)
    )
    queries = vectors[: len(batch.queries)]
    chunks = vectors[len(batch.queries) :]
    positives = torch.from_numpy(batch.positives)
    loss, _ = Objective(config, None, "cpu").build_loss(batch)
    contrast = infonce(
        distance_scores(queries, chunks, 2.0),
        positives,
        temperature=0.05,
    )
    expected = contrast + weight * entailment(queries, chunks[positives], 2.0)
    assert loss(vectors).item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("changes", [{"adapter_scope": "queries"}, {"method": "PT"}])
def test_both_sides_must_be_trained_on_pairs(changes: dict[str, Any]) -> None:
    with fails(SettingsError, "training-settings-conflict"):
        config_of(validate({"training": {"similarity": "lorentz", **changes}}))
    assert config_of(validate({"training": {"similarity": "lorentz"}})).adapter_scope == "both"


def test_the_preset_is_the_papers() -> None:
    config = PRESETS["pipelines"]
    assert (config.negatives_per_query, config.queries_per_step, config.epochs) == (5, 32, 3)
    assert config.entailment_weight == 0.1


def test_the_preset_compares_a_query_with_its_own_chunk_and_negatives_alone() -> None:
    """InfoNCE over six candidates, by hand: −log softmax at the first of them."""
    config = PRESETS["pipelines"]
    batch = Batch(
        np.array([0]),
        np.arange(8),
        np.array([0]),
        np.zeros((1, 8), np.float32),
        np.array([[True] * 6 + [False] * 2]),
    )
    vectors = torch.nn.functional.normalize(
        torch.randn(9, 4, generator=torch.Generator().manual_seed(0)), dim=1
    )
    scores = vectors[1:7] @ vectors[0] / 0.05
    loss, _ = Objective(config, None, "cpu").build_loss(batch)
    assert loss(vectors).item() == pytest.approx(
        (torch.logsumexp(scores, 0) - scores[0]).item(), rel=1e-5
    )
