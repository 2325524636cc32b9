"""A linear map of vectors that are given, trained by the recipe's loss."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.heldout import build_pool, measure
from engine.training.model.linear_map import MappedEncoder, train_linear_map

RECIPE = TrainingConfig(
    objective="plackett_luce",
    in_batch=True,
    steps=60,
    eval_every=20,
    queries_per_step=16,
    learning_rate=2e-2,
    heldout_pool=60,
    patience=9,
)


@pytest.fixture(scope="module")
def turned(data: TrainingData) -> TrainingData:
    """Queries whose vectors are their chunks' turned by a fixed orthogonal matrix, with noise: a
    linear map finds its way back.
    """
    rng = np.random.default_rng(0)
    chunks = rng.normal(size=(len(data.chunks), 12)).astype(np.float32)
    chunks /= np.linalg.norm(
        chunks,
        axis=1,
        keepdims=True,
    )
    turn = np.linalg.qr(np.eye(12) + 0.4 * rng.normal(size=(12, 12)))[0]

    def asked(positives: Any) -> np.ndarray:
        found = chunks[positives] @ turn + 0.02 * rng.normal(size=(len(positives), 12))
        unit: np.ndarray = (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)
        return unit

    return replace(
        data,
        base_chunks=chunks,
        base_queries=asked(data.positives),
        base_heldout=asked(data.heldout_positives),
        lists=None,
    )


def heldout(data: TrainingData, matrix: np.ndarray) -> float:
    pool = build_pool(data, RECIPE)
    assert pool is not None
    assert data.base_heldout is not None
    assert data.base_chunks is not None
    made = MappedEncoder(
        Given(data.base_heldout[pool.queries], data.base_chunks[pool.chunks]), matrix
    )  # type: ignore[arg-type]
    queries = made.encode_queries([])
    chunks = made.encode_chunks([])
    np.testing.assert_allclose(
        np.linalg.norm(chunks, axis=1),
        1,
        atol=1e-5,
    )
    return measure(queries, chunks, pool.positives).ndcg_at_10


class Given:
    fingerprint = "f"

    def __init__(self, queries: np.ndarray, chunks: np.ndarray) -> None:
        self.notices: list[str] = []
        self.queries = queries
        self.chunks = chunks

    def encode_queries(self, _texts: object, _progress: object) -> np.ndarray:
        return self.queries

    def encode_chunks(self, _texts: object, _progress: object) -> np.ndarray:
        return self.chunks


@pytest.mark.parametrize("rank", [None, 3])
def test_it_begins_at_identity_and_keeps_what_does_best(
    turned: TrainingData, rank: int | None
) -> None:
    identity = np.eye(12, dtype=np.float32)
    nothing = train_linear_map(
        turned,
        replace(RECIPE, learning_rate=1e-12),
        rank,
    )
    np.testing.assert_allclose(
        nothing.matrix,
        identity,
        atol=1e-8,
    )
    trained = train_linear_map(turned, RECIPE, rank)
    found = trained.matrix
    assert trained.best_ndcg_at_10 == pytest.approx(heldout(turned, found), abs=1e-4)
    assert heldout(turned, found) > heldout(turned, identity) + 3
    assert np.linalg.matrix_rank(found - identity, tol=1e-4) <= (rank or 12)
    np.testing.assert_array_equal(found, train_linear_map(turned, RECIPE, rank).matrix)


def test_patience_ends_it(turned: TrainingData) -> None:
    spoilt = replace(turned, base_heldout=turned.base_heldout[::-1])  # type: ignore[index]
    kept = train_linear_map(spoilt, replace(RECIPE, patience=1, eval_every=1, learning_rate=1e-9))
    np.testing.assert_allclose(
        kept.matrix,
        np.eye(12),
        atol=1e-6,
    )


def test_without_checks_the_last_matrix_is_kept(turned: TrainingData) -> None:
    found = train_linear_map(turned, replace(RECIPE, eval_every=0))
    assert found.best_ndcg_at_10 is None
    assert not np.allclose(found.matrix, np.eye(12), atol=1e-4)
