"""The similarity below which hits can be left out: τ(ψ) ("Domain-adapted embeddings, evaluated", §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from engine.core.figures import Difference
from engine.metrics.bootstrap import SAMPLES as RESAMPLES
from engine.metrics.differences import paired_difference
from engine.metrics.power import with_needed
from engine.metrics.relevance import Floats
from engine.metrics.samples import PAPER, Sampling

PERCENTILES = tuple(range(0, 101, 5))


@dataclass(frozen=True, slots=True)
class Threshold:
    """`similarity`: τ(ψ); `psi`: ψ in percent; `accuracy` and `unthresholded`: shares of queries that find an answer in
    their top K, with and without the threshold; `hidden`: share of the top-K hits that lie below it; `loss`: the difference of
    both, in percent."""

    similarity: float
    psi: float
    accuracy: float
    unthresholded: float
    hidden: float
    loss: Difference


def thresholds(top: ArrayLike, percentiles: Sequence[float] = PERCENTILES, sampling: Sampling = PAPER) -> Floats:
    """τ(ψ) for each of `percentiles` ψ: of Γ = {γ_j}, γ_j the least of the top-K similarities `top` (q, K) in sample j."""
    best = np.asarray(top, dtype=np.float64)
    if best.ndim != 2 or not best.shape[1] or not np.isfinite(best).all():
        raise ValueError(f"a threshold wants finite similarities (queries, K), not an array of shape {best.shape}")
    least = best.min(axis=1)[sampling.draw(len(best))].min(axis=1)
    found: Floats = np.percentile(least, list(percentiles))
    return found


def choose_threshold(
    top: ArrayLike, correct: ArrayLike, sampling: Sampling = PAPER, resamples: int = RESAMPLES,
    clusters: ArrayLike | None = None,
) -> Threshold:  # fmt: skip
    """The highest τ(ψ) at which the interval of top-K accuracy's loss, against no threshold, reaches 0.

    `top` (q, K) similarities, and `correct` (q, K), 1 where that hit is correct. Both accuracies are of the same
    queries: the paired bootstrap over all of them decides (95 %), which is stricter than the paper's two intervals.
    """
    best, right = np.asarray(top, dtype=np.float64), np.asarray(correct, dtype=bool)
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
    return Threshold(tau, float(psi), float(kept.mean()), float(plain.mean()), float((best < tau).mean()), loss)
