"""Rank and score fusion of several rankers, for one query or for many.

A ranker is a pair `(ids, scores)`: ids (q, n) int64, best first, padded with -1, and scores (q, n);
one-dimensional arrays stand for a single query. Rankers may differ in n.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles, Ids
from engine.metrics.relevance import refuse_duplicates

Ranker = tuple[ArrayLike, ArrayLike]
"""Ids and scores of a ranker's chunks."""
Fused = tuple[Ids, Doubles]
"""Ids and scores of fused chunks, or of one ranker's part of the sums."""

RRF_CONSTANT = 40
"""Constant k of reciprocal rank fusion."""
BLOCK = 1_000_000
"""Number of candidates that are fused at once, which limits memory."""
# Decimal places of the sums, so that sums that differ only by the order of addition tie.
_DECIMALS = 12


def rrf(
    rankers: Sequence[Ranker],
    depth: int | None = None,
    k: float = RRF_CONSTANT,
) -> Fused:
    """Fuse by reciprocal ranks: RRF(d) = Σ_a 1 / (k + rank_a(d)), with ranks from 1.

    Cormack et al. 2009; METHODS.md §1. A chunk absent from a ranker gets nothing from it; scores
    are ignored; ties go to the smaller id. Returns ids and scores (q, depth), padded with -1 and
    -inf, or (depth,) unpadded for one query. `depth` None keeps all.
    """
    return sum_parts(
        rrf_parts(rankers, k),
        depth,
        is_single=_is_single(rankers),
    )


def rrf_parts(rankers: Sequence[Ranker], k: float = RRF_CONSTANT) -> list[Fused]:
    """Return each ranker's ids (q, n) and what they add to the sums of `rrf` (q, n)."""
    parts: list[Fused] = []
    for ids, _ in _as_arrays(rankers):
        ranks = np.arange(1, ids.shape[1] + 1)
        parts.append((ids, np.broadcast_to(1.0 / (k + ranks), ids.shape)))
    return parts


def convex(
    semantic: Ranker,
    lexical: Ranker,
    weight: float,
    depth: int | None = None,
    block: int = BLOCK,
) -> Fused:
    """Fuse by weight · semantic + (1 - weight) · lexical on min-max scores.

    Bruch et al. 2023, TOIS 42:20. Each query's scores are mapped to [0, 1] by the lowest and
    highest score of that ranker's list (all to 1 if they are equal). A chunk absent from a list
    counts 0 there, as the list's last chunk does; after `cross_score` none is absent. `block`
    candidates are fused at once. Returns arrays as `rrf`. Raises ValueError if the weight is
    outside [0, 1].
    """
    parts = convex_parts(semantic, lexical, weight)
    return sum_parts(
        parts,
        depth,
        is_single=_is_single([semantic, lexical]),
        block=block,
    )


def convex_parts(
    semantic: Ranker,
    lexical: Ranker,
    weight: float,
) -> list[Fused]:
    """Return each ranker's ids (q, n) and what they add to the sums of `convex` (q, n).

    The semantic ranker comes first.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"the weight must lie in [0, 1], not {weight}")
    parts = []
    weights = (weight, 1 - weight)
    rankers = _as_arrays([semantic, lexical])
    for (ids, scores), share in zip(rankers, weights, strict=True):
        parts.append((ids, share * _min_max(ids, scores)))
    return parts


def cross_score(
    ranker: Ranker,
    ids: ArrayLike,
    scores: ArrayLike,
) -> Fused:
    """Return `ranker` with the chunks `ids` (q, m) that it lacks appended.

    `scores` (q, m) are the same ranker's scores of these chunks. The result has as many dimensions
    as `ranker`, padded with -1 and -inf. Two rankers that are each extended by the other's chunks
    score the same chunks (docs/log/hybrid-search.md). A query without results stays empty.
    """
    ranked, ranked_scores = _as_arrays([ranker])[0]
    extra, extra_scores = _as_arrays([(ids, scores)])[0]
    if len(ranked) != len(extra):
        raise ValueError(f"rankers do not fit: {len(ranked)} and {len(extra)} queries")
    is_missing = extra >= 0
    for row, known in enumerate(ranked):
        is_missing[row] &= ~np.isin(extra[row], known)
    is_empty = (ranked < 0).all(axis=1)
    is_missing[is_empty] = False
    joined = np.concatenate([ranked, np.where(is_missing, extra, -1)], axis=1)
    joined_scores = np.concatenate([ranked_scores, extra_scores], axis=1)
    joined_scores[joined < 0] = -np.inf
    if _is_single([ranker]):
        return _without_padding(joined[0], joined_scores[0])
    return joined, joined_scores


def _without_padding(ids: Ids, scores: Doubles) -> Fused:
    """Return the ids and scores (n,) of one query without padding."""
    present = ids >= 0
    return ids[present], scores[present]


def _is_single(rankers: Sequence[Ranker]) -> bool:
    """Return whether the rankers rank for a single query, in one-dimensional arrays."""
    return np.ndim(rankers[0][0]) == 1


def _as_arrays(rankers: Sequence[Ranker]) -> list[tuple[Ids, Doubles]]:
    """Return the rankers as two-dimensional arrays.

    Raises ValueError if they do not fit, a score is not finite, or a list has an id twice.
    """
    if not rankers:
        raise ValueError("nothing to fuse")
    arrays: list[tuple[Ids, Doubles]] = []
    for ranker_ids, ranker_scores in rankers:
        ids = np.atleast_2d(np.asarray(ranker_ids, dtype=np.int64))
        scores = np.atleast_2d(np.asarray(ranker_scores, dtype=np.float64))
        arrays.append((ids, scores))
        if ids.shape != scores.shape or len(ids) != len(arrays[0][0]):
            raise ValueError(f"rankers do not fit: ids {ids.shape}, scores {scores.shape}")
        if not np.isfinite(scores[ids >= 0]).all():
            raise ValueError("a score is not a finite number")
        refuse_duplicates(ids)
    return arrays


def _min_max(ids: Ids, scores: Doubles) -> Doubles:
    """Map each row's scores to [0, 1]; equal scores to 1, padding to 0."""
    present = ids >= 0
    low = np.min(
        scores,
        axis=1,
        where=present,
        initial=np.inf,
        keepdims=True,
    )
    high = np.max(
        scores,
        axis=1,
        where=present,
        initial=-np.inf,
        keepdims=True,
    )
    span = high - low
    has_span = present & (span > 0)
    mapped = np.ones(scores.shape)
    np.divide(
        scores - low,
        span,
        out=mapped,
        where=has_span,
    )
    return np.where(present, mapped, 0.0)


