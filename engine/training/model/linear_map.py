"""A linear map of a black box's vectors, e_new = W e_bb, for comparison with a small model.

METHODS.md §2, "Comparison methods" (Mafin, section 4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

import torch

from engine.core.arrays import Floats
from engine.encoders.geometry.similarity import COSINE, Similarity, unit_rows
from engine.training.batches import BatchSampler
from engine.training.compute.optimizer import learning_rate
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.heldout import HeldOutPool, build_pool, measure
from engine.training.model.augmentation import batch_vectors, require_vectors
from engine.training.objectives.objective import BaseVectors, Objective

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder, Progress


class MappedEncoder:
    """An encoder whose vectors are mapped by W (d, d) and then normalized."""

    similarity: Similarity = COSINE

    def __init__(self, encoder: Encoder, matrix: Floats) -> None:
        self._encoder = encoder
        self.matrix = matrix
        self.notices = encoder.notices
        self.dimension = len(matrix)
        self.fingerprint = sha256(encoder.fingerprint.encode() + matrix.tobytes()).hexdigest()

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Return unit vectors W e(x) (n, d) of queries (see `Encoder`)."""
        return unit_rows(self._encoder.encode_queries(texts, progress) @ self.matrix.T)

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Return unit vectors W e(x) (n, d) of chunks (see `Encoder`)."""
        return unit_rows(self._encoder.encode_chunks(texts, progress) @ self.matrix.T)


@dataclass(frozen=True, slots=True)
class LinearMap:
    """W (d, d), and nDCG@10 of the check that chose it, in percent; None without checks."""

    matrix: Floats
    best_ndcg_at_10: float | None


@dataclass(slots=True)
class _KeptMatrix:
    """The best matrix so far, nDCG@10 of its check, and the number of checks since (`stale`)."""

    matrix: Floats
    ndcg: float = -1.0
    stale: int = 0

    def keep(self, matrix: Floats, ndcg: float = 0.0) -> None:
        """Replace the matrix by a better one."""
        self.matrix = matrix
        self.ndcg = ndcg
        self.stale = 0


def train_linear_map(
    data: TrainingData, config: TrainingConfig, rank: int | None = None
) -> LinearMap:
    """Return W (d, d), trained on the black box's vectors by the recipe's loss and patience.

    Of all checks, that of step 0 (W = I) among them, the one with the highest nDCG@10 is kept.
    W = I + A at full rank, W = I + U Vᵀ at a low one, U and V (d, `rank`): both begin at I, which
    the paper's W_l W_rᵀ cannot.
    """
    chunks = require_vectors(data.base_chunks)
    rng = torch.Generator().manual_seed(config.seed)
    d = chunks.shape[1]
    identity = torch.eye(d)
    left = torch.zeros(d, rank or d, requires_grad=True)  # A, or U
    right = identity  # I, or V
    trained = [left]
    if rank:
        right = torch.randn(d, rank, generator=rng) / d**0.5
        trained.append(right.requires_grad_())
    optimizer = torch.optim.AdamW(trained, weight_decay=config.weight_decay)
    sampler = BatchSampler(data, config)
    pool = build_pool(data, config)
    base = BaseVectors(require_vectors(data.base_queries), chunks)
    objective = Objective(config, base, "cpu")
    best = _KeptMatrix(identity.numpy())
    for step in range(config.steps + 1):
        weights = identity + left @ right.T  # W (d, d)
        is_last = step == config.steps
        matrix = weights.detach().numpy()
        if pool is None:
            best.keep(matrix)
        elif is_last or step % config.eval_every == 0:
            ndcg = _measure_map(data, pool, matrix)
            if config.keep == "last" or ndcg > best.ndcg:
                best.keep(matrix, ndcg)
            else:
                best.stale += 1
        if is_last or best.stale >= config.patience:
            break
        batch = sampler.batch(step)
        optimizer.zero_grad()
        mapped = batch_vectors(data, batch) @ weights.T  # (q + c, d)
        vectors = torch.nn.functional.normalize(mapped)
        loss, _entropy = objective.build_loss(batch)
        loss(vectors).backward()  # type: ignore[no-untyped-call]
        rate = learning_rate(
            step,
            config.steps,
            config.learning_rate,
            config.warmup,
        )
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
    return LinearMap(best.matrix, None if pool is None else best.ndcg)


def _measure_map(
    data: TrainingData,
    pool: HeldOutPool,
    matrix: Floats,
) -> float:
    """Return nDCG@10 of mapped held-out queries in the pool of mapped chunks, in percent."""
    queries = require_vectors(data.base_heldout)[pool.queries]
    chunks = require_vectors(data.base_chunks)[pool.chunks]
    mapped_queries = unit_rows(queries @ matrix.T)
    mapped_chunks = unit_rows(chunks @ matrix.T)
    return measure(mapped_queries, mapped_chunks, pool.positives).ndcg_at_10
