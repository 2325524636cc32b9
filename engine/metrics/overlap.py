"""COE and ROE: how far correct and random similarities reach above a query's top-K ("… evaluated", §2.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Interval
from engine.metrics.relevance import Floats
from engine.metrics.samples import PAPER, Sampling, percentile_interval


def overlap(
    top: ArrayLike, correct: ArrayLike, random: ArrayLike, sampling: Sampling = PAPER
) -> tuple[Interval, Interval]:
    """COE and ROE, shares in [0, 1], with 95 % intervals over bootstrap samples of the queries.

    `top` (q, K): the similarities of each query's top K; `correct` (q,): with its correct chunk; `random` (q, n): with n
    random ones. The paper draws one for each of up to 981 questions; of fewer queries, one each says little: of 60, ROE came out
    between 8 % and 20 %, by the draw alone, where all chunks give 10 %.
    θ_j is the ψ-th percentile of `top` in sample j; C(θ_j) = P(similarity > θ_j) is over all queries, eq. (1) and (2).
    ValueError where shapes do not fit or a number is not finite.
    """
    best, right, drawn = (np.asarray(array, dtype=np.float64) for array in (top, correct, random))
    if best.ndim != 2 or right.shape != best.shape[:1] or drawn.ndim != 2 or len(drawn) != len(right):
        raise ValueError(f"similarities of shape {best.shape}, {right.shape} and {drawn.shape} do not fit")
    if not all(np.isfinite(array).all() for array in (best, right, drawn)):
        raise ValueError("similarities hold NaN or infinity")
    theta: Floats = np.percentile(best[sampling.draw(len(best))].reshape(sampling.samples, -1), sampling.psi, axis=1)
    return percentile_interval(_above(right, theta)), percentile_interval(_above(drawn, theta))


def _above(similarities: Floats, theta: Floats) -> Floats:
    """(m,) the share of all `similarities` that is above each of `theta` (m,)."""
    found: Floats = 1.0 - np.searchsorted(np.sort(similarities, axis=None), theta, side="right") / similarities.size
    return found
