"""How much each word of a query counts in hybrid search, learned from queries whose relevant chunk is known.

"impact" or "affected" say how a question is worded, not what it is about, yet the rarer they are in the documents, the more
BM25 counts them. Each word t gets a weight w_t = exp(θ_t), θ_t ≤ 0; chunks are ranked by

z(q, c) = a · Σ_t w_t · bm25(t, c) + b · cos(q, c), a and b learned too.

Loss of a batch of B queries: −log(share of softmax(z) on the relevant chunks), mean, plus λ Σ θ_t² / B. A word that the queries
say nothing about keeps weight 1. Weights above 1 were learned from few queries and lost (docs/log/bm25.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

BATCH = 64
EPOCHS = 3
PENALTY = 0.03
LEARNING_RATE, SCALE_RATE = 0.05, 0.02
FIRST_SCALES = np.log([0.25, 6.0])


class Example(NamedTuple):
    """A query with n candidate chunks and t words that occur in the documents.

    `terms` (t,): each word's number. `parts` (t, n): what each word adds to a chunk's BM25 score. `rest` (n,): what is not
    by words, such as codes. `cosines` (n,). `relevant` (n,) bool: the relevant chunks, at least one.
    """

    terms: NDArray[np.int64]
    parts: NDArray[np.float32]
    rest: NDArray[np.float32]
    cosines: NDArray[np.float32]
    relevant: NDArray[np.bool_]


class Batch(NamedTuple):
    """Examples side by side, padded with 0 and False; term numbers with a number that no word has."""

    terms: Tensor
    parts: Tensor
    rest: Tensor
    cosines: Tensor
    relevant: Tensor
    present: Tensor


def learn_weights(
    examples: Sequence[Example], count: int, seed: int, check_stop: Callable[[], None] | None = None
) -> NDArray[np.float64]:
    """The weights (count,) in (0, 1] of words numbered 0 to `count` − 1. `check_stop` is called between batches."""
    import torch

    from engine.training.compute.workers import Workers

    rng = np.random.default_rng(seed)
    thetas = torch.zeros(count, dtype=torch.float64, requires_grad=True)
    scales = torch.from_numpy(FIRST_SCALES.copy()).requires_grad_()
    optimizer = torch.optim.Adam([{"params": [thetas], "lr": LEARNING_RATE}, {"params": [scales], "lr": SCALE_RATE}])
    with Workers(1):  # batches are small: one thread is fastest
        for _ in range(EPOCHS):
            order = rng.permutation(len(examples))
            for start in range(0, len(order), BATCH):
                if check_stop:
                    check_stop()
                optimizer.zero_grad()
                loss = batch_loss(thetas, scales, pad([examples[row] for row in order[start : start + BATCH]], count))
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                with torch.no_grad():
                    thetas.clamp_(max=0.0)
    return np.asarray(thetas.detach().exp().numpy())


def batch_loss(thetas: Tensor, scales: Tensor, batch: Batch) -> Tensor:
    """The loss of a batch at θ (count,) and (log a, log b)."""
    import torch

    weights = torch.cat([thetas.exp(), thetas.new_ones(1)])[batch.terms]  # (B, t)
    lexical = torch.einsum("bt,btn->bn", weights, batch.parts) + batch.rest
    a, b = scales.exp()
    z = (a * lexical + b * batch.cosines).masked_fill(~batch.present, -torch.inf)
    loss: Tensor = z.logsumexp(1) - z.masked_fill(~batch.relevant, -torch.inf).logsumexp(1)
    loss = loss.mean() + PENALTY * thetas.square().sum() / BATCH
    return loss


def pad(examples: Sequence[Example], count: int) -> Batch:
    """One batch of the examples; `count` stands for no word."""
    import torch

    flat = len(examples), max(len(one.rest) for one in examples)
    deep = len(examples), max(len(one.terms) for one in examples), flat[1]
    terms, parts, rest, cosines = np.full(deep[:2], count), np.zeros(deep), np.zeros(flat), np.zeros(flat)
    relevant, present = np.zeros(flat, bool), np.zeros(flat, bool)
    for row, one in enumerate(examples):
        width = len(one.rest)
        terms[row, : len(one.terms)] = one.terms
        parts[row, : len(one.terms), :width] = one.parts
        rest[row, :width], cosines[row, :width] = one.rest, one.cosines
        relevant[row, :width], present[row, :width] = one.relevant, True
    return Batch(*map(torch.from_numpy, (terms, parts, rest, cosines, relevant, present)))
