"""Average precision, whose mean is MAP@k, as trec_eval's map_cut (Buckley & Voorhees 2000) computes it."""

from __future__ import annotations

import numpy as np

from engine.metrics.relevance import Floats, Relevance, ratio


def average_precision_at_k(relevance: Relevance, k: int) -> Floats:
    """(q,) Σ_{i≤k, item i relevant} precision@i / |relevant|; 0 for a query without a relevant item.

    The divisor is the number of all relevant items, also where it exceeds k.
    """
    relevant = relevance.at(k) > 0
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return ratio((precision * relevant).sum(axis=1), relevance.relevant)
