"""Whether one system is better than another on the same queries: the paired bootstrap and the randomisation test, both.

The percentile interval alone says "better" as soon as four queries differ, of however many, and errs in 8 % to 14 % of comparisons
by six to twenty queries that show no difference at all. Fisher's test is exact for any number, but knows no size. A claim wants
both; what guards against harm wants the interval alone (`harms`), since there the absence of proof would be the licence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Difference, Verdict
from engine.metrics.bootstrap import CONFIDENCE, SAMPLES, bootstrap_means, bounds
from engine.metrics.randomisation import randomisation_p
from engine.metrics.relevance import Floats

MIN_QUERIES = 6
"""With fewer no verdict can come out: five queries that all agree have p = 2 · ½⁵ = 6 %, six have 3 %."""


def paired_difference(
    a: ArrayLike, b: ArrayLike, samples: int = SAMPLES, seed: int = 0, clusters: ArrayLike | None = None
) -> Difference:
    """Mean of a - b over the same n queries, with the verdict of `difference`.

    `a`, `b`: (n,) per-query values in the same order; `clusters` (n,): which of them belong together. ValueError for empty, NaN or
    differently long input.
    """
    gap = np.subtract(a, b, dtype=np.float64)[:, None]
    p_value = float(randomisation_p(gap, samples, seed, clusters)[0])
    return difference(float(gap.mean()), bootstrap_means(gap, samples, seed, clusters)[:, 0], p_value)


def difference(value: float, resampled: Floats, p_value: float) -> Difference:
    """The verdict on any figure: its observed difference, those of the bootstrap's resamples (samples,), and p of the randomisation
    test. `better` or `worse` where the interval excludes 0 and `p_value` is at most 1 − `CONFIDENCE`."""
    low, high = bounds(resampled)
    ahead = float(np.mean(resampled > 0) + 0.5 * np.mean(resampled == 0))
    shown = p_value <= 1 - CONFIDENCE + 1e-12
    verdict: Verdict = "better" if shown and low > 0 else "worse" if shown and high < 0 else "no difference shown"
    return Difference(value, low, high, ahead, verdict, p_value)
