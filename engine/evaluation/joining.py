"""BM25's rankings joined with an encoder's, and the choice of how."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.evaluation.fusion import SET_BY_HAND, WEIGHTS, FusionChoice, choose_fusion, not_tuned
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.settings import Settings

Rankings = NDArray[np.int64]
Measure = Callable[[Rankings, Sequence[Judgment]], NDArray[np.float64]]


class Joining:
    """`measure`: nDCG@10 per query, in [0, 1], of rankings (q, depth)."""

    def __init__(self, settings: Settings, measure: Measure) -> None:
        self._settings, self._measure = settings, measure

    def choose(self, heldout: QuerySet | None) -> FusionChoice:
        """What project.toml says, else what held-out queries show that are worded as questions would be."""
        settings = self._settings
        if settings.search.fusion != "auto":
            return FusionChoice(settings.search.fusion, settings.search.weight, SET_BY_HAND)
        if heldout is None:
            return not_tuned("there are no held-out queries to tune a weight on")
        rows = np.flatnonzero(~np.array(heldout.built, dtype=bool))
        if not len(rows):
            return not_tuned(
                "the held-out queries are built from the documents' own sentences, whose words BM25 finds too easily to "
                "tune a weight on them"
            )
        judgments = [heldout.judgments[row] for row in rows]

        def values(weight: float | None) -> NDArray[np.float64]:
            return self._measure(self.joined(heldout, "served", weight)[rows], judgments)

        table = {weight: values(weight) for weight in WEIGHTS}
        return choose_fusion(values(None), table, settings.evaluation.bootstrap_samples, settings.training.seed)

    def joined(self, one: QuerySet, name: str, weight: float | None) -> Rankings:
        """BM25 and an encoder joined by a weighted sum, or by RRF where there is no weight. (q, depth) chunk ids."""
        from engine.ranking import convex, rrf

        depth = self._settings.evaluation.depth
        semantic, bm25 = ((one.rankings[part], one.scores[part]) for part in (name, "bm25"))
        if weight is None:
            return rrf([bm25, semantic], depth, self._settings.search.rrf_u)[0]
        return convex(semantic, bm25, weight, depth)[0]
