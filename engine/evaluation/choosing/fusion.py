"""Fusion of BM25 and an encoder in hybrid search, by RRF or by a weighted sum of min-max scores.

The equal-weight sum is the default, because it was 2.6 and 3.0 points above RRF on two data sets
and 0.7 below it on a third. An encoder that was not trained on the documents' language has a share
of one tenth (docs/log/hybrid-search.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from engine.core.arrays import Doubles, Floats, Ids
from engine.core.systems import BM25
from engine.encoders.choosing.shares import FOREIGN, usual_share
from engine.encoders.kinds.chosen import encoder_source
from engine.evaluation.query_sets import QuerySet
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import LexicalInfo
from engine.settings.schema import Settings

FOREIGN_SHARES = (
    FOREIGN,
    0.2,
    0.3,
    0.4,
    0.5,
)
"""Semantic shares to try with an encoder that was not trained on the documents' language."""


@dataclass(frozen=True, slots=True)
class FusionChoice:
    """How hybrid search fuses.

    `weight` is the semantic share of the weighted sum; RRF does not use it.
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


RankedChunks = tuple[Ids, Doubles]
"""Ids and scores (q, n) of a ranker's chunks, best first."""
Scorer = Callable[[QuerySet, Ids], Floats]


class CrossScored(NamedTuple):
    """The rankings of an encoder and of BM25, each extended by the other's chunks and their scores.

    `ids` is the encoder's ranking before that, by which a stale cache entry is recognised.
    """

    ids: Ids
    semantic: RankedChunks
    bm25: RankedChunks


class HybridFusion:
    """BM25's rankings fused with those of encoders.

    `bm25_scores` returns BM25's scores (q, n) of given chunks (q, n) for each query of a set.
    """

    def __init__(self, settings: Settings, bm25_scores: Scorer) -> None:
        self._settings = settings
        self._bm25_scores = bm25_scores
        # Kind of queries and name of the encoder → both rankings.
        self._cross_scored: dict[tuple[str, str], CrossScored] = {}

    def fuse(
        self,
        queries: QuerySet,
        encoder: str,
        share: float | None,
    ) -> Ids:
        """Return ids (q, depth) of the rankings of BM25 and an encoder, fused.

        With a semantic `share`, such as 0.4, by the weighted sum (METHODS.md §5, "Weighted
        fusion"); with None, by RRF (§1, "Fusion").
        """
        from engine.ranking.fusion import convex, rrf

        depth = self._settings.evaluation.depth
        if share is None:
            semantic = (queries.rankings[encoder], queries.scores[encoder])
            bm25 = (queries.rankings[BM25], queries.scores[BM25])
            ids, _ = rrf(
                [bm25, semantic],
                depth,
                self._settings.search.rrf_k,
            )
            return ids
        rankings = self._cross_score(queries, encoder)
        ids, _ = convex(
            rankings.semantic,
            rankings.bm25,
            share,
            depth,
        )
        return ids

    def _cross_score(self, queries: QuerySet, encoder: str) -> CrossScored:
        """Return both rankings with each other's chunks, cached until the encoder's changes."""
        from engine.ranking.fusion import cross_score

        key = (queries.kind, encoder)
        ids = queries.rankings[encoder]
        cached = self._cross_scored.get(key)
        if cached is None or cached.ids is not ids:
            bm25_ids = queries.rankings[BM25]
            semantic = (ids, queries.scores[encoder])
            bm25 = (bm25_ids, queries.scores[BM25])
            cached = CrossScored(
                ids,
                cross_score(semantic, bm25_ids, queries.cross_scores[encoder]),
                cross_score(bm25, ids, self._bm25_scores(queries, ids)),
            )
            self._cross_scored[key] = cached
        return cached
