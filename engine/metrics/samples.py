"""Bootstrap samples of a fixed size, as the evaluation of domain-adapted embeddings draws them.

Source: "Domain-adapted embeddings, evaluated", §2 and §3: m = 500 samples of l = 100 questions with replacement. They
are smaller than the paper's query sets, so that data sets of any size have intervals of the same meaning. Of fewer queries than l
samples are as large as the set (`draw_fitting`): larger ones would make the interval narrower than so few queries allow. To compare
two systems use the paired bootstrap over all queries (`engine.metrics.bootstrap`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Interval
from engine.metrics.bootstrap import CONFIDENCE
from engine.metrics.relevance import Floats, Ints

SAMPLES = 500
SIZE = 100


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


def bootstrapped_accuracy(found: ArrayLike, samples: int = SAMPLES, size: int = SIZE, seed: int = 0) -> Interval:
    """a = 1/m Σ_j a_j, a_j the share of sample j's queries that found an answer; its 2.5th and 97.5th percentile.

    `found` (q,): 1 where the top K of a query hold a correct chunk, else 0, as `hit_at_k` gives it. Of fewer queries than `size`,
    samples are as many as these.
    """
    values = np.asarray(found, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"accuracy wants one number for each query, not an array of shape {values.shape}")
    return percentile_interval(values[draw_fitting(len(values), samples, size, seed)].mean(axis=1))
