"""Fusion of BM25 and an encoder in hybrid search, by RRF or by a weighted sum of min-max scores.

The equal-weight sum is the default, because it was 2.6 and 3.0 points above RRF on two data sets
and 0.7 below it on a third. An encoder that was not trained on the documents' language has a share
of one tenth (docs/log/hybrid-search.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.core.systems import BM25
from engine.encoders.choosing.shares import FOREIGN, usual_share
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.query_sets import QuerySet
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import LexicalInfo
from engine.settings.schema import Settings

FOREIGN_SHARES = (FOREIGN, 0.2, 0.3, 0.4, 0.5)
"""Semantic shares to try with an encoder that was not trained on the documents' language."""


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """How hybrid search fuses.

    `weight` is the semantic share of the weighted sum, which RRF is compared with.
    """

    method: Literal["rrf", "weighted"]
    weight: float
    reason: str

    @property
    def share(self) -> float | None:
        """The semantic share of the hybrid score; None for RRF."""
        if self.method == "rrf":
            return None
        return self.weight


def default_share(snapshot: ProjectSnapshot) -> float | None:
    """Return the semantic share of an unadapted project's hybrid score; None for RRF.

    Raises NotBuiltError before the stage `index`.
    """
    settings = snapshot.settings
    language = snapshot.need(LexicalInfo).info.language
    if settings.search.fusion == "rrf":
        return None
    if settings.search.fusion == "weighted":
        return settings.search.weight
    return usual_share(encoder_source(settings.encoder), language)


def weighted_label(share: float) -> str:
    """Return words such as "0.4 of the semantic and 0.6 of the keyword score"."""
    return f"{share:g} of the semantic and {1 - share:g} of the keyword score"


Rankings = NDArray[np.int64]
Fused = tuple[Rankings, NDArray[np.float64]]
Scorer = Callable[[QuerySet, Rankings], NDArray[np.float32]]


class HybridFusion:
    """BM25's rankings fused with those of encoders.

    `bm25_scores` scores chunks (q, n) for each query of a set.
    """

    def __init__(self, settings: Settings, bm25_scores: Scorer) -> None:
        self._settings = settings
        self._bm25_scores = bm25_scores
        self._pairs: dict[tuple[str, str], tuple[Rankings, tuple[Fused, Fused]]] = {}

    def fuse(self, queries: QuerySet, name: str, weight: float | None) -> Rankings:
        """Return ids (q, depth) of BM25 and an encoder fused by a weighted sum, or by RRF."""
        from engine.ranking.fusion import convex, rrf

        depth = self._settings.evaluation.depth
        if weight is None:
            semantic = (queries.rankings[name], queries.scores[name])
            bm25 = (queries.rankings[BM25], queries.scores[BM25])
            return rrf([bm25, semantic], depth, self._settings.search.rrf_k)[0]
        semantic, bm25 = self._cross_score(queries, name)
        return convex(semantic, bm25, weight, depth)[0]

    def _cross_score(self, queries: QuerySet, name: str) -> tuple[Fused, Fused]:
        """Return the encoder's and BM25's rankings, each extended by scores of the other's chunks.

        The pair of each set and encoder is cached, as long as the ranking is the same object.
        """
        from engine.ranking.fusion import cross_score

        ids = queries.rankings[name]
        bm25_ids = queries.rankings[BM25]
        former, pair = self._pairs.get((queries.kind, name), (None, None))
        if pair is None or former is not ids:
            semantic = (ids, queries.scores[name])
            bm25 = (bm25_ids, queries.scores[BM25])
            bm25_scores = self._bm25_scores(queries, ids)
            pair = (
                cross_score(semantic, bm25_ids, queries.cross_scores[name]),
                cross_score(bm25, ids, bm25_scores),
            )
            self._pairs[queries.kind, name] = (ids, pair)
        return pair
