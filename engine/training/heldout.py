"""The held-out check during training: how high each held-out query finds its evidence chunk in a
fixed pool, and whether a step does clearly worse than another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.similarity import COSINE, Similarity, scores
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData

_NORMAL_95 = 1.96


@dataclass(frozen=True, slots=True)
class HeldOutPool:
    """`queries` (h,): places in the held-out queries.

    `chunks` (p,), ascending. `positives` (h,): its columns.
    """

    queries: npt.NDArray[np.int64]
    chunks: npt.NDArray[np.int64]
    positives: npt.NDArray[np.int64]


def build_pool(data: TrainingData, config: TrainingConfig) -> HeldOutPool | None:
    """A seeded choice of held-out queries; their positives, then hard chunks, then random ones
    up to the pool's size.

    The hard chunks are taken rank by rank, so that every query brings its best ones. None without
    held-out queries.
    """
    total = len(data.heldout_queries)
    if total == 0 or config.eval_every == 0:
        return None
    rng = np.random.default_rng([config.seed, 3])
    queries = np.sort(rng.permutation(total)[: config.heldout_queries])
    wanted = [data.heldout_positives[queries]]
    if data.heldout_hard is not None:
        wanted.append(data.heldout_hard[queries].T.ravel())
    wanted.append(rng.permutation(len(data.chunks)))
    order = np.concatenate(wanted).astype(np.int64)
    order = order[order >= 0]
    _, first = np.unique(order, return_index=True)
    size = max(config.heldout_pool, len(np.unique(wanted[0])))
    chunks = np.sort(order[np.sort(first)[:size]])
    return HeldOutPool(queries, chunks, np.searchsorted(chunks, data.heldout_positives[queries]))


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """What a check found, by query: `hits` (h,), whether the chunk is among the first ten;
    `ndcg` (h,), nDCG@10 from 0 to 1.
    """

    hits: npt.NDArray[np.bool_]
    ndcg: npt.NDArray[np.float64]

    @property
    def hit_at_10(self) -> float:
        """The mean, in percent."""
        return 100 * float(self.hits.mean())

    @property
    def ndcg_at_10(self) -> float:
        """The mean, in percent."""
        return 100 * float(self.ndcg.mean())


def measure(
    query_vectors: npt.NDArray[np.float32],
    chunk_vectors: npt.NDArray[np.float32],
    positives: npt.NDArray[np.int64],
    similarity: Similarity = COSINE,
) -> HeldOutFigures:
    """Hit@10 and nDCG@10 with one relevant chunk per query: nDCG@10 = 1/log2(rank + 1), ranks
    from 1.

    (h, d), (p, d), (h,). Of chunks with equal scores those with the lower number rank first.
    """
    found = scores(similarity, query_vectors, chunk_vectors)  # (h, p)
    own = found[np.arange(len(positives)), positives][:, None]
    earlier = np.arange(found.shape[1])[None, :] < positives[:, None]
    ranks = 1 + (found > own).sum(1) + ((found == own) & earlier).sum(1)
    hits = ranks <= 10
    return HeldOutFigures(hits, np.where(hits, 1 / np.log2(ranks + 1), 0.0))


def is_clearly_worse(later: npt.ArrayLike, first: npt.ArrayLike) -> bool:
    """Whether the 95 % interval of the mean paired difference `later` − `first`, (h,) each, lies
    below 0.

    The interval is mean ± 1.96 · s/√h, s the differences' standard deviation. A single query
    decides nothing.
    """
    differences = np.asarray(later, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    count = len(differences)
    if count < 2:
        return False
    error = float(differences.std(ddof=1)) / math.sqrt(count)
    return float(differences.mean()) + _NORMAL_95 * error < 0
