"""Lists to learn from: one chunk at random from each interval of a query's ranking (METHODS.md
§1 Partition, Sampling; BMEmbed, section 3.2).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.ranking.rankings_file import ABSENT, Ids, RankedLists, Scores

Scheme = Literal["fine-to-coarse", "uniform"]
Bounds = tuple[tuple[int, int], ...]

POSITIVE = 3
"""The first interval is always the ranks [0, 3): the positive."""


def partition_ranks(k: int, m: int, scheme: Scheme = "fine-to-coarse") -> Bounds:
    """At most m ≥ 2 half-open intervals that cover the ranks [0, k) in order, none of them
    empty.

    The m - 1 intervals after the first share [3, k): in equal lengths, or each twice as long as the
    last. Real bounds are floored (in whole-number arithmetic, so exactly); one that falls on its
    predecessor moves up by one.
    """
    if k <= POSITIVE:
        return ((0, k),)
    rest = min(m - 1, k - POSITIVE)
    bounds = [0, POSITIVE]
    for i in range(1, rest + 1):
        part, whole = (i, rest) if scheme == "uniform" else (2**i - 1, 2**rest - 1)
        bounds.append(max(POSITIVE + (k - POSITIVE) * part // whole, bounds[-1] + 1))
    return tuple(itertools.pairwise(bounds))


@dataclass(frozen=True, slots=True)
class SampledLists:
    """L lists of at most m chunks, best interval first.

    `queries` (L,), a query's lists side by side; `chunks` (L, m), -1 where padded: both ids, or
    positions in the training data.
    `scores` (L, m): BM25, -inf where padded.
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
    """`lists_per_query` lists for each query of `ranked`, whose width k is what gets
    partitioned.

    A query with fewer than k results gets a partition of the results it has, so it may have fewer
    than m intervals; one without results gets no list. Each query draws from its own generator,
    seeded by (seed, query id): the lists do not depend on which other queries there are or in which
    order.
    """
    lengths = ranked.lengths
    kept = np.flatnonzero(lengths > 0)
    partitions: dict[int, Bounds] = {}
    ranks = np.full((len(kept), lists_per_query, m), -1, dtype=np.int32)
    for row, source in enumerate(kept):
        k = int(lengths[source])
        bounds = partitions.setdefault(k, partition_ranks(k, m, scheme))
        ranks[row, :, : len(bounds)] = _draw(
            bounds, lists_per_query, seed, int(ranked.query_ids[source])
        )
    flat = ranks.reshape(-1, m)
    rows = np.repeat(kept, lists_per_query)[:, None]
    padded = flat < 0
    return SampledLists(
        queries=np.repeat(ranked.query_ids[kept], lists_per_query),
        chunks=np.where(padded, ABSENT, ranked.ids[rows, flat]),
        scores=np.where(padded, np.float32(-np.inf), ranked.scores[rows, flat]),
    )


def _draw(bounds: Bounds, lists: int, seed: int, query_id: int) -> NDArray[np.int64]:
    low, high = np.asarray(bounds).T
    return np.random.default_rng([seed, query_id]).integers(low, high, size=(lists, len(bounds)))
