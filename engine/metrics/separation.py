"""How far vectors of a domain lie from vectors of general text: Δ(D, D′) ("… evaluated", §2.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats

_BLOCK = 4_096


def nearest_distances(domain: ArrayLike, general: ArrayLike) -> Floats:
    """(n,) Euclidean distance of each unit vector of `domain` (n, d) to its nearest of `general` (m, d): √(2 − 2 max cos), 0 to 2.

    ValueError where there is nothing to be near to, or shapes do not fit.
    """
    rows, others = (np.asarray(array, dtype=np.float32) for array in (domain, general))
    if rows.ndim != 2 or others.ndim != 2 or not len(others) or rows.shape[1] != others.shape[1]:
        raise ValueError(f"vectors of shape {rows.shape} and {others.shape} do not fit")
    nearest = np.empty(len(rows), dtype=np.float64)
    for start in range(0, len(rows), _BLOCK):
        nearest[start : start + _BLOCK] = (rows[start : start + _BLOCK] @ others.T).max(axis=1)
    found: Floats = np.sqrt(np.maximum(0.0, 2.0 - 2.0 * nearest))
    return found
