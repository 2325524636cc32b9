"""Percentile bootstrap over queries: intervals of means.

Efron & Tibshirani 1993; for retrieval: Sakai 2006 (paired bootstrap). Queries are the sampling
unit: one resample draws n of the n queries with replacement, the same for every system, which is
what makes the differences paired. Queries of one document answer alike, so that where documents are
known these are drawn, with all their queries (Davison & Hinkley 1997, §3.8).

`Sampling` draws samples of a fixed size ("Domain-adapted embeddings, evaluated", §2 and §3: m = 500
samples of l = 100 questions with replacement). They are smaller than the paper's query sets, so
that data sets of any size have intervals of the same meaning. Of fewer queries than l samples are
as large as the set: larger ones would make the interval narrower than so few queries allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Interval
from engine.metrics.relevance import Floats, Ints

SAMPLES = 10_000
CONFIDENCE = 0.95
BLOCK = 2_000_000


def bootstrap_means(
    values: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Floats:
    """(samples, c) means of `values` (n, c) over resampled rows, the same resamples for every
    column; of rows in two or more `clusters` (n,) over resampled clusters.

    The rows' multiplicities (samples, n) are multiplied with the values block by block: memory
    stays below about 60 MB whatever n. ValueError for an empty or non-finite matrix.
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
    """Sums (k, c) of `values` (n, c) over each of k `clusters` (n,), in the order of their first
    rows, and how many rows they have (k,). Without clusters every row is one.
    """
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


@dataclass(frozen=True, slots=True)
class Sampling:
    """A query's best `top` (K) chunks, `samples` (m) of `size` (l) queries, and ψ of COE and ROE
    in percent, which the paper leaves open; its tables, whose COE lies above the accuracy, need
    a low one.
    """

    top: int = 5
    samples: int = 500
    size: int = 100
    psi: float = 5.0
    seed: int = 0

    def draw(self, count: int) -> Ints:
        """(m, min(l, count)) row numbers below `count`, drawn with replacement.

        ValueError where a number is below 1.
        """
        if min(count, self.samples, self.size) < 1:
            raise ValueError(
                f"{self.samples} samples of {self.size} cannot be drawn from {count} queries"
            )
        return np.random.default_rng(self.seed).integers(
            0, count, size=(self.samples, min(self.size, count))
        )


PAPER = Sampling()


def bootstrapped_mean(values: ArrayLike, sampling: Sampling = PAPER) -> Interval:
    """a = 1/m Σ_j a_j, a_j the mean of sample j's queries; its 2.5th and 97.5th percentile
    (§2.1; of nDCG: appendix A.5).

    `values` (q,): bootstrapped accuracy of what `hit_at_k` gives, bootstrapped nDCG of `ndcg_at_k`.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or not np.isfinite(rows).all():
        raise ValueError(
            f"a mean wants one number for each query, not an array of shape {rows.shape}"
        )
    means = rows[sampling.draw(len(rows))].mean(axis=1)
    return interval(means, means)
