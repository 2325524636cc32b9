"""Rankings of many queries as arrays: ids (q, depth) int64, best first, −1 where padded, with their scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.metrics.relevance import pad_rows

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]
BLOCK = 256


def padded(lists: Sequence[tuple[Ids, Scores]], depth: int) -> tuple[Ids, Scores]:
    """Ragged (ids, scores) pairs as two arrays (q, depth); scores are −inf where padded."""
    ids = pad_rows([found for found, _ in lists], -1, np.int64, depth)
    return ids, pad_rows([values for _, values in lists], -np.inf, np.float32, depth)


def rank_all(queries: Scores, chunks: Scores, keys: Ids, depth: int) -> tuple[Ids, Scores]:
    """Exact ranking by inner product of `chunks` (N, d), named by `keys` (N,), for `queries` (q, d).

    Returns ids and products (q, min(depth, N)); equal ones in order of key.
    """
    depth = min(depth, len(keys))
    ids = np.empty((len(queries), depth), dtype=np.int64)
    scores = np.empty((len(queries), depth), dtype=np.float32)
    for start in range(0, len(queries), BLOCK):
        product = queries[start : start + BLOCK] @ chunks.T  # (b, N)
        best = np.argpartition(-product, depth - 1, axis=1)[:, :depth]
        value = np.take_along_axis(product, best, axis=1)
        order = np.lexsort((keys[best], -value), axis=1)
        rows = slice(start, start + len(product))
        ids[rows] = keys[np.take_along_axis(best, order, axis=1)]
        scores[rows] = np.take_along_axis(value, order, axis=1)
    return ids, scores


def rank_within(
    queries: Scores, chunks: Scores, keys: Ids, depth: int, among: Sequence[Ids | None]
) -> tuple[Ids, Scores]:
    """`rank_all`, each query (of q) among the chunks of `among` alone, None for all; padded as by `padded`."""
    ids = np.full((len(queries), min(depth, len(keys))), -1, dtype=np.int64)
    scores = np.full(ids.shape, -np.inf, dtype=np.float32)
    free = [row for row, allowed in enumerate(among) if allowed is None]
    if free:
        ids[free], scores[free] = rank_all(queries[free], chunks, keys, depth)
    for row, allowed in enumerate(among):
        if allowed is None or not (inside := np.isin(keys, allowed)).any():
            continue
        found, values = rank_all(queries[row : row + 1], chunks[inside], keys[inside], depth)
        ids[row, : found.shape[1]], scores[row, : found.shape[1]] = found[0], values[0]
    return ids, scores


def products_of(queries: Scores, chunks: Scores, keys: Ids, ids: Ids) -> Scores:
    """Inner products (q, n) of each query (q, d) with the chunks `ids` (q, n); `chunks` (N, d) are named by `keys` (N,), ascending.

    -inf where `ids` is -1.
    """
    products = np.empty(ids.shape, dtype=np.float32)
    rows = np.searchsorted(keys, np.maximum(ids, keys[:1]))
    for start in range(0, len(ids), BLOCK):
        part = slice(start, start + BLOCK)
        products[part] = np.einsum("qd,qnd->qn", queries[part], chunks[rows[part]])
    products[ids < 0] = -np.inf
    return products
