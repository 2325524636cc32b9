"""Exact cosines of one vector with all of a table, in a few milliseconds per hundred thousand
rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import numkong  # comes with usearch, and reads float16 without converting it: ten times as fast
except ImportError:
    numkong = None  # type: ignore[assignment]

_BLOCK = 4096


def cosines(blocks: Sequence[NDArray[Any]], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Cosines (n,) of `vector` (d,) with the rows of all blocks, (m, d) each, float32, float16
    or int8; 0 for a row of zeros.

    The vector is rounded to the rows' precision first, as the index does.
    """
    if not blocks:
        return np.empty(0, np.float32)
    return np.concatenate([_of_block(block, vector) for block in blocks])


def _of_block(block: NDArray[Any], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    own = np.ascontiguousarray(rounded(vector[None], block.dtype))
    if numkong is not None and block.dtype != np.float32 and len(block):
        distances: NDArray[np.float64] = np.asarray(numkong.cdist(own, block, "angular"))[0]
        return (1.0 - distances).astype(np.float32)
    return _with_numpy(block, own[0].astype(np.float32))


def rounded(rows: NDArray[np.float32], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Rows (m, d) in a table's precision; in int8, the largest number of each is 127."""
    if dtype != np.int8:
        return rows.astype(dtype)
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    scaled = np.divide(127 * rows, largest, out=np.zeros_like(rows), where=largest > 0)
    return np.asarray(np.rint(scaled), np.int8)


def _with_numpy(block: NDArray[Any], vector: NDArray[np.float32]) -> NDArray[np.float32]:
    found = np.empty(len(block), np.float32)
    length = np.linalg.norm(vector)
    for start in range(0, len(block), _BLOCK):
        rows = block[start : start + _BLOCK].astype(np.float32, copy=False)
        norms = np.linalg.norm(rows, axis=1) * length
        found[start : start + _BLOCK] = np.divide(
            rows @ vector, norms, out=np.zeros(len(rows), np.float32), where=norms > 0
        )
    return found


def ranks(
    ids: NDArray[np.int64], scores: NDArray[np.float32], at: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The ranks (k,), from 1 and among all n, of the scores in the places `at` (k,); ties in
    order of `ids` (n,).
    """
    ascending = np.sort(scores)
    wanted = scores[at]
    above = np.searchsorted(ascending, wanted, side="right")
    found: NDArray[np.int64] = len(scores) - above + 1
    tied = above - np.searchsorted(ascending, wanted, side="left") > 1
    for place in np.flatnonzero(tied):
        found[place] += np.count_nonzero(ids[scores == wanted[place]] < ids[at[place]])
    return found
