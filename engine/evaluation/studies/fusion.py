"""How hybrid search fuses BM25 and the encoder in use: by RRF or by a weighted sum of min-max scores.

The rule. The equal-weight sum stays unless held-out queries show something better, because it was 2.6 and 3.0 points above RRF on
two data sets and 0.7 below it on a third (docs/log/hybrid-search.md). Of the weights of the grid the one nearest to one half is
taken that is not shown to be worse in nDCG@10 than the best of the others, by a test that knows that it is the best of several
(`best_of_p`): held-out queries differ from those to come in how much of the documents' wording they repeat, and an even mixture is
hurt least by that. RRF is taken where it is shown to be better than that sum (engine/metrics/differences.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.figures import Difference
from engine.metrics.bootstrap import CONFIDENCE, SAMPLES, bootstrap_means
from engine.metrics.power import tested_difference
from engine.metrics.randomisation import best_of_p

WEIGHTS = tuple(round(0.1 * step, 1) for step in range(1, 10))
EQUAL = 0.5
SET_BY_HAND = "Hybrid search fuses both rankings as project.toml says (search.fusion)."
MIN_QUERIES = 50
"""With fewer queries a weight is not tuned."""


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """`weight`: the semantic score's share in the weighted sum, also where RRF is taken (for comparison)."""

    method: Literal["rrf", "weighted"]
    weight: float
    reason: str

    @property
    def share(self) -> float | None:
        """The semantic score's share in hybrid search; None where RRF fuses."""
        return None if self.method == "rrf" else self.weight


def equal_weights(why: str) -> FusionChoice:
    """The equal-weight sum, because there is nothing to tune a weight on."""
    return FusionChoice(
        "weighted", EQUAL, f"Hybrid search adds the scores of BM25 and of the encoder in equal parts: {why}."
    )


def choose_fusion(
    rrf: ArrayLike, weighted: Mapping[float, ArrayLike], samples: int = SAMPLES, seed: int = 0
) -> FusionChoice:
    """Choose by per-query nDCG@10 (q,) in [0, 1] on held-out queries: of RRF, and of each weight's sum.

    Fewer than `MIN_QUERIES` queries: the equal-weight sum. ValueError when the arrays differ in length.
    """
    weights = sorted(weighted)
    values = np.stack([np.asarray(rrf, dtype=np.float64), *(np.asarray(weighted[w], np.float64) for w in weights)], 1)
    if len(values) < MIN_QUERIES:
        return equal_weights(
            f"{len(values)} held-out queries are too few to tune a weight on, {MIN_QUERIES} are needed"
        )
    means = bootstrap_means(values, samples, seed)  # (samples, 1 + weights)
    best = int(values[:, 1:].mean(0).argmax()) + 1
    from_equal = sorted(range(1, values.shape[1]), key=lambda column: (abs(weights[column - 1] - EQUAL), column))
    taken = next(
        column for column in from_equal if column == best or not _is_beaten(values[:, 1:], column - 1, samples, seed)
    )
    gain, weight, best_weight = _gap(values, means, taken, 0, seed), weights[taken - 1], weights[best - 1]
    why = f"of {len(weights)} weights tried on {len(values)} held-out queries, {best_weight:g} semantic is the best"
    if weight != best_weight:
        why += f", and {weight:g}, nearer to one half, is not shown to be worse"
    if gain.verdict == "worse":
        lead = format_points(_gap(values, means, 0, taken, seed))
        text = f"Hybrid search fuses both rankings by reciprocal rank fusion: better than the weighted sum by {lead}; {why}."
        return FusionChoice("rrf", weight, text)
    shown = "better than" if gain.verdict == "better" else "not shown to differ from"
    needed = "" if gain.verdict == "better" else gain.format_needed
    text = f"Hybrid search adds both scores, {weight:g} semantic and {1 - weight:g} BM25: {why}; {shown} reciprocal rank fusion, "
    return FusionChoice("weighted", weight, f"{text}{format_points(gain)}{needed}.")


def _is_beaten(values: NDArray[np.float64], column: int, samples: int, seed: int) -> bool:
    """Whether the best of the other columns of `values` (q, c) is shown to be better than this one."""
    others = np.delete(values, column, axis=1) - values[:, [column]]
    return best_of_p(others, samples, seed) <= (1 - CONFIDENCE) / 2


def _gap(values: NDArray[np.float64], means: NDArray[np.float64], one: int, other: int, seed: int) -> Difference:
    return tested_difference(values[:, one] - values[:, other], means[:, one] - means[:, other], len(means), seed)


def format_points(gap: Difference) -> str:
    """As a sentence has it: a difference in nDCG@10, its interval, and the p of the randomisation test."""
    return f"{gap.value:+.1f} points of nDCG@10 (95 % interval {gap.low:+.1f} to {gap.high:+.1f}, {gap.format_p})"
