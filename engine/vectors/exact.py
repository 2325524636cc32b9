"""Exact cosines and inner products of one vector with all rows of a table, and exact ranks.

A hundred thousand rows take a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.core.arrays import Array, Floats, Ids

try:
    # Installed with usearch. Ten times as fast as numpy, as it reads float16 without conversion.
    import numkong
except ImportError:
    numkong = None  # type: ignore[assignment]

# Number of rows that are converted to float32 at once.
_BLOCK = 4096


def cosines(blocks: Sequence[Array], vector: Floats) -> Floats:
    """Return the cosines (n,) of `vector` (d,) with the rows of all blocks, in order.

    A block (m, d) is float32, float16 or int8; the vector is first rounded to its precision, as in
    the index. The cosine of a row of zeros is 0.
    """
    if not blocks:
        return np.empty(0, np.float32)
    return np.concatenate([_compare_block(block, vector) for block in blocks])


def inner_products(blocks: Sequence[Array], vector: Floats) -> Floats:
    """Return the inner products (n,) of `vector` (d,) with the rows of all blocks, in order."""
    values = [np.empty(0, np.float32)]
    for block in blocks:
        rows = block.astype(np.float32, copy=False)
        values.append(rows @ vector)
    return np.concatenate(values)


def _compare_block(block: Array, vector: Floats) -> Floats:
    """Return the cosines (m,) of a vector with a block's rows, by numkong if that is faster."""
    row = np.ascontiguousarray(round_to(vector[None], block.dtype))
    if numkong is not None and block.dtype != np.float32 and len(block):
        distances = np.asarray(numkong.cdist(row, block, "angular"))
        similarities: Floats = (1.0 - distances[0]).astype(np.float32)
        return similarities
    return _compare_with_numpy(block, row[0].astype(np.float32))


def round_to(rows: Floats, dtype: np.dtype[Any]) -> Array:
    """Return rows (m, d) in a precision; in int8, the largest number of each row becomes 127."""
    if dtype != np.int8:
        return rows.astype(dtype)
    largest = np.abs(rows).max(
        axis=1,
        keepdims=True,
        initial=0,
    )
    scaled = np.zeros_like(rows)
    np.divide(
        127 * rows,
        largest,
        out=scaled,
        where=largest > 0,
    )
    return np.asarray(np.rint(scaled), np.int8)


def _compare_with_numpy(block: Array, vector: Floats) -> Floats:
    """Return the cosines (m,) of a vector with a block's rows, 0 for rows of zeros."""
    similarities = np.zeros(len(block), np.float32)
    length = np.linalg.norm(vector)
    for start in range(0, len(block), _BLOCK):
        here = slice(start, start + _BLOCK)
        rows = block[here].astype(np.float32, copy=False)
        norms = np.linalg.norm(rows, axis=1) * length
        np.divide(
            rows @ vector,
            norms,
            out=similarities[here],
            where=norms > 0,
        )
    return similarities


def ranks(
    ids: Ids,
    scores: Floats,
    positions: Ids,
) -> Ids:
    """Return the ranks (k,), from 1, that the scores at `positions` (k,) have among all scores.

    `scores` (n,): a higher one ranks first; equal scores rank in order of `ids` (n,).
    """
    ascending = np.sort(scores)
    selected = scores[positions]
    not_above = np.searchsorted(
        ascending,
        selected,
        side="right",
    )
    below = np.searchsorted(
        ascending,
        selected,
        side="left",
    )
    ranked: Ids = len(scores) - not_above + 1
    for place in np.flatnonzero(not_above - below > 1):
        tied_ids = ids[scores == selected[place]]
        chunk_id = ids[positions[place]]
        ranked[place] += np.count_nonzero(tied_ids < chunk_id)
    return ranked
