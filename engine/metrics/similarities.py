"""Thresholds and overlap of similarities ("Domain-adapted embeddings, evaluated").

τ(ψ) is the similarity below which hits can be left out (§2.2); COE and ROE tell how far correct and
random similarities reach above a query's top K (§2.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.arrays import Doubles
from engine.core.figures import Difference, Interval
from engine.metrics.bootstrap import PAPER, Sampling, interval
from engine.metrics.bootstrap import SAMPLES as RESAMPLES
from engine.metrics.differences import add_needed, paired_difference

PERCENTILES = tuple(range(0, 101, 5))


@dataclass(frozen=True, slots=True)
class Threshold:
    """The threshold τ(ψ) and what it costs."""

    similarity: float
    """τ: hits below this similarity are left out."""
    psi: float
    """ψ in percent."""
    accuracy: float
    """Share of queries with an answer in their top K, with the threshold."""
    unthresholded: float
    """The same share without the threshold."""
    hidden: float
    """Share of top-K hits below the threshold."""
    loss: Difference
    """`accuracy` minus `unthresholded`, in percent."""


def thresholds(
    top: ArrayLike, percentiles: Sequence[float] = PERCENTILES, sampling: Sampling = PAPER
) -> Doubles:
    """Return τ(ψ) for each of the percentiles ψ.

    τ(ψ) is a percentile of Γ = {γ_j}, where γ_j is the least of the top-K similarities `top` (q, K)
    in sample j.
    """
    best = np.asarray(top, dtype=np.float64)
    if best.ndim != 2 or not best.shape[1] or not np.isfinite(best).all():
        wanted = "finite similarities (queries, K)"
        raise ValueError(f"a threshold wants {wanted}, not an array of shape {best.shape}")
    lowest = best.min(axis=1)
    gamma = lowest[sampling.draw(len(best))].min(axis=1)
    taus: Doubles = np.percentile(gamma, list(percentiles))
    return taus


def choose_threshold(
    top: ArrayLike,
    correct: ArrayLike,
    sampling: Sampling = PAPER,
    resamples: int = RESAMPLES,
    clusters: ArrayLike | None = None,
) -> Threshold:
    """Return the highest τ(ψ) whose loss of top-K accuracy has an interval that reaches 0.

    `top` (q, K) are similarities, `correct` (q, K) is 1 for correct hits. The accuracies with and
    without a threshold are compared on the same queries by the paired bootstrap (95 %), which is
    stricter than the paper's two separate intervals.
    """
    best = np.asarray(top, dtype=np.float64)
    is_correct = np.asarray(correct, dtype=bool)
    if best.shape != is_correct.shape:
        raise ValueError(f"similarities {best.shape} and correctness {is_correct.shape} do not fit")
    taus = thresholds(best, PERCENTILES, sampling).tolist()
    answered = is_correct.any(axis=1).astype(np.float64)  # (q,), without a threshold
    # From the highest threshold down to the first that costs no accuracy, or to τ(0).
    for psi, tau in sorted(zip(PERCENTILES, taus, strict=True), reverse=True):
        is_shown = is_correct & (best >= tau)
        still_answered = is_shown.any(axis=1).astype(np.float64)
        loss = paired_difference(
            still_answered, answered, resamples, sampling.seed, clusters=clusters
        )
        if psi == 0 or not loss.harms:
            break
    loss = add_needed(
        loss.percent(),
        still_answered - answered,
        clusters,
    )
    hidden = float((best < tau).mean())
    return Threshold(
        similarity=tau,
        psi=float(psi),
        accuracy=float(still_answered.mean()),
        unthresholded=float(answered.mean()),
        hidden=hidden,
        loss=loss,
    )


def overlap(
    top: ArrayLike, correct: ArrayLike, random: ArrayLike, sampling: Sampling = PAPER
) -> tuple[Interval, Interval]:
    """Return COE and ROE, shares in [0, 1], with 95 % intervals over bootstrap samples.

    `top` (q, K) are the similarities of each query's top K, `correct` (q,) those with its correct
    chunk, `random` (q, n) those with n random chunks. θ_j is the ψ-th percentile of `top` in sample
    j; C(θ_j) = P(similarity > θ_j) is over all queries, eq. (1) and (2). Raises ValueError if
    shapes do not fit or a number is not finite.

    The paper draws n = 1 random chunk for each of up to 981 questions. With fewer queries, n should
    be larger: with 60 queries and n = 1, ROE varied between 8 % and 20 % by chance, while it was
    10 % with all chunks.
    """
    best = np.asarray(top, dtype=np.float64)
    right = np.asarray(correct, dtype=np.float64)
    other = np.asarray(random, dtype=np.float64)
    fits = right.shape == best.shape[:1] and len(other) == len(right)
    if best.ndim != 2 or other.ndim != 2 or not fits:
        raise ValueError(
            f"similarities of shape {best.shape}, {right.shape} and {other.shape} do not fit"
        )
    for similarities in (best, right, other):
        if not np.isfinite(similarities).all():
            raise ValueError("similarities hold NaN or infinity")
    samples = best[sampling.draw(len(best))]  # (m, l, K)
    theta: Doubles = np.percentile(
        samples,
        sampling.psi,
        axis=(1, 2),
    )
    coe = _share_above(right, theta)
    roe = _share_above(other, theta)
    return interval(coe, coe), interval(roe, roe)


def _share_above(similarities: Doubles, theta: Doubles) -> Doubles:
    """Return the share of all similarities above each of `theta` (m,)."""
    ordered = np.sort(similarities, axis=None)
    up_to = np.searchsorted(
        ordered,
        theta,
        side="right",
    )
    shares: Doubles = 1.0 - up_to / similarities.size
    return shares
