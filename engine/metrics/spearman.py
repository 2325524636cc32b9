"""Pearson's and Spearman's correlation (1904), and its difference between two systems.

For sentence similarity: Reimers et al. 2016.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Difference, Interval
from engine.metrics.bootstrap import bounds
from engine.metrics.differences import difference
from engine.metrics.relevance import Floats

RESAMPLES = 2_000


def pearson(first: ArrayLike, second: ArrayLike) -> float:
    """Return Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²) of two samples (n,).

    As "… evaluated" has it in table 3; 0 if a sample is constant. Raises ValueError as `spearman`.
    """
    return _correlation(*_as_samples(first, second))


def spearman(first: ArrayLike, second: ArrayLike) -> float:
    """Return Pearson's correlation of the ranks of two samples (n,), 0 if one is constant.

    Equal values share their mean rank. Raises ValueError for other shapes, fewer than two values,
    or values that are not finite.
    """
    first_values, second_values = _as_samples(first, second)
    return _correlation(ranks(first_values), ranks(second_values))


def ranks(values: Floats) -> Floats:
    """Return ranks (n,) from 1; equal values share their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    first = last - counts + 1
    mean_ranks: Floats = ((first + last) / 2.0)[inverse]
    return mean_ranks


def spearman_interval(
    values: ArrayLike, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return Spearman's correlation with its 95 % percentile interval over resampled pairs."""
    system_values, gold_values = _as_samples(values, gold)
    resampled = _resample([system_values], gold_values, samples, seed)
    low, high = bounds(resampled[:, 0])
    return Interval(spearman(system_values, gold_values), low, high)


def spearman_difference(
    values: ArrayLike, base: ArrayLike, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return how much better `values` correlate with `gold` than `base` does, all (n,).

    The interval is of the same resamples for both. p is the share of all tosses, of which of the
    two a pair's rank comes from, in which the correlations are as far apart.
    """
    system_values, gold_values = _as_samples(values, gold)
    base_values, _ = _as_samples(base, gold)
    resampled = _resample([system_values, base_values], gold_values, samples, seed)
    gap = spearman(system_values, gold_values) - spearman(base_values, gold_values)
    system_ranks = ranks(system_values)
    base_ranks = ranks(base_values)
    gold_ranks = ranks(gold_values)
    rng = np.random.default_rng(seed)
    extreme = 0
    for _ in range(samples):
        heads = rng.integers(0, 2, len(gold_ranks)).astype(bool)
        first = ranks(np.where(heads, system_ranks, base_ranks))
        second = ranks(np.where(heads, base_ranks, system_ranks))
        tossed_gap = _correlation(first, gold_ranks) - _correlation(second, gold_ranks)
        extreme += abs(tossed_gap) >= abs(gap) - 1e-12
    return difference(gap, resampled[:, 0] - resampled[:, 1], (extreme + 1) / (samples + 1))


def _resample(columns: list[Floats], gold: Floats, samples: int, seed: int) -> Floats:
    """Return correlations (samples, columns) with `gold` over the same resampled pairs."""
    rng = np.random.default_rng(seed)
    correlations = np.empty((samples, len(columns)))
    for sample in range(samples):
        rows = rng.integers(0, len(gold), len(gold))
        gold_ranks = ranks(gold[rows])
        for number, column in enumerate(columns):
            correlations[sample, number] = _correlation(ranks(column[rows]), gold_ranks)
    return correlations


def _correlation(first: Floats, second: Floats) -> float:
    first = first - first.mean()
    second = second - second.mean()
    length = float(np.sqrt((first @ first) * (second @ second)))
    if length > 0:
        return float(first @ second) / length
    return 0.0


def _as_samples(first: ArrayLike, second: ArrayLike) -> tuple[Floats, Floats]:
    """Return two samples as arrays. Raises ValueError as `spearman`."""
    first_values = np.asarray(first, dtype=np.float64)
    second_values = np.asarray(second, dtype=np.float64)
    shape = first_values.shape
    if len(shape) != 1 or shape != second_values.shape or len(first_values) < 2:
        raise ValueError(
            f"a correlation wants two samples of two values or more, not {shape} and"
            f" {second_values.shape}"
        )
    if not (np.isfinite(first_values).all() and np.isfinite(second_values).all()):
        raise ValueError("values that are correlated hold NaN or infinity")
    return first_values, second_values
