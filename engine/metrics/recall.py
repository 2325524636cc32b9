"""Recall@k: the share of a query's relevant items that are among the first k."""

from __future__ import annotations

import numpy as np

from engine.metrics.relevance import Floats, Relevance, ratio


def recall_at_k(relevance: Relevance, k: int) -> Floats:
    """(q,) |relevant among the first k| / |relevant|; 0 for a query without a relevant item."""
    return ratio(np.count_nonzero(relevance.at(k) > 0, axis=1), relevance.relevant)
