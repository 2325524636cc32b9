"""A linear map of a black box's vectors, e_new = W e_bb (Mafin, section 4.4): what a small model
beside it is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from engine.core.similarity import COSINE, Similarity, unit_rows
from engine.training.compute.optimizer import learning_rate
from engine.training.config import TrainingConfig
from engine.training.data import BatchSampler, TrainingData
from engine.training.heldout import build_pool, measure
from engine.training.model.augmentation import batch_vectors, given
from engine.training.objectives.objective import Objective

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder, Progress

Floats = NDArray[np.float32]


class MappedEncoder:
    """An encoder whose vectors are mapped by W (d, d), and then of unit norm."""

    similarity: Similarity = COSINE

    def __init__(self, encoder: Encoder, matrix: Floats) -> None:
        self._encoder = encoder
        self.matrix = matrix
        self.notices = encoder.notices
        self.dimension = len(matrix)
        self.fingerprint = sha256(encoder.fingerprint.encode() + matrix.tobytes()).hexdigest()

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`."""
        return unit_rows(self._encoder.encode_queries(texts, progress) @ self.matrix.T)

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`."""
        return unit_rows(self._encoder.encode_chunks(texts, progress) @ self.matrix.T)


def train_linear_map(data: TrainingData, config: TrainingConfig, rank: int | None = None) -> Floats:
    """W (d, d) by the recipe's loss, steps, held-out checks and patience, on the black box's
    vectors that the data has.

    W = I + A at full rank, W = I + U Vᵀ at a low one, U and V (d, `rank`): both begin at I, where
    the paper's W_l W_rᵀ cannot.
    """
    chunks = given(data.base_chunks)
    rng = torch.Generator().manual_seed(config.seed)
    identity = torch.eye(chunks.shape[1])
    left = torch.zeros(len(identity), rank or len(identity), requires_grad=True)
    if rank:
        right = torch.randn(*left.shape, generator=rng) / len(identity) ** 0.5
    else:
        right = identity
    if rank:
        trained = [left, right.requires_grad_()]
    else:
        trained = [left]
    optimizer = torch.optim.AdamW(trained, weight_decay=config.weight_decay)
    sampler = BatchSampler(data, config)
    pool = build_pool(data, config)
    objective = Objective(config, (given(data.base_queries), chunks), "cpu")
    best = identity.numpy()
    reached = -1.0
    stale = 0
    for step in range(config.steps + 1):
        weights = identity + left @ right.T
        last = step == config.steps
        if pool is None or last or step % config.eval_every == 0:
            found = 0.0
            matrix = weights.detach().numpy()
            if pool is not None:
                asked = given(data.base_heldout)[pool.queries]
                ranked = chunks[pool.chunks]
                figures = measure(
                    unit_rows(asked @ matrix.T), unit_rows(ranked @ matrix.T), pool.positives
                )
                found = figures.ndcg_at_10
            if pool is None or config.keep == "last" or found > reached:
                stale = 0
            else:
                stale = stale + 1
            best, reached = (best, reached) if stale else (matrix, found)
        if last or stale >= config.patience:
            break
        batch = sampler.batch(step)
        optimizer.zero_grad()
        vectors = torch.nn.functional.normalize(batch_vectors(data, batch) @ weights.T)
        objective.of(batch)[0](vectors).backward()  # type: ignore[no-untyped-call]
        optimizer.param_groups[0]["lr"] = learning_rate(
            step, config.steps, config.learning_rate, config.warmup
        )
        optimizer.step()
    return best
