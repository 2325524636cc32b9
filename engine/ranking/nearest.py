"""Exact ranking of chunks by the inner product of vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.core.arrays import Floats, Ids
from engine.project.store.chunks import IN_MEMORY

BLOCK = 256
"""Maximum number of queries whose products are computed at once."""
PRODUCTS = 256 * IN_MEMORY
"""Maximum number of products at once."""


def rank_all(
    queries: Floats, chunks: Floats, keys: Ids, depth: int, without: Sequence[Ids] = ()
) -> tuple[Ids, Floats]:
    """Rank chunks (N, d), named by `keys` (N,), exactly by inner product with queries (q, d).

    Returns ids and products (q, min(depth, N)), with equal products in order of key. `without`
    holds for each query the positions in `keys` of excluded chunks; rows are padded with −1 and
    −inf if fewer than `depth` are left.
    """
    depth = min(depth, len(keys))
    block = max(1, min(BLOCK, PRODUCTS // max(1, len(keys))))
    ids = np.empty((len(queries), depth), dtype=np.int64)
    scores = np.empty((len(queries), depth), dtype=np.float32)
    for start in range(0, len(queries), block):
        rows = slice(start, start + block)
        products = queries[rows] @ chunks.T  # (b, N)
        for row, positions in enumerate(without[rows]):
            products[row, positions] = -np.inf
        # argpartition finds the best `depth` chunks, lexsort puts them in order.
        best = np.argpartition(-products, depth - 1, axis=1)[:, :depth]
        best_keys = keys[best]
        best_products = np.take_along_axis(
            products,
            best,
            axis=1,
        )
        order = np.lexsort((best_keys, -best_products), axis=1)
        ids[rows] = np.take_along_axis(
            best_keys,
            order,
            axis=1,
        )
        scores[rows] = np.take_along_axis(
            best_products,
            order,
            axis=1,
        )
    ids[np.isneginf(scores)] = -1
    return ids, scores
