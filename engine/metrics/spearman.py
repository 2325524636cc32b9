"""Spearman's rank correlation (1904) with people's scores, and its difference between two systems.

For sentence similarity: Reimers et al. 2016.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles
from engine.core.figures import Difference, Interval
from engine.metrics.differences import difference

RESAMPLES = 2_000
"""Default number of resamples and of tosses."""


def spearman(
    first: ArrayLike,
    second: ArrayLike,
    axis: int = -1,
) -> Any:
    """Return Pearson's correlation of the ranks of two samples (…, n), 0 if one is constant."""
    from scipy.stats import rankdata

    deviations = []
    squares = []
    for sample in (first, second):
        ranks = rankdata(sample, axis=axis)
        deviation = ranks - ranks.mean(axis=axis, keepdims=True)
        deviations.append(deviation)
        squares.append(np.square(deviation).sum(axis=axis))
    covariance = (deviations[0] * deviations[1]).sum(axis=axis)
    scale = np.sqrt(squares[0] * squares[1])
    return np.divide(
        covariance,
        scale,
        out=np.zeros_like(scale),
        where=scale > 0,
    )


def spearman_interval(
    values: Doubles, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Interval:
    """Return the correlation of `values` and `gold` (n,) with its 95 % percentile interval.

    The interval is over `samples` resamples of the n pairs.
    """
    resampled = _resample(
        spearman,
        (values, gold),
        samples,
        seed,
    )
    low, high = np.quantile(resampled, [0.025, 0.975])
    return Interval(
        float(spearman(values, gold)),
        float(low),
        float(high),
    )


def spearman_difference(
    values: Doubles, base: Doubles, gold: ArrayLike, samples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return how much better `values` correlate with `gold` than `base` does, all (n,).

    Both systems have the same resamples. A toss exchanges the ranks that the two systems give a
    pair; p is the share of tosses whose correlations are at least as far apart as observed.
    """
    from scipy.stats import permutation_test, rankdata

    def gap(
        first: Any,
        second: Any,
        scores: Any,
        axis: int = -1,
    ) -> Any:
        return spearman(first, scores, axis) - spearman(second, scores, axis)

    # The test exchanges all samples that it gets, so it must not get the gold scores.
    def gap_to_gold(
        first: Any,
        second: Any,
        axis: int,
    ) -> Any:
        return gap(
            first,
            second,
            np.broadcast_to(gold, first.shape),
            axis,
        )

    test = permutation_test(
        (rankdata(values), rankdata(base)),
        gap_to_gold,
        permutation_type="samples",
        n_resamples=samples,
        rng=np.random.default_rng(seed),
    )
    resampled = _resample(
        gap,
        (values, base, gold),
        samples,
        seed,
    )
    return difference(
        float(test.statistic),
        resampled,
        float(test.pvalue),
    )


def _resample(
    statistic: Any,
    columns: tuple[ArrayLike, ...],
    samples: int,
    seed: int,
) -> Doubles:
    """Return `statistic` of each resample (samples,), drawn from the rows of `columns` (n,)."""
    n = np.size(columns[0])
    rows = np.random.default_rng(seed).integers(
        0,
        n,
        (samples, n),
    )
    resamples = [np.asarray(column, np.float64)[rows] for column in columns]
    values: Doubles = statistic(*resamples)
    return values
