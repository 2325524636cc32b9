"""Bootstrapped top-K accuracy ("Domain-adapted embeddings, evaluated", §2.1)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.bootstrap import Interval
from engine.metrics.samples import SAMPLES, SIZE, draw_fitting, percentile_interval


def bootstrapped_accuracy(found: ArrayLike, samples: int = SAMPLES, size: int = SIZE, seed: int = 0) -> Interval:
    """a = 1/m Σ_j a_j, a_j the share of sample j's queries that found an answer; its 2.5th and 97.5th percentile.

    `found` (q,): 1 where the top K of a query hold a correct chunk, else 0, as `hit_at_k` gives it. Of fewer queries than `size`,
    samples are as many as these.
    """
    values = np.asarray(found, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ValueError(f"accuracy wants one number for each query, not an array of shape {values.shape}")
    return percentile_interval(values[draw_fitting(len(values), samples, size, seed)].mean(axis=1))
