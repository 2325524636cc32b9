"""Fisher's randomisation test of paired differences, two-sided and as max-T.

Fisher 1935; for retrieval: Smucker, Allan & Carterette 2007.
"""

# Under the null hypothesis the two systems are the same, so that a coin toss may decide which of
# them a query's figures belong to. p is the share of all tosses whose mean difference is at least
# as far from 0 as the observed one, without any assumption on the distribution of differences. The
# paired bootstrap answers another question: how large the difference is. Queries of one document
# are not independent, so one coin is tossed for all queries of a cluster.

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.arrays import Doubles
from engine.metrics.bootstrap import SAMPLES, check_values, cluster_sums

BLOCK = 2_000_000
"""Number of signs at a time, which limits memory."""
# Sums that differ by less than this share of the largest possible sum are equal up to rounding.
_TIE = 1e-9
# Replaces a divisor of 0.
_TINY = 1e-300

Bools = NDArray[np.bool_]


def randomisation_p(
    gaps: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Doubles:
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
    largest_sum = np.abs(matrix).sum(axis=0)
    tolerance = _TIE * np.maximum(largest_sum, _TINY)
    threshold = observed - tolerance

    def is_extreme(signs: Doubles) -> Bools:
        reaches: Bools = np.abs(signs @ matrix) >= threshold
        return reaches

    return _share_of_tosses(
        is_extreme,
        matrix.shape,
        samples,
        seed,
    )


def max_t_p(
    gaps: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Doubles:
    """Return one-sided p (c,) that each of c systems is better than a reference.

    p is corrected for the number of systems by Westfall & Young's (1993) single-step max-T: it is
    the share of all tosses whose largest t = Σ gap / √Σ gap² of any system reaches the system's
    observed t. `gaps` (n, c) are per-query differences from the reference; a query's gaps keep or
    change their sign together, and the gap of a cluster is the sum of its queries'. Clusters,
    tosses and ValueError are as in `randomisation_p`.
    """
    matrix, _ = cluster_sums(check_values(gaps), clusters)  # (k, c)
    norms = np.sqrt((matrix**2).sum(axis=0))  # (c,)
    scaled = matrix / np.maximum(norms, _TINY)
    threshold = scaled.sum(axis=0) - _TIE * np.sqrt(len(matrix))

    def is_extreme(signs: Doubles) -> Bools:
        largest = (signs @ scaled).max(axis=1, keepdims=True)
        reaches: Bools = largest >= threshold
        return reaches

    return _share_of_tosses(
        is_extreme,
        matrix.shape,
        samples,
        seed,
    )


def _share_of_tosses(
    is_extreme: Callable[[Doubles], Bools], shape: tuple[int, ...], samples: int, seed: int
) -> Doubles:
    """Return p (c,): the share of tosses of n coins for which `is_extreme` holds.

    `shape` is (n, c); `is_extreme` turns signs (b, n) into decisions (b, c).
    """
    n, columns = shape
    is_exact = n < 60 and 2**n <= samples
    tosses = _all_tosses(n) if is_exact else _random_tosses(n, samples, seed)
    extreme = np.zeros(columns, dtype=np.int64)
    for signs in tosses:
        extreme += np.count_nonzero(is_extreme(signs), axis=0)
    # The observed assignment counts as one toss more, unless it is among the tosses anyway.
    p: Doubles = (extreme + 1) / (samples + 1)
    if is_exact:
        p = extreme / 2**n
    return p


def _all_tosses(n: int) -> Iterator[Doubles]:
    """Yield all 2ⁿ patterns of n signs in blocks (b, n): the binary digits of all numbers."""
    step = max(1, BLOCK // n)
    for start in range(0, 2**n, step):
        numbers = np.arange(
            start,
            min(start + step, 2**n),
            dtype=np.int64,
        )
        digits = (numbers[:, None] >> np.arange(n)) & 1
        yield 2 * digits.astype(np.float64) - 1


def _random_tosses(
    n: int,
    samples: int,
    seed: int,
) -> Iterator[Doubles]:
    """Yield random patterns of n signs in blocks (b, n)."""
    rng = np.random.default_rng(seed)
    step = max(1, BLOCK // n)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        heads = rng.integers(
            0,
            2,
            size=(rows, n),
            dtype=np.int8,
        )
        yield 2 * heads.astype(np.float64) - 1
