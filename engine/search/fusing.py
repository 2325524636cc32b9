"""Fusion of the rankings of one query, with the share of each ranker in a hit's score."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.settings.schema import SearchSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.core.arrays import Ids


Ranking = tuple["Ids", "NDArray[np.floating[Any]]"]
"""Chunk ids (n,), best first, and their scores (n,)."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A fused ranking."""

    order: list[tuple[int, float]]
    """(Chunk id, score) of each chunk, best first."""
    parts: dict[str, dict[int, float]] = field(default_factory=dict)
    """Ranker → chunk id → what the ranker adds to the score; empty if there is only one ranker."""

    def with_unranked(self, ids: Ids) -> Fused:
        """Return the ranking with the chunks of `ids` (n,) that it lacks at its end, score 0."""
        ranked = {chunk_id for chunk_id, _ in self.order}
        unranked = [(chunk_id, 0.0) for chunk_id in ids.tolist() if chunk_id not in ranked]
        return replace(self, order=self.order + unranked)

    def down_to(self, min_score: float | None) -> Fused:
        """Return the ranking without the chunks that score less than `min_score`."""
        if min_score is None:
            return self
        order = [(chunk_id, score) for chunk_id, score in self.order if score >= min_score]
        return replace(self, order=order)

    def shares(self, chunk_id: int) -> dict[str, float]:
        """Return ranker → its share of a chunk's score; the shares sum to 1.

        Empty if no ranker has added anything to the score.
        """
        parts = {}
        for ranker, gains in self.parts.items():
            if chunk_id in gains:
                parts[ranker] = gains[chunk_id]
        total = sum(parts.values())
        if total > 0:
            return {ranker: gain / total for ranker, gain in parts.items()}
        return {}


def fuse(rankings: Mapping[str, Ranking], settings: SearchSettings) -> Fused:
    """Fuse the rankings `bm25` and `semantic` as the settings say (`auto`: by weighted sum).

    A single ranking keeps its order and scores.
    """
    if len(rankings) == 1:
        (ranking,) = rankings.values()
        return Fused(_pair_with_scores(*ranking))
    from engine.ranking.fusion import convex_parts, rrf_parts, sum_parts

    semantic = rankings["semantic"]
    bm25 = rankings["bm25"]
    if settings.fusion == "rrf":
        parts = rrf_parts([semantic, bm25], settings.rrf_k)
    else:
        parts = convex_parts(
            semantic,
            bm25,
            settings.weight,
        )
    by_ranker = {}
    for ranker, (ids, gains) in zip(("semantic", "bm25"), parts, strict=True):
        by_ranker[ranker] = dict(_pair_with_scores(ids[0], gains[0]))
    fused = sum_parts(parts, is_single=True)
    return Fused(_pair_with_scores(*fused), by_ranker)


def _pair_with_scores(ids: Ids, scores: NDArray[np.floating]) -> list[tuple[int, float]]:
    """Return (id, score) of each chunk."""
    values = map(float, scores.tolist())
    return list(zip(ids.tolist(), values, strict=True))
