"""Percentile bootstrap over queries: intervals of means.

Efron & Tibshirani 1993; for retrieval: Sakai 2006 (paired bootstrap). Queries are the sampling unit: one resample draws
n of the n queries with replacement, the same for every system, which is what makes the differences paired. Queries of one document
answer alike, so that where documents are known these are drawn, with all their queries (Davison & Hinkley 1997, §3.8).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Interval
from engine.metrics.relevance import Floats

SAMPLES = 10_000
CONFIDENCE = 0.95
BLOCK = 2_000_000


def bootstrap_means(
    values: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """(samples, c) means of `values` (n, c) over resampled rows, the same resamples for every column; of rows in two or more
    `clusters` (n,) over resampled clusters.

    The rows' multiplicities (samples, n) are multiplied with the values block by block: memory stays below about
    60 MB whatever n. ValueError for an empty or non-finite matrix.
    """
    matrix = checked(values)
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    sums, sizes = cluster_sums(matrix, clusters)
    if len(sums) > 1:
        matrix = sums
    else:  # one cluster alone would have an interval without width
        sizes = np.ones(len(matrix))
    n = len(matrix)
    rng = np.random.default_rng(seed)
    means = np.empty((samples, matrix.shape[1]))
    step = max(1, BLOCK // n)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        drawn = rng.integers(0, n, size=(rows, n))
        drawn += np.arange(rows)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        drawings = counts.astype(np.float64)
        means[start : start + rows] = drawings @ matrix / (drawings @ sizes)[:, None]
    return means


def cluster_sums(values: Floats, clusters: ArrayLike | None) -> tuple[Floats, Floats]:
    """Sums (k, c) of `values` (n, c) over each of k `clusters` (n,), in the order of their first rows, and how many rows they have
    (k,). Without clusters every row is one."""
    if clusters is None:
        return values, np.ones(len(values))
    numbers: dict[int, int] = {}
    places = [numbers.setdefault(one, len(numbers)) for one in np.asarray(clusters).tolist()]
    if len(places) != len(values):
        raise ValueError(f"{len(places)} clusters of {len(values)} values")
    sums = np.zeros((len(numbers), values.shape[1]))
    np.add.at(sums, places, values)
    return sums, np.bincount(places).astype(np.float64)


def interval(values: Floats, means: Floats) -> Interval:
    """The interval of `values` (n,) from its bootstrap `means` (samples,)."""
    low, high = bounds(means)
    return Interval(float(values.mean()), low, high)


def bounds(means: Floats) -> tuple[float, float]:
    """The percentile interval of bootstrap `means` (samples,)."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def checked(values: ArrayLike) -> Floats:
    """Per-query values (n, c). ValueError for an empty or non-finite matrix."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"nothing to resample: values of shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("per-query values hold NaN or infinity")
    return matrix
