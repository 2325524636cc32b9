"""Spearman's rank correlation (1904) with people's scores, and its difference between two systems.

For sentence similarity: Reimers et al. 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Difference, Interval
from engine.metrics.differences import difference
from engine.metrics.relevance import Floats

RESAMPLES = 2_000


def spearman(first: ArrayLike, second: ArrayLike, axis: int = -1) -> Any:
    """Return Pearson's correlation of the ranks of two samples (…, n), 0 if one is constant."""
    from scipy.stats import rankdata

    deviations = []
    for sample in (first, second):
        ranks = rankdata(sample, axis=axis)
        deviations.append(ranks - ranks.mean(axis=axis, keepdims=True))
    lengths = np.sqrt(np.prod([np.square(rows).sum(axis=axis) for rows in deviations], axis=0))
    products = (deviations[0] * deviations[1]).sum(axis=axis)
    return np.divide(products, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def spearman_interval(
    values: Floats, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return Spearman's correlation with its 95 % percentile interval over resampled pairs."""
    low, high = np.quantile(_resample(spearman, (values, gold), samples, seed), [0.025, 0.975])
    return Interval(float(spearman(values, gold)), float(low), float(high))


def spearman_difference(
    values: Floats, base: Floats, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return how much better `values` correlate with `gold` than `base` does, all (n,).

    The interval is of the same resamples for both. p is the share of all tosses, of which of the
    two a pair's rank comes from, in which the correlations are as far apart.
    """
    from scipy.stats import permutation_test, rankdata

    def gap(first: Any, second: Any, scores: Any, axis: int = -1) -> Any:
        return spearman(first, scores, axis) - spearman(second, scores, axis)

    tossed = permutation_test(
        (rankdata(values), rankdata(base)),
        lambda first, second, axis: gap(first, second, np.broadcast_to(gold, first.shape), axis),
        permutation_type="samples",
        n_resamples=samples,
        rng=np.random.default_rng(seed),
    )
    resampled = _resample(gap, (values, base, gold), samples, seed)
    return difference(float(tossed.statistic), resampled, float(tossed.pvalue))


def _resample(statistic: Any, columns: tuple[ArrayLike, ...], samples: int, seed: int) -> Floats:
    """Return the statistic (samples,) of resampled rows of the columns (n,)."""
    rows = np.random.default_rng(seed).integers(
        0, np.size(columns[0]), (samples, np.size(columns[0]))
    )
    resampled: Floats = statistic(*(np.asarray(column, np.float64)[rows] for column in columns))
    return resampled
