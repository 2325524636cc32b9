"""One ranking from one or two, and what each ranker's share in a hit's score is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from engine.settings.schema import SearchSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Ranking = tuple["NDArray[np.int64]", "NDArray[np.floating[Any]]"]


@dataclass(frozen=True, slots=True)
class Fused:
    """`order`: (chunk id, score), best first.

    `parts`: ranker → chunk id → what it adds; empty with one ranker only.
    """

    order: list[tuple[int, float]]
    parts: dict[str, dict[int, float]] = field(default_factory=dict)

    def down_to(self, least: float | None) -> Fused:
        """Without the chunks of a lower score."""
        if least is None:
            return self
        return replace(self, order=[one for one in self.order if one[1] >= least])

    def shares(self, chunk_id: int) -> dict[str, float]:
        """What share of a chunk's score each ranker that found it gave; they sum to 1. {} where
        there is nothing to share.
        """
        found = {name: parts[chunk_id] for name, parts in self.parts.items() if chunk_id in parts}
        total = sum(found.values())
        if total > 0:
            return {name: part / total for name, part in found.items()}
        return {}


def fuse(rankings: Mapping[str, Ranking], settings: SearchSettings) -> Fused:
    """One ranking as it is; two, `bm25` and `semantic`, fused as the settings say (`auto` as a
    weighted sum).
    """
    if len(rankings) == 1:
        return Fused(_pairs(*next(iter(rankings.values()))))
    from engine.ranking.fusion import convex, convex_parts, rrf, rrf_parts

    semantic = rankings["semantic"]
    bm25 = rankings["bm25"]
    if settings.fusion == "rrf":
        fused = rrf([semantic, bm25], k=settings.rrf_k)
        parts = rrf_parts([semantic, bm25], settings.rrf_k)
    else:
        fused = convex(semantic, bm25, settings.weight)
        parts = convex_parts(semantic, bm25, settings.weight)
    by_ranker = {
        name: dict(_pairs(ids[0], gains[0]))
        for name, (ids, gains) in zip(("semantic", "bm25"), parts, strict=True)
    }
    return Fused(_pairs(*fused), by_ranker)


def _pairs(ids: NDArray[np.int64], scores: NDArray[np.floating]) -> list[tuple[int, float]]:
    return list(zip(ids.tolist(), map(float, scores.tolist()), strict=True))
