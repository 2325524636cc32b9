"""BM25's rankings fused with an encoder's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.core.systems import BM25
from engine.evaluation.query_sets import QuerySet
from engine.settings.schema import Settings

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
