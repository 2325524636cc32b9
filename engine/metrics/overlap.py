"""COE and ROE: how far correct and random similarities reach above a query's top-K ("… evaluated", §2.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Interval
from engine.metrics.samples import SAMPLES, SIZE, draw_fitting, percentile_interval

PSI = 5.0
"""The paper leaves ψ open for COE and ROE; its tables, whose COE lies above the accuracy, need a low percentile."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """`coe`: correct-overlap ECDF, P(correct similarity > θ); `roe`: random-overlap ECDF. Shares in [0, 1]."""

    coe: Interval
    roe: Interval


def overlap(
    top: ArrayLike, correct: ArrayLike, random: ArrayLike, psi: float = PSI,
    samples: int = SAMPLES, size: int = SIZE, seed: int = 0,
) -> Overlap:  # fmt: skip
    """COE and ROE with 95 % intervals over bootstrap samples of the queries.

    `top` (q, K): the similarities of each query's top K; `correct` (q,): with its correct chunk; `random` (q, n): with n
    random ones. The paper draws one for each of up to 981 questions; of fewer queries, one each says little: of 60, ROE came out
    between 8 % and 20 %, by the draw alone, where all chunks give 10 %. Of fewer queries than `size`, samples are as many as these.
    θ_j is the `psi`-th percentile of `top` in sample j; both probabilities are of the same sample, so that
    the intervals hold all of the sampling error. ValueError where shapes do not fit or a number is not finite.
    """
    best, right, drawn = (np.asarray(array, dtype=np.float64) for array in (top, correct, random))
    if best.ndim != 2 or right.shape != best.shape[:1] or drawn.ndim != 2 or len(drawn) != len(right):
        raise ValueError(f"similarities of shape {best.shape}, {right.shape} and {drawn.shape} do not fit")
    if not all(np.isfinite(array).all() for array in (best, right, drawn)):
        raise ValueError("similarities hold NaN or infinity")
    rows = draw_fitting(len(best), samples, size, seed)
    theta = np.percentile(best[rows].reshape(samples, -1), psi, axis=1)[:, None]
    above = (drawn[rows] > theta[:, :, None]).mean(axis=(1, 2))
    return Overlap(percentile_interval((right[rows] > theta).mean(axis=1)), percentile_interval(above))
