"""Whether one system is better than another on the same queries: the paired bootstrap and the
randomisation test, both.

The percentile interval alone says "better" as soon as four queries differ, of however many, and
errs in 8 % to 14 % of comparisons by six to twenty queries that show no difference at all. Fisher's
test is exact for any number, but knows no size. A claim wants both; what guards against harm wants
the interval alone (`harms`), since there the absence of proof would be the licence.

How many queries a claim would need: Sakai 2016, "Statistical reform in information retrieval"
(power of paired tests).
"""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Difference, Verdict
from engine.metrics.bootstrap import CONFIDENCE, SAMPLES, bootstrap_means, bounds, cluster_sums
from engine.metrics.randomisation import randomisation_p
from engine.metrics.relevance import Floats

POWER = 0.8
MIN_QUERIES = 6
"""With fewer no verdict can come out: five queries that all agree have p = 2 · ½⁵ = 6 %, six
have 3 %.
"""
MIN_FOR_SPREAD = 20
"""Queries without which nothing is said of how much they vary, and so of how many would be
needed.
"""


def paired_difference(
    a: ArrayLike,
    b: ArrayLike,
    samples: int = SAMPLES,
    seed: int = 0,
    clusters: ArrayLike | None = None,
) -> Difference:
    """Mean of a - b over the same n queries, with the verdict of `difference`.

    `a`, `b`: (n,) per-query values in the same order; `clusters` (n,): which of them belong
    together. ValueError for empty, NaN or differently long input.
    """
    gap = np.subtract(a, b, dtype=np.float64)[:, None]
    p_value = float(randomisation_p(gap, samples, seed, clusters)[0])
    return difference(
        float(gap.mean()), bootstrap_means(gap, samples, seed, clusters)[:, 0], p_value
    )


def difference(value: float, resampled: Floats, p_value: float) -> Difference:
    """The verdict on any figure: its observed difference, those of the bootstrap's resamples
    (samples,), and p of the randomisation test. `better` or `worse` where the interval excludes
    0 and `p_value` is at most 1 − `CONFIDENCE`.
    """
    low, high = bounds(resampled)
    ahead = float(np.mean(resampled > 0) + 0.5 * np.mean(resampled == 0))
    shown = p_value <= 1 - CONFIDENCE + 1e-12
    verdict: Verdict = (
        "better" if shown and low > 0 else "worse" if shown and high < 0 else "no difference shown"
    )
    return Difference(value, low, high, ahead, verdict, p_value)


def queries_needed(gap: ArrayLike, clusters: ArrayLike | None = None) -> int | None:
    """Queries at which a difference as large as the mean of `gap` (n,) would be shown with
    probability `POWER`.

    The mean of N differences is about normal with standard error s/√N, s the `spread` of the
    observed ones. It is shown where it lies z(1 − α/2) standard errors from 0, α = 1 −
    `CONFIDENCE`. If the true difference is the observed d, that happens with that probability when
    d √N / s = z(1 − α/2) + z(power), so N = ((z(1 − α/2) + z(power)) s / d)² = 7.85 (s/d)². None
    where d is 0 or there are fewer than two queries: nothing can be said then.
    """
    values = np.asarray(gap, dtype=np.float64)
    if len(values):
        mean = abs(float(values.mean()))
    else:
        mean = 0.0
    if len(values) < 2 or mean < 1e-12:
        return None
    return queries_to_show(mean, spread(values, clusters))


def spread(gap: Floats, clusters: ArrayLike | None = None) -> float:
    """Standard deviation s of per-query differences (n,), times the root of the design effect of
    their `clusters` (n,), if that is above 1 (Kish 1965): √(k / (k − 1) · Σ_c (Σ_{q∈c} (g_q −
    ḡ))² / n) of k clusters, so that the mean's standard error is s/√n.
    """
    alone = float(gap.std(ddof=1))
    sums, _ = cluster_sums((gap - gap.mean())[:, None], clusters)
    count = len(sums)
    if count in (1, len(gap)):  # one says nothing of how much clusters vary
        return alone
    return max(alone, math.sqrt(count / (count - 1) * float((sums**2).sum()) / len(gap)))


def queries_to_show(gain: float, deviation: float) -> int:
    """As `queries_needed`, of a `gain` above 0; `deviation` is the `spread` of per-query
    differences, in the same unit.
    """
    normal = NormalDist()
    reach = normal.inv_cdf((1 + CONFIDENCE) / 2) + normal.inv_cdf(POWER)
    return max(MIN_QUERIES, math.ceil((reach * deviation / gain) ** 2))


def with_needed(found: Difference, gap: ArrayLike, clusters: ArrayLike | None = None) -> Difference:
    """`found`, the difference that per-query `gap` (n,) gave, with the queries needed where no
    difference is shown: more than n, whatever the normal mean says, since the randomisation test
    did not show it with n. Fewer than `MIN_FOR_SPREAD` say nothing of it.
    """
    says = found.verdict == "no difference shown" and np.size(gap) >= MIN_FOR_SPREAD
    if says:
        needed = queries_needed(gap, clusters=clusters)
    else:
        needed = None
    if needed is None:
        return found
    return replace(found, needed=max(np.size(gap) + 1, needed))


def tested_difference(
    gap: Floats, means: Floats, p_value: float, clusters: ArrayLike | None
) -> Difference:
    """The difference of per-query `gap` (n,) in percent, by its bootstrap `means` (samples,),
    with queries needed.
    """
    return with_needed(difference(float(gap.mean()), means, p_value).percent(), gap, clusters)


def with_needed_pairs(found: Difference, count: int) -> Difference:
    """`found`, a difference of any figure of `count` items, with the items needed where no
    difference is shown.

    The standard error, (high − low) / (2 z(1 − α/2)), falls with √N, so N = count · ((z(1 − α/2) +
    z(power)) · error / d)².
    """
    if found.verdict != "no difference shown" or abs(found.value) < 1e-12:
        return found
    normal = NormalDist()
    wide = normal.inv_cdf((1 + CONFIDENCE) / 2)
    error = (found.high - found.low) / (2 * wide)
    return replace(
        found,
        needed=max(
            count + 1,
            math.ceil(count * ((wide + normal.inv_cdf(POWER)) * error / found.value) ** 2),
        ),
    )
