"""The held-out check during training: ranks of evidence chunks in a fixed pool."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.arrays import Doubles, Floats, Ids
from engine.encoders.geometry.similarity import COSINE, Similarity, compute_scores
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.streams import Stream

_NORMAL_95 = 1.96
"""Standard errors from the mean to the end of its 95 % interval."""


@dataclass(frozen=True, slots=True)
class HeldOutPool:
    """h held-out queries and the p chunks to rank for them."""

    queries: Ids
    """(h,): positions in the data's held-out queries."""
    chunks: Ids
    """(p,): positions in the data's chunks, ascending."""
    positives: Ids
    """(h,): for each query, the index in `chunks` of its evidence chunk."""


def build_pool(data: TrainingData, config: TrainingConfig) -> HeldOutPool | None:
    """Return a random sample of held-out queries, and the chunks to rank for them.

    The chunks are the queries' evidence chunks, then hard ones, then random ones, up to
    `config.heldout_pool`. The hard chunks are taken rank by rank, so that every query contributes
    its best ones. None without held-out queries or checks.
    """
    total = len(data.heldout_queries)
    if total == 0 or config.eval_every == 0:
        return None
    rng = np.random.default_rng([config.seed, Stream.HELDOUT])
    queries = np.sort(rng.permutation(total)[: config.heldout_queries])
    positives = data.heldout_positives[queries]
    by_priority = [positives]
    if data.heldout_hard is not None:
        by_priority.append(data.heldout_hard[queries].T.ravel())  # all first ranks, all second, …
    by_priority.append(rng.permutation(len(data.chunks)))
    distinct = dict.fromkeys(np.concatenate(by_priority).tolist())
    distinct.pop(-1, None)  # padding
    size = max(config.heldout_pool, len(np.unique(positives)))
    chunks = np.sort(np.array(list(distinct)[:size], dtype=np.int64))
    return HeldOutPool(
        queries,
        chunks,
        np.searchsorted(chunks, positives),
    )


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """Figures of a check by query: `hits` (h,) among the first ten, and `ndcg` (h,), 0 to 1."""

    hits: npt.NDArray[np.bool_]
    ndcg: Doubles

    @property
    def hit_at_10(self) -> float:
        """The mean in percent."""
        return 100 * float(self.hits.mean())

    @property
    def ndcg_at_10(self) -> float:
        """The mean in percent."""
        return 100 * float(self.ndcg.mean())


def measure(
    query_vectors: Floats,
    chunk_vectors: Floats,
    positives: Ids,
    similarity: Similarity = COSINE,
) -> HeldOutFigures:
    """Return Hit@10 and nDCG@10 = 1/log2(rank + 1) with one relevant chunk per query.

    `query_vectors` (h, d), `chunk_vectors` (p, d), `positives` (h,). Ranks count from 1; chunks of
    equal scores rank by their number.
    """
    scores = compute_scores(similarity, query_vectors, chunk_vectors)  # (h, p)
    columns = positives[:, None]  # (h, 1)
    positive_scores = np.take_along_axis(scores, columns, axis=1)  # (h, 1)
    is_earlier = np.arange(scores.shape[1]) < columns  # (h, p)
    is_above = (scores > positive_scores) | ((scores == positive_scores) & is_earlier)
    ranks = 1 + is_above.sum(axis=1)  # (h,)
    hits = ranks <= 10
    return HeldOutFigures(hits, np.where(hits, 1 / np.log2(ranks + 1), 0.0))


def is_clearly_worse(later: npt.ArrayLike, first: npt.ArrayLike) -> bool:
    """Return whether the 95 % interval of the mean of `later` − `first`, (h,) each, lies below 0.

    The interval is mean ± 1.96 · s/√h, s the differences' standard deviation. A single query
    decides nothing.
    """
    differences = np.asarray(later, dtype=np.float64) - np.asarray(first, dtype=np.float64)
    count = len(differences)
    if count < 2:
        return False
    standard_error = float(differences.std(ddof=1)) / math.sqrt(count)
    return float(differences.mean()) + _NORMAL_95 * standard_error < 0
