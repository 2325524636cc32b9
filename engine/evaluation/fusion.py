"""How hybrid search joins BM25 and the served encoder: by RRF or by a weighted sum of min-max scores.

The rule. Every weight of the grid is measured on held-out queries, paired with RRF. Where the best one's 95 % interval
of its nDCG@10 minus RRF's lies above 0, the weighted sum is taken, at the weight nearest to one half that is not shown to
be worse than the best (95 %): held-out queries differ from those to come in how much of the documents' wording they
repeat, and an even mixture is hurt least by that. Otherwise RRF is taken. Where nothing can be tuned, it is the even
sum, which was 0.7 below RRF on one data set and 2.6 and 3.0 above it on two others (docs/LOG.md, "Joining the
rankings").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.metrics import Difference, bootstrap_means, with_needed
from engine.metrics.bootstrap import SAMPLES, difference

WEIGHTS = tuple(round(0.1 * step, 1) for step in range(1, 10))
EVEN = 0.5
SET_BY_HAND = "Hybrid search joins both rankings as project.toml says (search.fusion)."
LEAST_QUERIES = 50
"""With fewer queries a weight is not tuned."""


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """`weight`: the semantic score's share in the weighted sum, also where RRF is taken (for comparison)."""

    method: Literal["rrf", "weighted"]
    weight: float
    reason: str

    @property
    def share(self) -> float | None:
        """The semantic score's share in hybrid search; None where RRF joins."""
        return None if self.method == "rrf" else self.weight

    def as_dict(self) -> dict[str, Any]:
        """For the artifact and the report."""
        return {"method": self.method, "weight": self.weight, "reason": self.reason}


def not_tuned(why: str) -> FusionChoice:
    """The even sum, because there is nothing to tune a weight on."""
    return FusionChoice(
        "weighted", EVEN, f"Hybrid search adds the scores of BM25 and of the encoder in equal parts: {why}."
    )


def choose_fusion(
    rrf: ArrayLike, weighted: Mapping[float, ArrayLike], samples: int = SAMPLES, seed: int = 0
) -> FusionChoice:
    """Choose by per-query nDCG@10 (q,) in [0, 1] on held-out queries: of RRF, and of each weight's sum.

    Fewer than `LEAST_QUERIES` queries: the even sum. ValueError when the arrays differ in length.
    """
    weights = sorted(weighted)
    values = np.stack([np.asarray(rrf, dtype=np.float64), *(np.asarray(weighted[w], np.float64) for w in weights)], 1)
    if len(values) < LEAST_QUERIES:
        return not_tuned(f"{len(values)} held-out queries are too few to tune a weight on, {LEAST_QUERIES} are needed")
    means = bootstrap_means(values, samples, seed)  # (samples, 1 + weights)
    best = int(values[:, 1:].mean(0).argmax()) + 1
    gain = _gap(values, means, best, 0)
    if gain.low <= 0:
        return FusionChoice("rrf", EVEN, _no_gain(weights[best - 1], gain, len(values)))
    near = [column for column in range(1, values.shape[1]) if _gap(values, means, best, column).low <= 0]
    taken = min(near, key=lambda column: (abs(weights[column - 1] - EVEN), column))
    return FusionChoice(
        "weighted", weights[taken - 1], _gained(weights, taken, best, _gap(values, means, taken, 0), len(values))
    )


def _gap(values: NDArray[np.float64], means: NDArray[np.float64], one: int, other: int) -> Difference:
    gap = values[:, one] - values[:, other]
    return with_needed(difference(gap, means[:, one] - means[:, other]).percent(), gap)


def _no_gain(weight: float, gap: Difference, queries: int) -> str:
    return (
        f"Hybrid search joins both rankings by reciprocal rank fusion, because no weighted sum is shown to be better on {queries} "
        f"held-out queries: the best, {weight:g} semantic, differs by {gap.value:+.1f} points of nDCG@10 (95 % interval "
        f"{gap.low:+.1f} to {gap.high:+.1f}){gap.told_needed}."
    )


def _gained(weights: list[float], taken: int, best: int, gap: Difference, queries: int) -> str:
    text = (
        f"Hybrid search adds both scores, {weights[taken - 1]:g} semantic and {1 - weights[taken - 1]:g} BM25: on {queries} "
        f"held-out queries that is better than reciprocal rank fusion by {gap.value:.1f} points of nDCG@10 (95 % interval "
        f"{gap.low:.1f} to {gap.high:.1f})."
    )
    if taken != best:
        text += f" {weights[best - 1]:g} is best there, but not shown to be better; the more even mixture is preferred."
    return text
