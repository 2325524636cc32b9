"""What similarities say ("Domain-adapted embeddings, evaluated"): τ(ψ), below which hits can be
left out (§2.2), and COE and ROE, how far correct and random ones reach above a query's top-K
(§2.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Difference, Interval
from engine.metrics.bootstrap import PAPER, Sampling, interval
from engine.metrics.bootstrap import SAMPLES as RESAMPLES
from engine.metrics.differences import paired_difference, with_needed
from engine.metrics.relevance import Floats

PERCENTILES = tuple(range(0, 101, 5))


@dataclass(frozen=True, slots=True)
class Threshold:
    """`similarity`: τ(ψ); `psi`: ψ in percent; `accuracy` and `unthresholded`: shares of queries
    that find an answer in their top K, with and without the threshold; `hidden`: share of the
    top-K hits that lie below it; `loss`: the difference of both, in percent.
    """

    similarity: float
    psi: float
    accuracy: float
    unthresholded: float
    hidden: float
    loss: Difference


def thresholds(
    top: ArrayLike, percentiles: Sequence[float] = PERCENTILES, sampling: Sampling = PAPER
) -> Floats:
    """τ(ψ) for each of `percentiles` ψ: of Γ = {γ_j}, γ_j the least of the top-K similarities
    `top` (q, K) in sample j.
    """
    best = np.asarray(top, dtype=np.float64)
    if best.ndim != 2 or not best.shape[1] or not np.isfinite(best).all():
        raise ValueError(
            "a threshold wants finite similarities (queries, K), not an array of shape"
            f" {best.shape}"
        )
    least = best.min(axis=1)[sampling.draw(len(best))].min(axis=1)
    found: Floats = np.percentile(least, list(percentiles))
    return found


def choose_threshold(
    top: ArrayLike,
    correct: ArrayLike,
    sampling: Sampling = PAPER,
    resamples: int = RESAMPLES,
    clusters: ArrayLike | None = None,
) -> Threshold:
    """The highest τ(ψ) at which the interval of top-K accuracy's loss, against no threshold,
    reaches 0.

    `top` (q, K) similarities, and `correct` (q, K), 1 where that hit is correct. Both accuracies
    are of the same
    queries: the paired bootstrap over all of them decides (95 %), which is stricter than the
        paper's two intervals.
    """
    best = np.asarray(top, dtype=np.float64)
    right = np.asarray(correct, dtype=bool)
    if best.shape != right.shape:
        raise ValueError(f"similarities {best.shape} and correctness {right.shape} do not fit")
    candidates = thresholds(best, PERCENTILES, sampling)
    plain = np.asarray(right.any(axis=1), dtype=np.float64)
    for psi, tau in sorted(zip(PERCENTILES, candidates.tolist(), strict=True), reverse=True):
        kept = np.asarray((right & (best >= tau)).any(axis=1), dtype=np.float64)
        loss = paired_difference(kept, plain, resamples, sampling.seed, clusters=clusters)
        if psi == 0 or not loss.harms:
            break
    loss = with_needed(loss.percent(), kept - plain, clusters)
    return Threshold(
        tau, float(psi), float(kept.mean()), float(plain.mean()), float((best < tau).mean()), loss
    )


def overlap(
    top: ArrayLike, correct: ArrayLike, random: ArrayLike, sampling: Sampling = PAPER
) -> tuple[Interval, Interval]:
    """COE and ROE, shares in [0, 1], with 95 % intervals over bootstrap samples of the queries.

    `top` (q, K): the similarities of each query's top K; `correct` (q,): with its correct chunk;
        `random` (q, n): with n
    random ones. The paper draws one for each of up to 981 questions; of fewer queries, one each
    says little: of 60, ROE came out between 8 % and 20 %, by the draw alone, where all chunks give
    10 %. θ_j is the ψ-th percentile of `top` in sample j; C(θ_j) = P(similarity > θ_j) is over all
    queries, eq. (1) and (2). ValueError where shapes do not fit or a number is not finite.
    """
    best, right, drawn = (np.asarray(array, dtype=np.float64) for array in (top, correct, random))
    if (
        best.ndim != 2
        or right.shape != best.shape[:1]
        or drawn.ndim != 2
        or len(drawn) != len(right)
    ):
        raise ValueError(
            f"similarities of shape {best.shape}, {right.shape} and {drawn.shape} do not fit"
        )
    if not all(np.isfinite(array).all() for array in (best, right, drawn)):
        raise ValueError("similarities hold NaN or infinity")
    theta: Floats = np.percentile(
        best[sampling.draw(len(best))].reshape(sampling.samples, -1), sampling.psi, axis=1
    )
    coe = _above(right, theta)
    roe = _above(drawn, theta)
    return interval(coe, coe), interval(roe, roe)


def _above(similarities: Floats, theta: Floats) -> Floats:
    """(m,) the share of all `similarities` that is above each of `theta` (m,)."""
    found: Floats = (
        1.0
        - np.searchsorted(np.sort(similarities, axis=None), theta, side="right") / similarities.size
    )
    return found
