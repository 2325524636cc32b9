"""Bootstrap samples of a fixed size, as the evaluation of domain-adapted embeddings draws them.

Source: "Domain-adapted embeddings, evaluated", §2 and §3: m = 500 samples of l = 100 questions with replacement. They
are smaller than the paper's query sets, so that data sets of any size have intervals of the same meaning. Of fewer queries than l
samples are as large as the set: larger ones would make the interval narrower than so few queries allow. To compare two systems
use the paired bootstrap over all queries (`engine.metrics.bootstrap`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Interval
from engine.metrics.bootstrap import bounds
from engine.metrics.relevance import Floats, Ints


@dataclass(frozen=True, slots=True)
class Sampling:
    """A query's best `top` (K) chunks, `samples` (m) of `size` (l) queries, and ψ of COE and ROE in percent, which the paper leaves
    open; its tables, whose COE lies above the accuracy, need a low one."""

    top: int = 5
    samples: int = 500
    size: int = 100
    psi: float = 5.0
    seed: int = 0

    def draw(self, count: int) -> Ints:
        """(m, min(l, count)) row numbers below `count`, drawn with replacement. ValueError where a number is below 1."""
        if min(count, self.samples, self.size) < 1:
            raise ValueError(f"{self.samples} samples of {self.size} cannot be drawn from {count} queries")
        return np.random.default_rng(self.seed).integers(0, count, size=(self.samples, min(self.size, count)))


PAPER = Sampling()


def percentile_interval(values: Floats) -> Interval:
    """Mean of a figure over its samples (m,), with the 2.5th and 97.5th percentile."""
    return Interval(float(values.mean()), *bounds(values))


def bootstrapped_mean(values: ArrayLike, sampling: Sampling = PAPER) -> Interval:
    """a = 1/m Σ_j a_j, a_j the mean of sample j's queries; its 2.5th and 97.5th percentile (§2.1; of nDCG: appendix A.5).

    `values` (q,): bootstrapped accuracy of what `hit_at_k` gives, bootstrapped nDCG of `ndcg_at_k`.
    """
    rows = np.asarray(values, dtype=np.float64)
    if rows.ndim != 1 or not np.isfinite(rows).all():
        raise ValueError(f"a mean wants one number for each query, not an array of shape {rows.shape}")
    return percentile_interval(rows[sampling.draw(len(rows))].mean(axis=1))
