"""Whether one system is better than another on the same queries, by two tests together.

Needed numbers of queries: Sakai 2016, "Statistical reform in information retrieval" (power of
paired tests).
"""

# The percentile interval alone says "better" as soon as four queries differ, however many there
# are. With six to twenty queries and two equal systems, it is wrong in 8 % to 14 % of comparisons.
# Fisher's randomisation test is exact for any number of queries, but does not tell how large the
# difference is. So a claim needs both. A guard against harm (`harms`) looks at the interval alone:
# if it asked for proof by the test as well, it would let harm pass that is not yet proven.

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles
from engine.core.figures import Difference, Verdict
from engine.metrics.bootstrap import CONFIDENCE, SAMPLES, bootstrap_means, bounds, cluster_sums
from engine.metrics.randomisation import randomisation_p

POWER = 0.8
"""Probability with which the needed number of queries shows a true difference."""
# Half the width of the interval, in standard errors: 1.96.
_Z_INTERVAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
# How many standard errors from 0 a true difference must lie to be shown with `POWER`: 2.80.
_Z_SHOWN = _Z_INTERVAL + NormalDist().inv_cdf(POWER)
MIN_QUERIES = 6
"""Minimum number of queries for a verdict.

Five queries that all agree have p = 2 · ½⁵ = 6 %, six have 3 %.
"""
MIN_FOR_SPREAD = 20
"""Minimum number of queries from which to estimate how much they vary and how many are needed."""


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    samples: int = SAMPLES,
    seed: int = 0,
    clusters: ArrayLike | None = None,
) -> Difference:
    """Return the mean of a - b over the same n queries, with the verdict of `difference`.

    `a`, `b` (n,) are per-query values in the same order; queries with the same number in `clusters`
    (n,) belong together. Raises ValueError for empty, NaN or differently long input.
    """
    gap = np.subtract(a, b, dtype=np.float64)[:, None]
    p_value = float(randomisation_p(gap, samples, seed, clusters)[0])
    means = bootstrap_means(gap, samples, seed, clusters)[:, 0]
    return difference(
        float(gap.mean()),
        means,
        p_value,
    )


def difference(
    value: float,
    resampled: Doubles,
    p_value: float,
) -> Difference:
    """Return the difference of two systems in any figure, with its verdict.

    `value` is the observed difference, `resampled` (samples,) are the differences in the bootstrap,
    `p_value` is that of the randomisation test. The verdict is `better` or `worse` if the interval
    excludes 0 and p is at most 1 − `CONFIDENCE`.
    """
    low, high = bounds(resampled)
    # A tie counts half for each system.
    p_better = float(np.mean(resampled > 0) + 0.5 * np.mean(resampled == 0))
    verdict: Verdict = "no difference shown"
    if p_value <= 1 - CONFIDENCE + 1e-12:
        if low > 0:
            verdict = "better"
        elif high < 0:
            verdict = "worse"
    return Difference(
        value=value, low=low, high=high, p_better=p_better, verdict=verdict, p_value=p_value
    )


def queries_needed(gap: ArrayLike, clusters: ArrayLike | None = None) -> int | None:
    """Return how many queries would show a difference like the mean d of `gap` (n,).

    N queries show the difference if their mean lies z(1 − α/2) standard errors from 0, with
    α = 1 − `CONFIDENCE`. The mean is about normal with standard error s/√N, where s is the `spread`
    of `gap`. If the true difference is d, it is shown with probability `POWER` when
    d √N / s = z(1 − α/2) + z(power), so N = ((z(1 − α/2) + z(power)) s / d)² = 7.85 (s/d)².
    Returns None if d is 0 or there are fewer than two queries.
    """
    values = np.asarray(gap, dtype=np.float64)
    if len(values) < 2:
        return None
    mean = abs(float(values.mean()))
    if mean < 1e-12:
        return None
    return queries_to_show(mean, spread(values, clusters))


def spread(gap: Doubles, clusters: ArrayLike | None = None) -> float:
    """Return the s of per-query differences `gap` (n,) for which s/√n is the mean's standard error.

    s is the standard deviation. If queries of one of k `clusters` (n,) behave alike, s is larger:
    √(k / (k − 1) · Σ_c (Σ_{q∈c} (g_q − ḡ))² / n), by the design effect (Kish 1965).
    """
    deviation = float(gap.std(ddof=1))
    centred = gap - gap.mean()
    sums, _ = cluster_sums(centred[:, None], clusters)
    k = len(sums)
    # A single cluster does not tell how much clusters vary.
    if k in (1, len(gap)):
        return deviation
    between = k / (k - 1) * float((sums**2).sum()) / len(gap)
    return max(deviation, math.sqrt(between))


def queries_to_show(gain: float, deviation: float) -> int:
    """Return how many queries would show a `gain` above 0; the formula is in `queries_needed`.

    `deviation` is the `spread` of per-query differences, in the unit of `gain`.
    """
    needed = (_Z_SHOWN * deviation / gain) ** 2
    return max(MIN_QUERIES, math.ceil(needed))


def add_needed(
    measured: Difference,
    gap: ArrayLike,
    clusters: ArrayLike | None = None,
    min_queries: int = MIN_FOR_SPREAD,
) -> Difference:
    """Return `measured` with the number of queries needed, if no difference is shown.

    `gap` (n,) are the per-query differences behind `measured`. Fewer than `min_queries` queries
    allow no estimate, nor do n that should have shown the difference: few clusters, for instance.
    """
    count = np.size(gap)
    if measured.verdict != "no difference shown" or count < min_queries:
        return measured
    needed = queries_needed(gap, clusters=clusters)
    if needed is None or needed <= count:
        return measured
    return replace(measured, needed=needed)


def tested_difference(
    gap: Doubles, means: Doubles, p_value: float, clusters: ArrayLike | None
) -> Difference:
    """Return the mean of per-query `gap` (n,) as a difference in percent, with the queries needed.

    `gap` is a difference of shares, from −1 to 1. `means` (samples,) are its bootstrap means,
    `p_value` is that of the randomisation test.
    """
    measured = difference(float(gap.mean()), means, p_value).percent()
    return add_needed(measured, gap, clusters)


def add_needed_pairs(measured: Difference, count: int) -> Difference:
    """Return `measured`, a difference over `count` items, with the items needed if none is shown.

    Only the interval is known: its standard error (high − low) / (2 z(1 − α/2)) falls with √N, so
    N = count · ((z(1 − α/2) + z(power)) · error / d)².
    """
    if measured.verdict != "no difference shown" or abs(measured.value) < 1e-12:
        return measured
    error = (measured.high - measured.low) / (2 * _Z_INTERVAL)
    ratio = _Z_SHOWN * error / measured.value
    needed = math.ceil(count * ratio**2)
    if needed <= count:  # such as with an interval that is wide on one side of the value only
        return measured
    return replace(measured, needed=needed)
