"""Percentile bootstrap over queries: intervals of means.

Efron & Tibshirani 1993; for retrieval: Sakai 2006 (paired bootstrap); for documents with all their
queries: Davison & Hinkley 1997, §3.8; for samples of a fixed size: "Domain-adapted embeddings,
evaluated", §2 and §3.
"""

# Queries are the sampling unit: one resample draws n of the n queries with replacement, the same
# for every system, which makes the differences paired. Queries of one document behave alike, so
# documents are drawn with all their queries if they are known.

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles
from engine.core.figures import Interval
from engine.metrics.relevance import Ints

SAMPLES = 10_000
"""Default number of resamples."""
CONFIDENCE = 0.95
"""Share of resampled means that an interval contains."""
BLOCK = 2_000_000
"""How many random numbers are drawn at a time, which limits memory."""


def bootstrap_means(
    values: ArrayLike,
    samples: int = SAMPLES,
    seed: int = 0,
    clusters: ArrayLike | None = None,
    block: int = BLOCK,
) -> Doubles:
    """Return means (samples, c) of `values` (n, c) over resampled rows.

    All columns share the same resamples. If there are two or more `clusters` (n,), clusters are
    resampled instead of rows. `block`: how many numbers are drawn at a time. Raises ValueError for
    an empty or non-finite matrix.
    """
    matrix = check_values(values)
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    sums, sizes = cluster_sums(matrix, clusters)
    # All resamples of a single cluster are equal: resample its rows instead.
    if len(sums) == 1:
        sums, sizes = cluster_sums(matrix, None)
    rng = np.random.default_rng(seed)
    blocks = []
    # Multiplying multiplicities block by block keeps memory below about 60 MB.
    step = max(1, block // len(sums))
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        multiplicities = _resample_counts(
            rng,
            rows,
            len(sums),
        )
        totals = multiplicities @ sums
        counts = multiplicities @ sizes
        blocks.append(totals / counts[:, None])
    return np.concatenate(blocks)


def _resample_counts(
    rng: np.random.Generator,
    resamples: int,
    n: int,
) -> Doubles:
    """Return how often each of n items is in each resample of n items (resamples, n)."""
    items = rng.integers(
        0,
        n,
        size=(resamples, n),
    )
    # Each resample counts in a range of its own, so that one call of bincount counts all.
    items += n * np.arange(resamples)[:, None]
    counts = np.bincount(items.ravel(), minlength=resamples * n)
    return counts.reshape(resamples, n).astype(np.float64)


def cluster_sums(values: Doubles, clusters: ArrayLike | None) -> tuple[Doubles, Doubles]:
    """Return sums (k, c) of `values` (n, c) over each cluster, and the clusters' sizes (k,).

    Clusters are in the order of their first rows. Without clusters every row is a cluster.
    """
    if clusters is None:
        return values, np.ones(len(values))
    _, first_rows, numbers = np.unique(
        np.asarray(clusters),
        return_index=True,
        return_inverse=True,
    )
    if len(numbers) != len(values):
        raise ValueError(f"{len(numbers)} clusters of {len(values)} values")
    places = np.empty(len(first_rows), dtype=np.int64)  # of each cluster in the order of first rows
    places[np.argsort(first_rows)] = np.arange(len(first_rows))
    rows = places[numbers]
    sums = [np.bincount(rows, weights=column) for column in values.T]
    return np.column_stack(sums), np.bincount(rows).astype(np.float64)


def interval(values: Doubles, means: Doubles) -> Interval:
    """Return the mean of `values` (n,) with the interval of its bootstrap `means` (samples,)."""
    low, high = bounds(means)
    return Interval(
        float(values.mean()),
        low,
        high,
    )


def bounds(means: Doubles) -> tuple[float, float]:
    """Return the percentile interval of bootstrap `means` (samples,)."""
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def check_values(values: ArrayLike) -> Doubles:
    """Return per-query values (n, c). Raises ValueError for an empty or non-finite matrix."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"nothing to resample: values of shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("per-query values hold NaN or infinity")
    return matrix


@dataclass(frozen=True, slots=True)
class Sampling:
    """Bootstrap samples of a fixed size, so that intervals of large and small data sets compare.

    With fewer queries than `size`, samples are as large as the data set: larger ones would make the
    interval too narrow.
    """

    top: int = 5
    """K: how many of the best chunks of a query count."""
    samples: int = 500
    """m: number of samples."""
    size: int = 100
    """l: number of queries in a sample."""
    psi: float = 5.0
    """ψ: percentile, in percent, of the similarities that COE and ROE compare with.

    The paper does not state ψ; its tables, whose COE exceeds the accuracy, imply a low value.
    """
    seed: int = 0

    def draw(self, count: int) -> Ints:
        """Draw row numbers (m, min(l, count)) below `count` with replacement.

        Raises ValueError if a number is below 1.
        """
        if min(count, self.samples, self.size) < 1:
            raise ValueError(
                f"{self.samples} samples of {self.size} cannot be drawn from {count} queries"
            )
        shape = (self.samples, min(self.size, count))
        return np.random.default_rng(self.seed).integers(
            0,
            count,
            size=shape,
        )


PAPER = Sampling()


def bootstrapped_mean(values: ArrayLike, sampling: Sampling = PAPER) -> Interval:
    """Return the mean of all samples' means, with their 2.5th and 97.5th percentile.

    `values` (q,) are per query: those of `hit_at_k` give bootstrapped accuracy (§2.1 of the paper),
    those of `ndcg_at_k` bootstrapped nDCG (appendix A.5).
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or not np.isfinite(rows).all():
        raise ValueError(
            f"a mean wants one number for each query, not an array of shape {rows.shape}"
        )
    means = rows[sampling.draw(len(rows))].mean(axis=1)
    return interval(means, means)
