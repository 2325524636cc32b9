"""Fisher's randomisation test of paired differences (Fisher 1935; for retrieval: Smucker, Allan
& Carterette 2007).

Under the null hypothesis the two systems are one, so that which of them a query's figures belong to
is a coin toss. p is the share of all tosses whose mean difference is at least as far from 0 as the
observed one: two-sided, without any assumption on how the differences are distributed. The paired
bootstrap asks another question, how large the difference is. Queries of one document are not
independent, so that one coin is tossed for all queries of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.metrics.bootstrap import SAMPLES, checked, cluster_sums
from engine.metrics.relevance import Floats

BLOCK = 2_000_000
_TIE = 1e-9


def randomisation_p(
    gaps: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """(c,) two-sided p of the mean of each column of per-query differences `gaps` (n, c); the
    same tosses for all columns. `clusters` (n,): the queries that keep or change their sign
    together; None: each by itself.

    All 2ᵏ tosses of k clusters where there are at most `samples` of them, which makes p exact; else
    `samples` random ones, the observed one counted among them, so that p is never 0. ValueError for
    an empty or non-finite matrix.
    """
    matrix, _ = cluster_sums(checked(gaps), clusters)  # (k, c)
    observed = np.abs(matrix.sum(axis=0))
    reached = observed - _TIE * np.maximum(
        np.abs(matrix).sum(axis=0), 1e-300
    )  # equal sums differ by their rounding
    extreme = np.zeros(matrix.shape[1], dtype=np.int64)
    for signs in _tosses(len(matrix), samples, seed):
        extreme += np.count_nonzero(np.abs(signs @ matrix) >= reached, axis=0)
    return _share(extreme, len(matrix), samples)


def max_t_p(
    gaps: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """(c,) one-sided p that each of c ways is better than what all are compared with, corrected
    for there being several.

    `gaps` (n, c): per-query differences of each way from the other. Westfall & Young's (1993)
        single-step max-T: p of a way is the
    share of all tosses, a query's gaps keeping or changing sign together, whose largest t = Σ gap /
    √Σ gap² of any way reaches the way's observed one; the gap of a cluster is the sum of its
    queries'. Clusters, tosses and ValueError as in `randomisation_p`.
    """
    matrix, _ = cluster_sums(checked(gaps), clusters)  # (k, c)
    scaled = matrix / np.maximum(np.sqrt((matrix**2).sum(axis=0)), 1e-300)
    reached = scaled.sum(axis=0) - _TIE * np.sqrt(len(matrix))
    extreme = np.zeros(matrix.shape[1], dtype=np.int64)
    for signs in _tosses(len(matrix), samples, seed):
        extreme += ((signs @ scaled).max(axis=1)[:, None] >= reached).sum(axis=0)
    return _share(extreme, len(matrix), samples)


def _is_exact(n: int, samples: int) -> bool:
    return n < 60 and 2**n <= samples


def _tosses(n: int, samples: int, seed: int) -> Iterator[Floats]:
    """Blocks (rows, n) of signs: all 2ⁿ patterns where they are few, else `samples` random ones."""
    exact = _is_exact(n, samples)
    rng = np.random.default_rng(seed)
    total = 2**n if exact else samples
    step = max(1, BLOCK // n)
    for start in range(0, total, step):
        rows = min(step, total - start)
        numbers = np.arange(start, start + rows, dtype=np.int64)[
            :, None
        ]  # their binary digits are the patterns
        if exact:
            heads = (numbers >> np.arange(n)) & 1
        else:
            heads = rng.integers(0, 2, size=(rows, n), dtype=np.int8)
        yield 2 * heads.astype(np.float64) - 1


def _share(extreme: NDArray[np.int64], n: int, samples: int) -> Floats:
    """p of `extreme` tosses; of random ones the observed one is counted, too."""
    p: Floats = extreme / 2**n if _is_exact(n, samples) else (extreme + 1) / (samples + 1)
    return p
