"""Hit@k, also called success@k or top-k accuracy (METHODS.md §1 Metrics; MultiHop-RAG, Tang & Yang 2024)."""

from __future__ import annotations

from engine.metrics.relevance import Floats, Relevance


def hit_at_k(relevance: Relevance, k: int) -> Floats:
    """(q,) 1 where at least one of the first k items is relevant, else 0."""
    found: Floats = (relevance.at(k) > 0).any(axis=1).astype("float64")
    return found
