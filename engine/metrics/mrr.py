"""Reciprocal rank, whose mean is MRR@k (Voorhees, TREC-8 question answering track, 1999)."""

from __future__ import annotations

import numpy as np

from engine.metrics.relevance import Floats, Relevance


def reciprocal_rank(relevance: Relevance, k: int) -> Floats:
    """(q,) 1 / rank of the first relevant item, ranks from 1; 0 when none is among the first k."""
    relevant = relevance.at(k) > 0
    reciprocals = relevant / np.arange(1, relevant.shape[1] + 1, dtype=np.float64)
    best: Floats = reciprocals.max(axis=1, initial=0.0)
    return best
