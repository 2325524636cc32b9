"""Fisher's randomisation test of paired differences (Fisher 1935; for retrieval: Smucker, Allan & Carterette 2007).

Under the null hypothesis the two systems are one, so that which of them a query's figures belong to is a coin toss. p is the
share of all tosses whose mean difference is at least as far from 0 as the observed one: two-sided, without any assumption
on how the differences are distributed. The paired bootstrap asks another question, how large the difference is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.metrics.bootstrap import SAMPLES
from engine.metrics.relevance import Floats

_BLOCK = 2_000_000
_TIE = 1e-9


def randomisation_p(gaps: ArrayLike, samples: int = SAMPLES, seed: int = 0) -> Floats:
    """(c,) two-sided p of the mean of each column of per-query differences `gaps` (n, c); the same tosses for all columns.

    All 2ⁿ tosses where there are at most `samples` of them, which makes p exact; else `samples` random ones, the observed
    one counted among them, so that p is never 0. ValueError for an empty or non-finite matrix.
    """
    matrix = np.asarray(gaps, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0 or samples < 1:
        raise ValueError(f"nothing to randomise: differences of shape {matrix.shape}, {samples} samples")
    if not np.isfinite(matrix).all():
        raise ValueError("per-query differences hold NaN or infinity")
    n = len(matrix)
    exact = n < 60 and 2**n <= samples
    total = 2**n if exact else samples
    observed = np.abs(matrix.sum(axis=0))
    reached = observed - _TIE * np.maximum(np.abs(matrix).sum(axis=0), 1e-300)  # equal sums differ by their rounding
    rng = np.random.default_rng(seed)
    extreme = np.zeros(matrix.shape[1], dtype=np.int64)
    step = max(1, _BLOCK // n)
    for start in range(0, total, step):
        rows = min(step, total - start)
        heads = _patterns(start, rows, n) if exact else rng.integers(0, 2, size=(rows, n), dtype=np.int8)
        sums = (2.0 * heads - 1.0) @ matrix
        extreme += np.count_nonzero(np.abs(sums) >= reached, axis=0)
    p: Floats = extreme / total if exact else (extreme + 1) / (total + 1)
    return p


def _patterns(start: int, rows: int, n: int) -> NDArray[np.int64]:
    """(rows, n) the binary digits of the numbers from `start` on."""
    numbers = np.arange(start, start + rows, dtype=np.int64)[:, None]
    return (numbers >> np.arange(n)) & 1
