"""Uniformity (Wang & Isola 2020), as its absolute value (BMEmbed, appendix E)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.alignment import squared_distances
from engine.metrics.relevance import Ints

PAIRS = 200_000
_BLOCK = 20_000


def uniformity(vectors: ArrayLike, pairs: int = PAIRS, seed: int = 0) -> float:
    """|log E exp(−2 ‖e(x) − e(y)‖²)| over pairs of distinct rows of `vectors` (n, d), unit norm; higher is better.

    All pairs where there are at most `pairs` of them, else as many random ones. ValueError for fewer than two rows.
    """
    rows = np.asarray(vectors, dtype=np.float32)
    if rows.ndim != 2 or len(rows) < 2:
        raise ValueError(f"uniformity wants two vectors or more, not an array of shape {rows.shape}")
    one, other = _pairs(len(rows), pairs, seed)
    total = 0.0
    for start in range(0, len(one), _BLOCK):
        part = slice(start, start + _BLOCK)
        total += float(np.exp(-2 * squared_distances(np.einsum("pd,pd->p", rows[one[part]], rows[other[part]]))).sum())
    return abs(float(np.log(total / len(one))))


def _pairs(count: int, most: int, seed: int) -> tuple[Ints, Ints]:
    if count * (count - 1) // 2 <= most:
        one, other = np.triu_indices(count, 1)
        return one, other
    rng = np.random.default_rng(seed)
    first = rng.integers(0, count, most)
    return first, (first + rng.integers(1, count, most)) % count
