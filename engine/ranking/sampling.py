"""Lists to learn from: one random chunk from each interval of a query's ranking.

METHODS.md §1 Partition, Sampling; BMEmbed, section 3.2.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.core.arrays import Ids
from engine.ranking.rankings_file import ABSENT, RankedLists, Scores

Scheme = Literal["fine-to-coarse", "uniform"]
Bounds = tuple[tuple[int, int], ...]
"""Half-open intervals of ranks, counted from 0."""

POSITIVE = 3
"""The first interval is always the ranks [0, 3), from which the positive is drawn."""


def partition_ranks(
    k: int,
    m: int,
    scheme: Scheme = "fine-to-coarse",
) -> Bounds:
    """Return at most m ≥ 2 non-empty half-open intervals that cover the ranks [0, k) in order.

    The m - 1 intervals after the first share [3, k): in equal lengths (`uniform`), or each twice as
    long as the one before it (`fine-to-coarse`). Bounds are rounded down, in integer arithmetic; a
    bound that equals its predecessor moves up by one.
    """
    if k <= POSITIVE:
        return ((0, k),)
    shared = k - POSITIVE
    later_intervals = min(m - 1, shared)
    # Interval i ends after parts[i] of parts[-1] equal parts of the shared ranks.
    parts = [2**i - 1 for i in range(1, later_intervals + 1)]
    if scheme == "uniform":
        parts = list(range(1, later_intervals + 1))
    bounds = [0, POSITIVE]
    for part in parts:
        bound = POSITIVE + shared * part // parts[-1]
        bounds.append(max(bound, bounds[-1] + 1))
    return tuple(itertools.pairwise(bounds))


@dataclass(frozen=True, slots=True)
class SampledLists:
    """L lists of at most m chunks, best interval first.

    `queries` (L,) are query ids, or positions of queries in the training data, with a query's lists
    side by side. `chunks` (L, m) are chunk ids or positions, padded with -1; `scores` (L, m) are
    BM25's, padded with -inf.
    """

    queries: Ids
    chunks: Ids
    scores: Scores


def sample_lists(
    ranked: RankedLists,
    m: int,
    lists_per_query: int = 1,
    seed: int = 0,
    scheme: Scheme = "fine-to-coarse",
) -> SampledLists:
    """Sample lists for each query of `ranked`, whose width k is partitioned.

    A query with fewer than k results gets a partition of its results, possibly of fewer than m
    intervals; a query without results gets no list. Each query has its own generator, seeded by
    (seed, query id), so that its lists do not depend on the other queries.
    """
    lengths = ranked.lengths
    nonempty = np.flatnonzero(lengths > 0)
    partitions: dict[int, Bounds] = {}
    ranks = np.full(
        (len(nonempty), lists_per_query, m),
        -1,
        dtype=np.int32,
    )
    for row, source in enumerate(nonempty):
        k = int(lengths[source])
        bounds = partitions.setdefault(k, partition_ranks(k, m, scheme))
        query_id = int(ranked.query_ids[source])
        ranks[row, :, : len(bounds)] = _draw_ranks(
            bounds,
            lists_per_query,
            seed,
            query_id,
        )
    columns = ranks.reshape(-1, m)
    rows = np.repeat(nonempty, lists_per_query)
    cells = (rows[:, None], columns)
    padded = columns < 0
    return SampledLists(
        queries=ranked.query_ids[rows],
        chunks=np.where(padded, ABSENT, ranked.ids[cells]),
        scores=np.where(padded, np.float32(-np.inf), ranked.scores[cells]),
    )


def _draw_ranks(
    bounds: Bounds,
    lists: int,
    seed: int,
    query_id: int,
) -> Ids:
    """Return a random rank of each of m intervals for each list (lists, m)."""
    low, high = np.asarray(bounds).T
    rng = np.random.default_rng([seed, query_id])
    return rng.integers(
        low,
        high,
        size=(lists, len(bounds)),
    )
