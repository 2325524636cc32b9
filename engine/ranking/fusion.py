"""Rank and score fusion of several rankers, for one query or for many.

A ranker is a pair `(ids, scores)`: ids (q, n) int64, best first, padded with -1, and scores (q, n);
one-dimensional arrays stand for a single query. Rankers may differ in n.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.metrics.relevance import refuse_duplicates

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Ranker = tuple[ArrayLike, ArrayLike]
Fused = tuple[Ids, Floats]

RRF_CONSTANT = 40
BLOCK = 1_000_000
# Sums that differ only by the order of addition must tie.
_DECIMALS = 12


def rrf(rankers: Sequence[Ranker], depth: int | None = None, k: float = RRF_CONSTANT) -> Fused:
    """Fuse by reciprocal ranks: RRF(d) = Σ_a 1 / (k + rank_a(d)), with ranks from 1.

    Cormack et al. 2009; METHODS.md §1. A chunk absent from a ranker gets nothing from it; scores
    are ignored; ties go to the smaller id. Returns ids and scores (q, depth), padded with -1 and
    -inf, or (depth,) unpadded for one query. `depth` None keeps all.
    """
    return _fuse(rrf_parts(rankers, k), depth, _is_single(rankers))


def rrf_parts(rankers: Sequence[Ranker], k: float = RRF_CONSTANT) -> list[Fused]:
    """Return each ranker's ids (q, n) and what they add to the sums of `rrf` (q, n)."""
    return [(ids, _reciprocal_ranks(ids, k)) for ids, _ in _as_arrays(rankers)]


def convex(semantic: Ranker, lexical: Ranker, weight: float, depth: int | None = None) -> Fused:
    """Fuse by weight · semantic + (1 - weight) · lexical on min-max scores.

    Bruch et al. 2023, TOIS 42:20. Each query's scores are mapped to [0, 1] by the lowest and
    highest score of that ranker's list (all to 1 if they are equal). A chunk absent from a list
    counts 0 there, as the list's last chunk does; after `cross_score` none is absent. Returns
    arrays as `rrf`. Raises ValueError if the weight is outside [0, 1].
    """
    return _fuse(convex_parts(semantic, lexical, weight), depth, _is_single([semantic, lexical]))