def sum_parts(
    parts: Sequence[Fused],
    depth: int | None = None,
    *,
    is_single: bool,
    block: int = BLOCK,
) -> Fused:
    """Rank the chunks of each query by the sums of their parts, `block` candidates at once.

    `parts` are from `rrf_parts` or `convex_parts`. `is_single`: they are of one query (1, n), whose
    ids and scores are returned one-dimensional and without padding.
    """
    if depth is not None and depth < 1:
        raise ValueError(f"depth must be at least 1, not {depth}")
    ids = np.concatenate([part_ids for part_ids, _ in parts], axis=1)
    gains = np.concatenate([part_gains for _, part_gains in parts], axis=1)
    queries, candidates = ids.shape
    width = candidates if depth is None else min(depth, candidates)
    fused_ids = np.full(
        (queries, width),
        -1,
        dtype=np.int64,
    )
    fused_scores = np.full((queries, width), -np.inf)
    step = max(1, block // max(1, candidates))
    for start in range(0, queries, step):
        rows = slice(start, start + step)
        _fuse_block(
            ids[rows],
            gains[rows],
            fused_ids[rows],
            fused_scores[rows],
        )
    if is_single:
        return _without_padding(fused_ids[0], fused_scores[0])
    if depth is None:
        lengths = np.count_nonzero(fused_ids >= 0, axis=1)
        width = int(lengths.max(initial=0))
    return fused_ids[:, :width], fused_scores[:, :width]


def _fuse_block(
    ids: Ids,
    gains: Doubles,
    fused_ids: Ids,
    fused_scores: Doubles,
) -> None:
    """Write the fused ids and scores of some queries into `fused_ids` and `fused_scores`."""
    sums = _sum_gains(ids, gains)
    # By row, then by sum, the highest first, then by id. The rows ascend already.
    order = np.lexsort((sums.items, -sums.gains, sums.rows))
    # A row's first entry has rank 0.
    ranks = np.arange(len(sums.rows)) - np.searchsorted(sums.rows, sums.rows)
    has_place = ranks < fused_ids.shape[1]
    best = order[has_place]
    cells = (sums.rows[has_place], ranks[has_place])
    fused_ids[cells] = sums.items[best]
    fused_scores[cells] = sums.gains[best]


class _Sums(NamedTuple):
    """Row, item and sum of gains (t,) of every distinct item of every row, in that order."""

    rows: Ids
    items: Ids
    gains: Doubles


def _sum_gains(ids: Ids, gains: Doubles) -> _Sums:
    """Return the sum of the `gains` (q, n) of equal `ids` (q, n) in each row."""
    present = ids >= 0
    rows = np.nonzero(present)[0]
    items = ids[present]
    # Sorted by row, then by item, equal items of a row are neighbours: a group.
    order = np.lexsort((items, rows))
    rows = rows[order]
    items = items[order]
    is_first = np.ones(len(items), dtype=bool)
    is_first[1:] = (rows[1:] != rows[:-1]) | (items[1:] != items[:-1])
    groups = np.cumsum(is_first) - 1
    sums = np.bincount(groups, weights=gains[present][order])
    return _Sums(
        rows[is_first],
        items[is_first],
        np.round(sums, _DECIMALS),
    )
