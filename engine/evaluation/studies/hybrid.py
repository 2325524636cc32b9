"""BM25's rankings fused with an encoder's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.core.systems import BM25, IN_USE
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import EQUAL, SHARES, FusionChoice, weighted_label
from engine.settings.schema import Settings

Rankings = NDArray[np.int64]
Fused = tuple[Rankings, NDArray[np.float64]]
Scorer = Callable[[QuerySet, Rankings], NDArray[np.float32]]
Measure = Callable[[Rankings, Sequence[Judgment]], NDArray[np.float64]]
MIN_EXTRACTIVE = 20
"""Held-out queries without which nothing is said of an encoder."""
MIN_SHARE = 0.4
"""Share of BM25's nDCG@10 on extractive queries below which an encoder is not trusted (docs/log/hybrid-search.md)."""


class HybridFusion:
    """`bm25_scores`: of the queries of a set and chunks for each of them (q, n)."""

    def __init__(self, settings: Settings, bm25_scores: Scorer) -> None:
        self._settings, self._bm25_scores = settings, bm25_scores
        self._pairs: dict[tuple[str, str], tuple[Rankings, tuple[Fused, Fused]]] = {}

    def for_unknown_language(self, sets: Sequence[QuerySet], measure: Measure) -> FusionChoice | None:
        """The best share up to one half where the encoder is so far behind BM25 on extractive queries that it seems not to know the
        documents' language; None where it is not. These queries favour BM25, and here they are right to.

        `measure`: nDCG@10 per query, in [0, 1], of rankings (q, depth).
        """
        one = next((one for one in sets if one.kind == "synthetic"), None)
        rows = one.rungs()["extractive"] if one else []
        if one is None or len(rows) < MIN_EXTRACTIVE:
            return None
        judgments = [one.judgments[row] for row in rows]

        def mean(rankings: Rankings) -> float:
            return float(measure(rankings[rows], judgments).mean())

        own, bm25 = mean(one.rankings[IN_USE]), mean(one.rankings[BM25])
        if own >= MIN_SHARE * bm25:
            return None
        means = {share: mean(self.fused(one, IN_USE, share)) for share in SHARES if share <= EQUAL}
        share = max(means, key=lambda key: (means[key], key))
        reason = (
            f"Hybrid search adds {weighted_label(share)}, the best of {len(means)} shares: the encoder seems not to know the "
            f"language of these documents, since on {len(rows)} extractive queries it has {100 * own / bm25:.0f} % of BM25's "
            "nDCG@10."
        )
        return FusionChoice("weighted", share, reason)

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