def convex_parts(semantic: Ranker, lexical: Ranker, weight: float) -> list[Fused]:
    """Return each ranker's ids (q, n) and what they add to the sums of `convex` (q, n).

    The semantic ranker comes first.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"the weight must lie in [0, 1], not {weight}")
    (semantic_ids, semantic_scores), (ids, scores) = _as_arrays([semantic, lexical])
    return [
        (semantic_ids, weight * _min_max(semantic_ids, semantic_scores)),
        (ids, (1 - weight) * _min_max(ids, scores)),
    ]


def cross_score(ranker: Ranker, ids: ArrayLike, scores: ArrayLike) -> Fused:
    """Return a ranker extended by those of the chunks `ids` (q, m) that it lacks.

    The same ranker gave them `scores` (q, m). The result is shaped as `ranker`, padded with -1 and
    -inf. Two rankers that extend each other judge the same chunks (docs/log/hybrid-search.md). A
    query without results stays empty.
    """
    ((ranked, ranked_scores),) = _as_arrays([ranker])
    ((more, more_scores),) = _as_arrays([(ids, scores)])
    if len(ranked) != len(more):
        raise ValueError(f"rankers do not fit: {len(ranked)} and {len(more)} queries")
    missing = (more >= 0) & (ranked >= 0).any(axis=1, keepdims=True)
    for row, known in enumerate(ranked):
        missing[row] &= ~np.isin(more[row], known)
    ranked_scores = np.where(ranked >= 0, ranked_scores, -np.inf)
    more_scores = np.where(missing, more_scores, -np.inf)
    joined = np.concatenate([ranked, np.where(missing, more, -1)], axis=1)
    joined_scores = np.concatenate([ranked_scores, more_scores], axis=1)
    if _is_single([ranker]):
        present = joined[0] >= 0
        return joined[0][present], joined_scores[0][present]
    return joined, joined_scores


def _is_single(rankers: Sequence[Ranker]) -> bool:
    """Tell whether the rankers are of one query."""
    return np.ndim(rankers[0][0]) == 1


def _as_arrays(rankers: Sequence[Ranker]) -> list[tuple[Ids, Floats]]:
    """Return the rankers as two-dimensional arrays.

    Raises ValueError if they do not fit, a score is not finite, or a list has an id twice.
    """
    if not rankers:
        raise ValueError("nothing to fuse")
    arrays: list[tuple[Ids, Floats]] = []
    for ranker_ids, ranker_scores in rankers:
        ids = np.atleast_2d(np.asarray(ranker_ids, dtype=np.int64))
        scores = np.atleast_2d(np.asarray(ranker_scores, dtype=np.float64))
        queries = len(arrays[0][0]) if arrays else len(ids)
        if ids.shape != scores.shape or len(ids) != queries:
            raise ValueError(f"rankers do not fit: ids {ids.shape}, scores {scores.shape}")
        if not np.isfinite(scores[ids >= 0]).all():
            raise ValueError("a score is not a finite number")
        refuse_duplicates(ids)
        arrays.append((ids, scores))
    return arrays


def _reciprocal_ranks(ids: Ids, k: float) -> Floats:
    ranks = np.arange(1, ids.shape[1] + 1)
    return np.broadcast_to(1.0 / (k + ranks), ids.shape)


def _min_max(ids: Ids, scores: Floats) -> Floats:
    """Map each row's scores to [0, 1]; equal scores to 1, padding to 0."""
    present = ids >= 0
    low = np.min(scores, axis=1, where=present, initial=np.inf, keepdims=True)
    high = np.max(scores, axis=1, where=present, initial=-np.inf, keepdims=True)
    span = high - low
    differs = present & (span > 0)
    shares = np.divide(scores - low, span, out=np.ones(scores.shape), where=differs)
    return np.where(present, shares, 0.0)


def _fuse(parts: Sequence[tuple[Ids, Floats]], depth: int | None, single: bool) -> Fused:
    """Rank the chunks of each query by the sums of their parts."""
    if depth is not None and depth < 1:
        raise ValueError(f"depth must be at least 1, not {depth}")
    ids = np.concatenate([part_ids for part_ids, _ in parts], axis=1)
    gains = np.concatenate([part_gains for _, part_gains in parts], axis=1)
    width = ids.shape[1]
    if depth is not None:
        width = min(depth, width)
    fused_ids = np.full((len(ids), width), -1, dtype=np.int64)
    fused_scores = np.full((len(ids), width), -np.inf)
    step = max(1, BLOCK // max(1, ids.shape[1]))
    for start in range(0, len(ids), step):
        rows = slice(start, start + step)
        _fuse_block(ids[rows], gains[rows], fused_ids[rows], fused_scores[rows])
    if single:
        present = fused_ids[0] >= 0
        return fused_ids[0][present], fused_scores[0][present]
    if depth is None:
        width = int(np.count_nonzero(fused_ids >= 0, axis=1).max(initial=0))
    return fused_ids[:, :width], fused_scores[:, :width]


def _fuse_block(ids: Ids, gains: Floats, out_ids: Ids, out_scores: Floats) -> None:
    """Write the fused ids and scores of some queries into the output arrays."""
    present = ids >= 0
    rows = np.nonzero(present)[0]
    items = ids[present]
    if not len(items):
        return
    order = np.lexsort((items, rows))
    rows = rows[order]
    items = items[order]
    gain = gains[present][order]
    first = np.ones(len(items), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (items[1:] != items[:-1])
    total = np.round(np.bincount(np.cumsum(first) - 1, weights=gain), _DECIMALS)
    rows = rows[first]
    items = items[first]
    order = np.lexsort((items, -total, rows))
    rows = rows[order]
    items = items[order]
    total = total[order]
    rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = rank < out_ids.shape[1]
    out_ids[rows[kept], rank[kept]] = items[kept]
    out_scores[rows[kept], rank[kept]] = total[kept]
