"""Pearson's correlation and Spearman's of ranks (1904), and its difference between two systems;
for sentence similarity: Reimers et al. 2016.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Difference, Interval
from engine.metrics.bootstrap import bounds
from engine.metrics.differences import difference
from engine.metrics.relevance import Floats

RESAMPLES = 2_000


def pearson(one: ArrayLike, other: ArrayLike) -> float:
    """Σ (x − x̄)(y − ȳ) / √(Σ (x − x̄)² Σ (y − ȳ)²) of two samples (n,), as "… evaluated" has it
    in table 3; 0 where one never varies. ValueError as `spearman`.
    """
    return _correlation(*_checked(one, other))


def spearman(one: ArrayLike, other: ArrayLike) -> float:
    """Pearson's correlation of the ranks of two samples (n,), equal values sharing their mean
    rank; 0 where one never varies.

    ValueError for other shapes, fewer than two values, or values that are not finite.
    """
    first, second = _checked(one, other)
    return _correlation(ranks(first), ranks(second))


def ranks(values: Floats) -> Floats:
    """Ranks (n,) from 1, equal values sharing their mean."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Floats = ((last - counts + 1 + last) / 2.0)[inverse]
    return found


def spearman_interval(
    one: ArrayLike, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Spearman's correlation (times one) with its 95 % percentile interval over resampled pairs."""
    first, second = _checked(one, gold)
    low, high = bounds(_resampled([first], second, samples, seed)[:, 0])
    return Interval(spearman(first, second), low, high)


def spearman_difference(
    one: ArrayLike, base: ArrayLike, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """How much better `one` correlates with `gold` than `base` does, all (n,) of the same pairs.

    The interval is of the same resamples for both. p: the share of all tosses, of which of the two
    a pair's rank comes from, in which the correlations are as far apart.
    """
    first, gold_values = _checked(one, gold)
    second, _ = _checked(base, gold)
    both = _resampled([first, second], gold_values, samples, seed)
    gap = spearman(first, gold_values) - spearman(second, gold_values)
    mine = ranks(first)
    theirs = ranks(second)
    wanted = ranks(gold_values)
    rng = np.random.default_rng(seed)
    extreme = 0
    for _ in range(samples):
        heads = rng.integers(0, 2, len(mine)).astype(bool)
        tossed = np.where(heads, mine, theirs), np.where(heads, theirs, mine)
        apart = _correlation(ranks(tossed[0]), wanted) - _correlation(ranks(tossed[1]), wanted)
        extreme += abs(apart) >= abs(gap) - 1e-12
    return difference(gap, both[:, 0] - both[:, 1], (extreme + 1) / (samples + 1))


def _resampled(columns: list[Floats], gold: Floats, samples: int, seed: int) -> Floats:
    """(samples, columns) correlations with `gold` over the same resampled pairs."""
    rng = np.random.default_rng(seed)
    found = np.empty((samples, len(columns)))
    for row in range(samples):
        drawn = rng.integers(0, len(gold), len(gold))
        wanted = ranks(gold[drawn])
        found[row] = [_correlation(ranks(column[drawn]), wanted) for column in columns]
    return found


def _correlation(one: Floats, other: Floats) -> float:
    first = one - one.mean()
    second = other - other.mean()
    length = float(np.sqrt((first @ first) * (second @ second)))
    if length > 0:
        return float(first @ second) / length
    return 0.0


def _checked(one: ArrayLike, other: ArrayLike) -> tuple[Floats, Floats]:
    first, second = (np.asarray(values, dtype=np.float64) for values in (one, other))
    if first.ndim != 1 or first.shape != second.shape or len(first) < 2:
        raise ValueError(
            f"a correlation wants two samples of two values or more, not {first.shape} and"
            f" {second.shape}"
        )
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        raise ValueError("values that are correlated hold NaN or infinity")
    return first, second
