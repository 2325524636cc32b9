"""Fisher's randomisation test of paired differences, two-sided and as max-T.

Fisher 1935; for retrieval: Smucker, Allan & Carterette 2007.
"""

# Under the null hypothesis the two systems are the same, so that a coin toss may decide which of
# them a query's figures belong to. p is the share of all tosses whose mean difference is at least
# as far from 0 as the observed one, without any assumption on the distribution of differences. The
# paired bootstrap answers another question: how large the difference is. Queries of one document
# are not independent, so one coin is tossed for all queries of a cluster.

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.metrics.bootstrap import SAMPLES, check_values, cluster_sums
from engine.metrics.relevance import Floats

BLOCK = 2_000_000
_TIE = 1e-9


def randomisation_p(
    gaps: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """Return two-sided p (c,) of the mean of each column of per-query differences `gaps` (n, c).

    All columns share the same tosses. Queries of the same number in `clusters` (n,) keep or change
    their sign together; None: each by itself.

    If k clusters have at most `samples` tosses 2ᵏ, all are used, which makes p exact; else
    `samples` random ones and the observed one, so that p is never 0. Raises ValueError for an empty
    or non-finite matrix.
    """
    matrix, _ = cluster_sums(check_values(gaps), clusters)  # (k, c)
    observed = np.abs(matrix.sum(axis=0))
    # Equal sums may differ by rounding, so a toss only needs to come close.
    tolerance = _TIE * np.maximum(np.abs(matrix).sum(axis=0), 1e-300)
    extreme = np.zeros(matrix.shape[1], dtype=np.int64)
    for signs in _tosses(len(matrix), samples, seed):
        extreme += np.count_nonzero(np.abs(signs @ matrix) >= observed - tolerance, axis=0)
    return _share(extreme, len(matrix), samples)


def max_t_p(
    gaps: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """Return one-sided p (c,) that each of c systems is better than a reference.

    p is corrected for the number of systems by Westfall & Young's (1993) single-step max-T: it is
    the share of all tosses whose largest t = Σ gap / √Σ gap² of any system reaches the system's
    observed t. `gaps` (n, c) are per-query differences from the reference; a query's gaps keep or
    change their sign together, and the gap of a cluster is the sum of its queries'. Clusters,
    tosses and ValueError are as in `randomisation_p`.
    """
    matrix, _ = cluster_sums(check_values(gaps), clusters)  # (k, c)
    scaled = matrix / np.maximum(np.sqrt((matrix**2).sum(axis=0)), 1e-300)
    reached = scaled.sum(axis=0) - _TIE * np.sqrt(len(matrix))
    extreme = np.zeros(matrix.shape[1], dtype=np.int64)
    for signs in _tosses(len(matrix), samples, seed):
        extreme += ((signs @ scaled).max(axis=1)[:, None] >= reached).sum(axis=0)
    return _share(extreme, len(matrix), samples)


def _is_exact(n: int, samples: int) -> bool:
    return n < 60 and 2**n <= samples


def _tosses(n: int, samples: int, seed: int) -> Iterator[Floats]:
    """Yield blocks (rows, n) of signs: all 2ⁿ patterns if they are few, else random ones."""
    exact = _is_exact(n, samples)
    rng = np.random.default_rng(seed)
    total = 2**n if exact else samples
    step = max(1, BLOCK // n)
    for start in range(0, total, step):
        rows = min(step, total - start)
        if exact:
            # The binary digits of all numbers are the patterns.
            numbers = np.arange(start, start + rows, dtype=np.int64)[:, None]
            heads = (numbers >> np.arange(n)) & 1
        else:
            heads = rng.integers(0, 2, size=(rows, n), dtype=np.int8)
        yield 2 * heads.astype(np.float64) - 1


def _share(extreme: NDArray[np.int64], n: int, samples: int) -> Floats:
    """Return p of `extreme` tosses; random ones also count the observed one."""
    p: Floats = (extreme + 1) / (samples + 1)
    if _is_exact(n, samples):
        p = extreme / 2**n
    return p
