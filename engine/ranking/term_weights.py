"""How much each word of a query counts, learnt from queries whose right chunk is known.

A query's words are not equally worth looking for: "impact" or "affected" say how a question is worded, not what it is about,
yet the rarer they are in the documents, the more BM25 counts them. So each word t gets a weight w_t = exp(θ_t), θ_t ≤ 0, and

z(q, c) = a · Σ_t w_t · bm25(t, c) + b · cos(q, c)

ranks the chunks of a query, a and b learnt, too. The loss is the negative logarithm of the share of softmax(z) that the right
chunks get, plus λ Σ θ_t² / B for every batch of B queries (Adam). A word that the queries say nothing about keeps its weight 1,
and none can count more than in BM25: weights above 1 were learnt from few queries, and lost (docs/LOG.md, "Weights of query
words").
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine.core.errors import DamagedError

FILE = "term_weights.json"

BATCH = 64
EPOCHS = 3
PENALTY = 0.03
LEARNING_RATE, SCALE_RATE = 0.05, 0.02
FIRST_SCALES = np.log([0.25, 6.0])
_BETAS, _EPSILON = (0.9, 0.999), 1e-8

Floats = NDArray[np.float64]


class Example(NamedTuple):
    """A query with n candidate chunks and t words that occur in the documents.

    `terms` (t,): each word's number. `parts` (t, n): what each word adds to a chunk's BM25 score. `rest` (n,): what is not
    by words, such as codes. `cosines` (n,). `relevant` (n,) bool: the right chunks, at least one.
    """

    terms: NDArray[np.int64]
    parts: NDArray[np.float32]
    rest: NDArray[np.float32]
    cosines: NDArray[np.float32]
    relevant: NDArray[np.bool_]


class _Batch(NamedTuple):
    """Examples side by side, padded: term numbers by `count`, which no word has, everything else by nothing."""

    terms: NDArray[np.int64]
    parts: Floats
    rest: Floats
    cosines: Floats
    relevant: NDArray[np.bool_]
    present: NDArray[np.bool_]


def learn_weights(
    examples: Sequence[Example], count: int, seed: int, check_stop: Callable[[], None] | None = None
) -> Floats:
    """The weights (count,) in (0, 1] of words numbered 0 to `count` − 1. `check_stop` is called between batches."""
    rng = np.random.default_rng(seed)
    logarithms, scales = np.zeros(count), FIRST_SCALES.copy()
    words, both = _Adam(count, LEARNING_RATE), _Adam(2, SCALE_RATE)
    for _ in range(EPOCHS):
        order = rng.permutation(len(examples))
        for start in range(0, len(order), BATCH):
            if check_stop:
                check_stop()
            batch = _padded([examples[row] for row in order[start : start + BATCH]], count)
            _, of_words, of_scales = loss_and_gradients(logarithms, scales, batch)
            logarithms = np.minimum(logarithms - words.step(of_words), 0.0)
            scales = scales - both.step(of_scales)
    return np.asarray(np.exp(logarithms))


def loss_and_gradients(logarithms: Floats, scales: Floats, batch: _Batch) -> tuple[float, Floats, Floats]:
    """The loss of a batch at θ (count,) and (log a, log b), and its gradients by both."""
    queries = len(batch.terms)
    weights = np.append(np.exp(logarithms), 1.0)[batch.terms]
    of_lexical, of_cosine = np.exp(scales)
    lexical = np.einsum("bt,btn->bn", weights, batch.parts) + batch.rest
    z = np.where(batch.present, of_lexical * lexical + of_cosine * batch.cosines, -np.inf)
    exponentials = np.exp(z - z.max(axis=1, keepdims=True))
    right = np.where(batch.relevant, exponentials, 0.0)
    total, found = exponentials.sum(axis=1, keepdims=True), right.sum(axis=1, keepdims=True)
    loss = float(np.log(total / found).mean()) + PENALTY * float((logarithms**2).sum()) / BATCH
    by_z = (exponentials / total - right / found) / queries
    by_weight = of_lexical * weights * np.einsum("bn,btn->bt", by_z, batch.parts)
    by_word = np.bincount(batch.terms.ravel(), by_weight.ravel(), len(logarithms) + 1)[:-1]
    by_scale = np.array([of_lexical * (by_z * lexical).sum(), of_cosine * (by_z * batch.cosines).sum()])
    return loss, by_word + 2 * PENALTY * logarithms / BATCH, by_scale


def _padded(examples: Sequence[Example], count: int) -> _Batch:
    shape = len(examples), max(len(one.terms) for one in examples), max(len(one.rest) for one in examples)
    flat = shape[0], shape[2]
    batch = _Batch(
        np.full(shape[:2], count), np.zeros(shape), np.zeros(flat), np.zeros(flat), np.zeros(flat, bool),
        np.zeros(flat, bool),
    )  # fmt: skip
    for row, one in enumerate(examples):
        width = len(one.rest)
        batch.terms[row, : len(one.terms)] = one.terms
        batch.parts[row, : len(one.terms), :width] = one.parts
        batch.rest[row, :width], batch.cosines[row, :width] = one.rest, one.cosines
        batch.relevant[row, :width], batch.present[row, :width] = one.relevant, True
    return batch


def write_weights(folder: Path, weights: Mapping[str, float]) -> None:
    """Keep weights by word in `folder`."""
    rounded = {word: round(weight, 4) for word, weight in sorted(weights.items())}
    (folder / FILE).write_text(json.dumps(rounded, ensure_ascii=False), encoding="utf-8")


def read_weights(folder: Path) -> dict[str, float]:
    """What `write_weights` kept. Raises DamagedError where it cannot be read."""
    try:
        kept = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return {str(word): float(weight) for word, weight in kept.items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise DamagedError(
            f"{folder / FILE} cannot be read.", f"{error}.", "Run 'engine evaluate --force' to make it again.",
            code="artifact-damaged", stage="evaluate", command="evaluate --force",
        ) from error  # fmt: skip


class _Adam:
    """Steps by Adam (Kingma & Ba 2015)."""

    def __init__(self, size: int, rate: float) -> None:
        self._rate, self._steps = rate, 0
        self._mean, self._square = np.zeros(size), np.zeros(size)

    def step(self, gradient: Floats) -> Floats:
        """What to subtract."""
        self._steps += 1
        first, second = _BETAS
        self._mean = first * self._mean + (1 - first) * gradient
        self._square = second * self._square + (1 - second) * gradient**2
        mean, square = self._mean / (1 - first**self._steps), self._square / (1 - second**self._steps)
        return np.asarray(self._rate * mean / (np.sqrt(square) + _EPSILON))
