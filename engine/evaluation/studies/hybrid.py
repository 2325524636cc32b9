"""BM25's rankings fused with an encoder's, and the choice of how."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.core.systems import BM25, IN_USE
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.studies.fusion import EQUAL, SET_BY_HAND, WEIGHTS, FusionChoice, choose_fusion, equal_weights
from engine.settings.schema import Settings

Rankings = NDArray[np.int64]
Fused = tuple[Rankings, NDArray[np.float64]]
Scorer = Callable[[Sequence[str], Rankings], NDArray[np.float32]]
Measure = Callable[[Rankings, Sequence[Judgment]], NDArray[np.float64]]
MIN_EXTRACTIVE = 20
"""Held-out queries without which nothing is said of an encoder."""
MIN_SHARE = 0.4
"""Share of BM25's nDCG@10 on extractive queries below which an encoder is not trusted (docs/log/hybrid-search.md)."""


class HybridFusion:
    """`measure`: nDCG@10 per query, in [0, 1], of rankings (q, depth). `bm25_scores`: of q texts and their chunks (q, n)."""

    def __init__(self, settings: Settings, measure: Measure, bm25_scores: Scorer) -> None:
        self._settings, self._measure, self._bm25_scores = settings, measure, bm25_scores
        self._pairs: dict[tuple[str, str], tuple[Fused, Fused]] = {}

    def choose(self, heldout: QuerySet | None) -> FusionChoice:
        """What project.toml says, else what held-out queries show that are worded as questions would be."""
        settings = self._settings
        if settings.search.fusion != "auto":
            return FusionChoice(settings.search.fusion, settings.search.weight, SET_BY_HAND)
        if heldout is None:
            return equal_weights("there are no held-out queries to tune a weight on")
        rows = np.flatnonzero(~np.array(heldout.extractive, dtype=bool))
        if not len(rows):
            return self._of_extractive(heldout)
        judgments = [heldout.judgments[row] for row in rows]

        def values(weight: float | None) -> NDArray[np.float64]:
            return self._measure(self.fused(heldout, IN_USE, weight)[rows], judgments)

        table = {weight: values(weight) for weight in WEIGHTS}
        return choose_fusion(values(None), table, settings.evaluation.bootstrap_samples, settings.training.seed)

    def _of_extractive(self, heldout: QuerySet) -> FusionChoice:
        """Equal weights, unless the encoder is so far behind BM25 that it seems not to know the documents' language.

        Then it is the best weight up to one half: extractive queries favour BM25, and here they are right to.
        """
        share, count = self._share_found(heldout), len(heldout.judgments)
        if count < MIN_EXTRACTIVE or share >= MIN_SHARE:
            return equal_weights(
                "the held-out queries are extractive, and BM25 finds their words too easily to tune a weight on"
            )
        means = {
            weight: float(self._measure(self.fused(heldout, IN_USE, weight), heldout.judgments).mean())
            for weight in WEIGHTS
            if weight <= EQUAL
        }
        weight = max(means, key=lambda one: (means[one], one))
        return FusionChoice(
            "weighted",
            weight,
            f"Hybrid search adds both scores, {weight:g} semantic and {1 - weight:g} BM25, the best of {len(means)} weights: the "
            f"encoder seems not to know the language of these documents, since on {count} held-out queries it has "
            f"{100 * share:.0f} % of BM25's nDCG@10.",
        )

    def _share_found(self, heldout: QuerySet) -> float:
        """nDCG@10 of the encoder in use, as a share of BM25's."""
        own, bm25 = (float(self._measure(heldout.rankings[name], heldout.judgments).mean()) for name in (IN_USE, BM25))
        return own / bm25 if bm25 else 1.0

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

        if (one.kind, name) not in self._pairs:
            ids, of_bm25 = one.rankings[name], one.rankings["bm25"]
            self._pairs[one.kind, name] = (
                cross_scored((ids, one.scores[name]), of_bm25, one.beside[name]),
                cross_scored((of_bm25, one.scores["bm25"]), ids, self._bm25_scores(one.texts, ids)),
            )
        return self._pairs[one.kind, name]
