"""BM25 Hit@1 of the training queries: how easy they are, which decides what is learned from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engine.core.records import Query
from engine.project.store.artifact_info import RankingsInfo
from engine.project.store.store import Store

MIN_QUERIES = 100
"""Fewer training queries say too little."""


def bm25_hit_at_1(store: Store) -> float | None:
    """The share of the training queries whose evidence chunk BM25 ranks first, as noted with the rankings; None where it is not
    known."""
    rankings = store.artifact(RankingsInfo)
    return rankings.info.bm25_hit_at_1 if rankings else None


def hit_at_1(queries: Sequence[Query], lists: Sequence[tuple[Any, Any]]) -> float | None:
    """The share over the training queries among `queries`, each with its (ids, scores), best first; None of too few."""
    first = [
        bool(len(ids) and ids[0] == query.chunk_id)
        for query, (ids, _) in zip(queries, lists, strict=True)
        if query.split == "train"
    ]
    return sum(first) / len(first) if len(first) >= MIN_QUERIES else None
