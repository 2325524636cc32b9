"""How hybrid search fuses BM25 and the encoder in use: by RRF or by a weighted sum of min-max scores.

The equal-weight sum is the default, because it was 2.6 and 3.0 points above RRF on two data sets and 0.7 below it on a third. An
encoder that was not trained on the documents' language has a tenth of the say (docs/log/hybrid-search.md). Another share, or RRF,
comes into use only where judged questions show by the gate that it is better (engine/evaluation/gate.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.systems import BM25
from engine.encoders.choosing.languages import knows
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.gate import Decision, verdict
from engine.evaluation.query_sets import QuerySet
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import LexicalInfo
from engine.settings.schema import Settings

EQUAL = 0.5
FOREIGN = 0.1
SHARES = tuple(round(0.1 * step, 1) for step in range(1, 10))
FUSIONS: dict[str, float | None] = {f"weighted {share:g}": share for share in SHARES} | {"rrf": None}
"""Name → the semantic score's share in a weighted sum; None for RRF."""


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """`weight`: the semantic score's share in the weighted sum, also where RRF is taken (for comparison)."""

    method: Literal["rrf", "weighted"]
    weight: float
    reason: str
    decision: Decision | None = None

    @property
    def share(self) -> float | None:
        """The semantic score's share in hybrid search; None where RRF fuses."""
        return None if self.method == "rrf" else self.weight


def default_share(snapshot: ProjectSnapshot) -> float | None:
    """The semantic score's share in hybrid search while nothing is chosen; None for RRF. NotBuiltError before the stage `index`."""
    settings, language = snapshot.settings, snapshot.need(LexicalInfo).info.language
    auto = EQUAL if knows(encoder_source(settings.encoder), language) else FOREIGN
    return {"auto": auto, "weighted": settings.search.weight, "rrf": None}[settings.search.fusion]


def nearest_first(share: float) -> list[str]:
    """The names of `FUSIONS`: that of a share, then those most like it, RRF last."""
    shares = sorted(SHARES, key=lambda other: (round(abs(other - share), 1), other))
    return [*(f"weighted {one:g}" for one in shares), "rrf"]


def fusion_of(decision: Decision, mode: str) -> FusionChoice:
    """The fusion that the gate has chosen among `FUSIONS`."""
    share, kept = FUSIONS[decision.chosen], "The equal-weight sum of both scores"
    if foreign := FUSIONS[decision.reference] == FOREIGN:
        kept = f"The sum of {weighted_label(FOREIGN)}"
    reason = (
        verdict(decision, kept, mode, fusion_label)
        if decision.candidates
        else f"{kept} is in use: only judged questions could show that another is better."
    )
    if foreign:
        reason = f"The encoder was not trained on the language of these documents. {reason}"
    return FusionChoice("rrf" if share is None else "weighted", EQUAL if share is None else share, reason, decision)


def fusion_label(name: str) -> str:
    """How a sentence calls one of `FUSIONS`."""
    share = FUSIONS[name]
    return "reciprocal rank fusion" if share is None else f"the sum of {weighted_label(share)}"


def weighted_label(share: float) -> str:
    """Such as `0.4 of the semantic and 0.6 of the BM25 score`."""
    return f"{share:g} of the semantic and {1 - share:g} of the keyword score"


Rankings = NDArray[np.int64]
Fused = tuple[Rankings, NDArray[np.float64]]
Scorer = Callable[[QuerySet, Rankings], NDArray[np.float32]]


class HybridFusion:
    """`bm25_scores`: of the queries of a set and chunks for each of them (q, n)."""

    def __init__(self, settings: Settings, bm25_scores: Scorer) -> None:
        self._settings, self._bm25_scores = settings, bm25_scores
        self._pairs: dict[tuple[str, str], tuple[Rankings, tuple[Fused, Fused]]] = {}

    def fused(self, one: QuerySet, name: str, weight: float | None) -> Rankings:
        """BM25 and an encoder fused by a weighted sum, or by RRF where there is no weight. (q, depth) chunk ids."""
        from engine.ranking.fusion import convex, rrf

        depth = self._settings.evaluation.depth
        if weight is None:
            semantic, bm25 = ((one.rankings[part], one.scores[part]) for part in (name, "bm25"))
            return rrf([bm25, semantic], depth, self._settings.search.rrf_k)[0]
        return convex(*self._cross_scored(one, name), weight, depth)[0]

    def _cross_scored(self, one: QuerySet, name: str) -> tuple[Fused, Fused]:
        """The encoder's ranking and BM25's, each with the other's chunks, as search scores them."""
        from engine.ranking.fusion import cross_scored

        ids, of_bm25 = one.rankings[name], one.rankings[BM25]
        former, pair = self._pairs.get((one.kind, name), (None, None))
        if pair is None or former is not ids:
            pair = (
                cross_scored((ids, one.scores[name]), of_bm25, one.beside[name]),
                cross_scored((of_bm25, one.scores[BM25]), ids, self._bm25_scores(one, ids)),
            )
            self._pairs[one.kind, name] = ids, pair
        return pair
