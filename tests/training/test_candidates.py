"""The lists of a cross-encoder that teaches: the union of what BM25 and the encoder find."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engine.encoders.geometry.similarity import COSINE
from engine.training import candidates
from engine.training.batches import Batch, BatchSampler
from engine.training.candidates import candidate_lists, find_nearest
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.objectives.objective import Objective

TAUGHT = TrainingConfig(
    teacher="cross-encoder",
    cross_encoder="x",
    objective="listnet",
    teacher_candidates=2,
    queries_per_step=2,
    negatives_per_query=0,
)
POSITIVES = np.array([4, 1])
RANKED = np.array([[2, 4, 0], [3, -1, -1]])
SCORES = np.array([[9.0, 5.0, 1.0], [7.0, -np.inf, -np.inf]], np.float32)
NEAREST = np.array([[2, 5, 6], [1, 0, 2]])


def test_a_list_is_the_evidence_then_the_best_of_both_each_once() -> None:
    lists = candidate_lists(
        POSITIVES,
        RANKED,
        SCORES,
        NEAREST,
        TAUGHT,
    )
    assert lists.queries.tolist() == [0, 1]
    assert lists.chunks.tolist() == [[4, 2, 5], [1, 3, 0]]
    assert lists.scores.tolist() == [[5.0, 9.0, 0.0], [0.0, 7.0, 0.0]]


def test_lists_of_other_lengths_are_padded() -> None:
    nearest = np.array([[5, 6, -1], [1, -1, -1]])
    lists = candidate_lists(
        POSITIVES,
        RANKED,
        SCORES,
        nearest,
        TAUGHT,
    )
    assert lists.chunks.tolist() == [[4, 2, 5, 6], [1, 3, -1, -1]]
    assert np.isneginf(lists.scores).tolist() == [[False] * 4, [False, False, True, True]]


@pytest.mark.parametrize("augmentation", [None, "mafin"])
def test_the_encoder_finds_the_nearest_chunks(
    monkeypatch: pytest.MonkeyPatch, augmentation: Any
) -> None:
    vectors = np.eye(4, dtype=np.float32)[[0, 1, 2, 3, 1]]
    queries = np.array([[0.0, 1.0, 0.5, 0.0], [0.1, 0.0, 0.0, 1.0]], np.float32)
    encoder = SimpleNamespace(similarity=COSINE, encode_queries=lambda _texts, _progress: queries)
    remembered: list[object] = []

    def add_cache(_context: object, inner: object) -> object:
        remembered.append(inner)
        return inner

    monkeypatch.setattr(
        candidates,
        "load_encoder",
        lambda _: encoder,
    )
    monkeypatch.setattr(candidates, "add_cache", add_cache)
    monkeypatch.setattr(
        candidates,
        "chunk_vectors",
        lambda _c, _e, chunks: vectors[chunks],
    )
    context: Any = SimpleNamespace(settings=SimpleNamespace(training=SimpleNamespace(seed=0)))
    chunks: Any = list(range(5))
    config = TrainingConfig(
        teacher="cross-encoder",
        cross_encoder="x",
        objective="listnet",
        teacher_candidates=3,
        augmentation=augmentation,
    )
    rows = find_nearest(
        context,
        config,
        ["a", "b"],
        chunks,
    )
    assert rows.tolist() == [[1, 4, 2], [3, 0, 1]]
    assert len(remembered) == bool(augmentation)


def test_the_loss_is_the_cross_entropy_to_the_cross_encoders_scores() -> None:
    lists = candidate_lists(
        POSITIVES,
        RANKED,
        SCORES,
        NEAREST,
        TAUGHT,
    )
    data = TrainingData(
        queries=["a", "b"],
        positives=POSITIVES,
        ranked_ids=RANKED,
        ranked_scores=SCORES,
        chunks=list("0123456"),
        lists=lists,
    )
    batch = BatchSampler(data, TAUGHT).batch(0)
    assert batch.candidates is not None
    assert batch.chunks.tolist() == [0, 1, 2, 3, 4, 5]
    listed = {
        int(query): batch.chunks[row].tolist()
        for query, row in zip(batch.queries, batch.candidates, strict=True)
    }
    assert listed == {0: [2, 4, 5], 1: [0, 1, 3]}
    # A chunk's score is its number times the logarithm of 2, over α = 2.
    logit = 2 * np.log(2.0)

    def pairs(given: Batch) -> np.ndarray:
        return np.tile(logit * given.chunks, (2, 1)).astype(np.float32)

    loss, _ = Objective(TAUGHT, None, "cpu", pairs).build_loss(batch)
    # Cosines of 0 give a student without an opinion: −Σ p log(1/3) = log 3, whatever the teacher.
    even = torch.zeros(8, 4)
    assert loss(even).item() == pytest.approx(np.log(3.0))
    # Query 1 agrees with the teacher: 2^0, 2^1, 2^3 → p = 1/11, 2/11, 8/11; query 0: 2^2, 2^4, 2^5.
    targets = {0: np.array([4, 16, 32]) / 52, 1: np.array([1, 2, 8]) / 11}
    wanted = 0.0
    cosines = torch.zeros(2, 6)
    for row, query in enumerate(batch.queries.tolist()):
        columns = np.searchsorted(batch.chunks, listed[query])
        cosines[row, columns] = torch.tensor(
            TAUGHT.student_temperature * np.log(targets[query])
        ).float()
        wanted += float(-(targets[query] * np.log(targets[query])).sum()) / 2
    vectors = torch.cat([cosines, torch.eye(6)])
    assert loss(vectors).item() == pytest.approx(wanted, abs=1e-5)
