"""Rank and score fusion of several rankers, for one query or for many at once.

A ranker is a pair `(ids, scores)`: ids (q, n) int64, best first, -1 where padded, and scores (q,
n); one-dimensional arrays stand for a single query. Rankers may differ in n.
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
_DECIMALS = 12  # sums that differ only by the order of addition must tie


def rrf(rankers: Sequence[Ranker], depth: int | None = None, k: float = RRF_CONSTANT) -> Fused:
    """Reciprocal rank fusion: RRF(d) = Σ_a 1 / (k + rank_a(d)), ranks from 1 (Cormack et al.

    2009; METHODS.md §1).

    A chunk absent from a ranker gets nothing from it; scores are not looked at; ties go to the
    smaller id. Returns ids and scores, (q, depth) and padded with -1 and -inf, or (depth,) unpadded
    for one query. `depth` None keeps all.
    """
    return _fuse(rrf_parts(rankers, k), depth, _single(rankers))


def rrf_parts(rankers: Sequence[Ranker], k: float = RRF_CONSTANT) -> list[Fused]:
    """What each ranker adds to the sums of `rrf`: its ids and their parts, (q, n) each, in order
    of `rankers`.
    """
    return [(ids, _reciprocal(ids, k)) for ids, _ in _checked(rankers)]


def convex(semantic: Ranker, lexical: Ranker, weight: float, depth: int | None = None) -> Fused:
    """weight · semantic + (1 - weight) · lexical on min-max scores (Bruch et al.

    2023, TOIS 42:20), shaped as `rrf`'s.

    Each query's scores are mapped to [0, 1] by the least and greatest score of that ranker's list
    (all to 1 when they are equal). A chunk absent from a list counts 0 there, as the list's last
    chunk does; once `cross_scored`, none is absent. ValueError when the weight is outside [0, 1].
    """
    return _fuse(convex_parts(semantic, lexical, weight), depth, _single([semantic, lexical]))


def convex_parts(semantic: Ranker, lexical: Ranker, weight: float) -> list[Fused]:
    """What each ranker adds to the sums of `convex`: its ids and their parts, (q, n) each,
    semantic first.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"the weight must lie in [0, 1], not {weight}")
    rankers = _checked([semantic, lexical])
    return [
        (ids, share * _min_max(ids, scores))
        for (ids, scores), share in zip(rankers, (weight, 1 - weight), strict=True)
    ]


def cross_scored(ranker: Ranker, ids: ArrayLike, scores: ArrayLike) -> Fused:
    """`ranker` and, after its own chunks, those of `ids` (q, m) that it lacks, with `scores` (q,
    m), which the same ranker gives them; shaped as `ranker`, -1 and -inf where padded.

    Two rankers that each complete the other judge the same chunks (docs/log/hybrid-search.md). A
    query for which the ranker found nothing stays empty.
    """
    own, own_scores = _checked([ranker])[0]
    more, values = _checked([(ids, scores)])[0]
    if len(own) != len(more):
        raise ValueError(f"rankers do not fit: {len(own)} and {len(more)} queries")
    lacking = (more >= 0) & (own >= 0).any(axis=1, keepdims=True)
    for row, known in enumerate(own):
        lacking[row] &= ~np.isin(more[row], known)
    joined = np.concatenate([own, np.where(lacking, more, -1)], axis=1)
    joined_scores = np.concatenate(
        [np.where(own >= 0, own_scores, -np.inf), np.where(lacking, values, -np.inf)], axis=1
    )
    if _single([ranker]):
        return joined[0][joined[0] >= 0], joined_scores[0][joined[0] >= 0]
    return joined, joined_scores


def _single(rankers: Sequence[Ranker]) -> bool:
    return np.ndim(rankers[0][0]) == 1


def _checked(rankers: Sequence[Ranker]) -> list[tuple[Ids, Floats]]:
    if not rankers:
        raise ValueError("nothing to fuse")
    checked: list[tuple[Ids, Floats]] = []
    for ids, scores in rankers:
        pair = (
            np.atleast_2d(np.asarray(ids, dtype=np.int64)),
            np.atleast_2d(np.asarray(scores, dtype=np.float64)),
        )
        if pair[0].shape != pair[1].shape or len(pair[0]) != (
            len(checked[0][0]) if checked else len(pair[0])
        ):
            raise ValueError(f"rankers do not fit: ids {pair[0].shape}, scores {pair[1].shape}")
        if not np.isfinite(pair[1][pair[0] >= 0]).all():
            raise ValueError("a score is not a finite number")
        refuse_duplicates(pair[0])
        checked.append(pair)
    return checked


def _reciprocal(ids: Ids, k: float) -> Floats:
    return np.broadcast_to(1.0 / (k + np.arange(1, ids.shape[1] + 1)), ids.shape)


def _min_max(ids: Ids, scores: Floats) -> Floats:
    present = ids >= 0
    low = np.min(scores, axis=1, where=present, initial=np.inf, keepdims=True)
    high = np.max(scores, axis=1, where=present, initial=-np.inf, keepdims=True)
    span = high - low
    return np.where(
        present,
        np.divide(scores - low, span, out=np.ones(scores.shape), where=present & (span > 0)),
        0.0,
    )


def _fuse(parts: Sequence[tuple[Ids, Floats]], depth: int | None, single: bool) -> Fused:
    ids = np.concatenate([part for part, _ in parts], axis=1)
    gains = np.concatenate([part for _, part in parts], axis=1)
    if depth is not None and depth < 1:
        raise ValueError(f"depth must be at least 1, not {depth}")
    if depth is None:
        width = ids.shape[1]
    else:
        width = min(depth, ids.shape[1])
    fused_ids = np.full((len(ids), width), -1, dtype=np.int64)
    fused_scores = np.full((len(ids), width), -np.inf)
    step = max(1, BLOCK // max(1, ids.shape[1]))
    for start in range(0, len(ids), step):
        rows = slice(start, start + step)
        _fuse_block(ids[rows], gains[rows], fused_ids[rows], fused_scores[rows])
    if single:
        kept = fused_ids[0] >= 0
        return fused_ids[0][kept], fused_scores[0][kept]
    if depth is not None:
        longest = width
    else:
        longest = int(np.count_nonzero(fused_ids >= 0, axis=1).max(initial=0))
    return fused_ids[:, :longest], fused_scores[:, :longest]


def _fuse_block(ids: Ids, gains: Floats, out_ids: Ids, out_scores: Floats) -> None:
    present = ids >= 0
    rows = np.nonzero(present)[0]
    items = ids[present]
    gain = gains[present]
    order = np.lexsort((items, rows))
    rows = rows[order]
    items = items[order]
    first = np.ones(len(items), dtype=bool)
    first[1:] = (rows[1:] != rows[:-1]) | (items[1:] != items[:-1])
    if not len(items):
        return
    total = np.round(np.bincount(np.cumsum(first) - 1, weights=gain[order]), _DECIMALS)
    rows = rows[first]
    items = items[first]
    order = np.lexsort((items, -total, rows))
    rows = rows[order]
    items = items[order]
    total = total[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    kept = place < out_ids.shape[1]
    out_ids[rows[kept], place[kept]] = items[kept]
    out_scores[rows[kept], place[kept]] = total[kept]
