"""Percentile bootstrap over queries: intervals of means, and paired differences between systems.

Efron & Tibshirani 1993; for retrieval: Sakai 2006 (paired bootstrap). Queries are the sampling unit: one resample draws
n of the n queries with replacement, the same for every system, which is what makes the differences paired.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats

Verdict = Literal["better", "worse", "no difference shown"]

SAMPLES = 10_000
CONFIDENCE = 0.95
LEAST_QUERIES = 6
"""Below it no verdict: five queries that all agree have p = 2 · ½⁵ = 6 % under a fair coin, six have 3 %."""

_BLOCK = 2_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds of its interval."""

    value: float
    low: float
    high: float

    def percent(self) -> Interval:
        """The same in percent."""
        return Interval(100 * self.value, 100 * self.low, 100 * self.high)


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a - b with its interval; `p_better`: share of resamples in which a is ahead, ties counted half.

    Where the systems were compared in full: `p_value` of Fisher's randomisation test. Where no difference is shown: the
    number of queries `needed` to show one as large (engine/metrics/power.py). They do not change the verdict.
    """

    value: float
    low: float
    high: float
    p_better: float
    verdict: Verdict
    p_value: float | None = None
    needed: int | None = None

    def percent(self) -> Difference:
        """The same in percent; probabilities stay shares."""
        return replace(self, value=100 * self.value, low=100 * self.low, high=100 * self.high)

    @property
    def told_needed(self) -> str:
        """For the end of a sentence: how many queries would be needed; empty where nothing is known of it."""
        return "" if self.needed is None else f"; about {self.needed:,} queries would be needed to show one as large"


def bootstrap_means(values: ArrayLike, samples: int = SAMPLES, seed: int = 0) -> Floats:
    """(samples, c) means of `values` (n, c) over resampled rows, the same resamples for every column.

    The rows' multiplicities (samples, n) are multiplied with the values block by block: memory stays below about
    60 MB whatever n. ValueError for an empty or non-finite matrix.
    """
    matrix = _checked(values)
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    n = len(matrix)
    rng = np.random.default_rng(seed)
    means = np.empty((samples, matrix.shape[1]))
    step = max(1, _BLOCK // n)
    for start in range(0, samples, step):
        rows = min(step, samples - start)
        drawn = rng.integers(0, n, size=(rows, n))
        drawn += np.arange(rows)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        means[start : start + rows] = counts.astype(np.float64) @ matrix / n
    return means


def mean_interval(values: ArrayLike, samples: int = SAMPLES, seed: int = 0, confidence: float = CONFIDENCE) -> Interval:
    """Mean of per-query `values` (n,) with its percentile bootstrap interval. ValueError for empty or NaN input."""
    column = _column(values)
    return interval(column[:, 0], bootstrap_means(column, samples, seed)[:, 0], confidence)


def paired_difference(
    a: ArrayLike, b: ArrayLike, samples: int = SAMPLES, seed: int = 0, confidence: float = CONFIDENCE
) -> Difference:
    """Mean of a - b over the same n queries. `better`/`worse` when the interval excludes 0 and n ≥ `LEAST_QUERIES`.

    `a`, `b`: (n,) per-query values in the same order. ValueError for empty, NaN or differently long input.
    """
    first, second = _column(a), _column(b)
    if len(first) != len(second):
        raise ValueError(f"paired values must be as many: {len(first)} and {len(second)}")
    gap = first - second
    return difference(gap[:, 0], bootstrap_means(gap, samples, seed)[:, 0], confidence)


def interval(values: Floats, means: Floats, confidence: float = CONFIDENCE) -> Interval:
    """The interval of `values` (n,) from its bootstrap `means` (samples,)."""
    low, high = _bounds(means, confidence)
    return Interval(float(values.mean()), low, high)


def difference(gap: Floats, means: Floats, confidence: float = CONFIDENCE) -> Difference:
    """The verdict on per-query differences `gap` (n,) from their bootstrap `means` (samples,)."""
    low, high = _bounds(means, confidence)
    ahead = float(np.mean(means > 0) + 0.5 * np.mean(means == 0))
    verdict: Verdict = "no difference shown"
    if len(gap) >= LEAST_QUERIES and low > 0:
        verdict = "better"
    elif len(gap) >= LEAST_QUERIES and high < 0:
        verdict = "worse"
    return Difference(float(gap.mean()), low, high, ahead, verdict)


def _bounds(means: Floats, confidence: float) -> tuple[float, float]:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


def _column(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"per-query values must be one-dimensional, not of shape {array.shape}")
    return array[:, None]


def _checked(values: ArrayLike) -> Floats:
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"nothing to resample: values of shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise ValueError("per-query values hold NaN or infinity")
    return matrix
