"""How hybrid search fuses BM25 and an encoder: by RRF or by a weighted sum of min-max scores.

The equal-weight sum is the default, because it was 2.6 and 3.0 points above RRF on two data sets
and 0.7 below it on a third. An encoder that was not trained on the documents' language has a tenth
of the say (docs/log/hybrid-search.md).
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
from engine.evaluation.query_sets import QuerySet
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import LexicalInfo
from engine.settings.schema import Settings

EQUAL = 0.5
FOREIGN = 0.1
SHARES = (0.4, 0.5, 0.6, 0.7)
"""Of the semantic score, which are tried with each encoder: an adapted one wants a larger share
(docs/log/training.md).
"""
FOREIGN_SHARES = (FOREIGN, 0.2, 0.3, 0.4, 0.5)
"""The same, for an encoder that was not trained on the documents' language."""


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """`weight`: the semantic score's share in the weighted sum, also where RRF is taken (for
    comparison).
    """

    method: Literal["rrf", "weighted"]
    weight: float
    reason: str

    @property
    def share(self) -> float | None:
        """The semantic score's share in hybrid search; None where RRF fuses."""
        return None if self.method == "rrf" else self.weight


def default_share(snapshot: ProjectSnapshot) -> float | None:
    """The semantic score's share in hybrid search while nothing is chosen; None for RRF.

    NotBuiltError before the stage `index`.
    """
    settings = snapshot.settings
    language = snapshot.need(LexicalInfo).info.language
    if knows(encoder_source(settings.encoder), language):
        auto = EQUAL
    else:
        auto = FOREIGN
    return {"auto": auto, "weighted": settings.search.weight, "rrf": None}[settings.search.fusion]


def weighted_label(share: float) -> str:
    """Such as `0.4 of the semantic and 0.6 of the BM25 score`."""
    return f"{share:g} of the semantic and {1 - share:g} of the keyword score"


Rankings = NDArray[np.int64]
Fused = tuple[Rankings, NDArray[np.float64]]
Scorer = Callable[[QuerySet, Rankings], NDArray[np.float32]]


class HybridFusion:
    """`bm25_scores`: of the queries of a set and chunks for each of them (q, n)."""

    def __init__(self, settings: Settings, bm25_scores: Scorer) -> None:
        self._settings = settings
        self._bm25_scores = bm25_scores
        self._pairs: dict[tuple[str, str], tuple[Rankings, tuple[Fused, Fused]]] = {}

    def fused(self, one: QuerySet, name: str, weight: float | None) -> Rankings:
        """BM25 and an encoder fused by a weighted sum, or by RRF where there is no weight.

        (q, depth) chunk ids.
        """
        from engine.ranking.fusion import convex, rrf

        depth = self._settings.evaluation.depth
        if weight is None:
            semantic, bm25 = ((one.rankings[part], one.scores[part]) for part in (name, "bm25"))
            return rrf([bm25, semantic], depth, self._settings.search.rrf_k)[0]
        return convex(*self._cross_scored(one, name), weight, depth)[0]

    def _cross_scored(self, one: QuerySet, name: str) -> tuple[Fused, Fused]:
        """The encoder's ranking and BM25's, each with the other's chunks, as search scores them."""
        from engine.ranking.fusion import cross_scored

        ids = one.rankings[name]
        of_bm25 = one.rankings[BM25]
        former, pair = self._pairs.get((one.kind, name), (None, None))
        if pair is None or former is not ids:
            pair = (
                cross_scored((ids, one.scores[name]), of_bm25, one.beside[name]),
                cross_scored((of_bm25, one.scores[BM25]), ids, self._bm25_scores(one, ids)),
            )
            self._pairs[one.kind, name] = ids, pair
        return pair
