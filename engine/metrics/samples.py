"""Bootstrap samples of a fixed size, as the evaluation of domain-adapted embeddings draws them.

Source: "Domain-adapted embeddings, evaluated", §2 and §3: m = 500 samples of l = 100 questions with replacement. They
are smaller than the paper's query sets, so that data sets of any size have intervals of the same meaning. Of fewer queries than l
samples are as large as the set (`draw_fitting`): larger ones would make the interval narrower than so few queries allow. To compare
two systems use the paired bootstrap over all queries (`engine.metrics.bootstrap`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Interval
from engine.metrics.bootstrap import CONFIDENCE
from engine.metrics.relevance import Floats, Ints

SAMPLES = 500
SIZE = 100


@dataclass(frozen=True, slots=True)
class Sampling:
    """A query's best `top` (K) chunks, `samples` (m) of `size` (l) queries, and ψ of COE and ROE in percent, which the paper leaves
    open; its tables, whose COE lies above the accuracy, need a low one."""

    top: int = 5
    samples: int = SAMPLES
    size: int = SIZE
    psi: float = 5.0
    seed: int = 0


PAPER = Sampling()


def draw(count: int, samples: int = SAMPLES, size: int = SIZE, seed: int = 0) -> Ints:
    """(samples, size) row numbers below `count`, drawn with replacement. ValueError where a number is below 1."""
    if min(count, samples, size) < 1:
        raise ValueError(f"{samples} samples of {size} cannot be drawn from {count} queries")
    return np.random.default_rng(seed).integers(0, count, size=(samples, size))


def draw_fitting(count: int, samples: int = SAMPLES, size: int = SIZE, seed: int = 0) -> Ints:
    """(samples, min(size, count)) row numbers, as `draw` draws them."""
    return draw(count, samples, min(size, count), seed)


def percentile_interval(values: Floats) -> Interval:
    """Mean of a figure over its samples (m,), with the 2.5th and 97.5th percentile."""
    tail = 50 * (1 - CONFIDENCE)
    low, high = np.percentile(values, [tail, 100 - tail])
    return Interval(float(values.mean()), float(low), float(high))


def bootstrapped_mean(values: ArrayLike, samples: int = SAMPLES, size: int = SIZE, seed: int = 0) -> Interval:
    """a = 1/m Σ_j a_j, a_j the mean of sample j's queries; its 2.5th and 97.5th percentile (§2.1; of nDCG: appendix A.5).

    `values` (q,): bootstrapped accuracy of what `hit_at_k` gives, bootstrapped nDCG of `ndcg_at_k`. Of fewer queries than `size`,
    samples are as many as these.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or not np.isfinite(rows).all():
        raise ValueError(f"a mean wants one number for each query, not an array of shape {rows.shape}")
    return percentile_interval(rows[draw_fitting(len(rows), samples, size, seed)].mean(axis=1))
