"""Normalised discounted cumulative gain (Järvelin & Kekäläinen 2002; Burges et al. 2005 for the exponential gain)."""

from __future__ import annotations

from typing import Literal

import numpy as np

from engine.metrics.relevance import Floats, Ints, Relevance, ratio

Gain = Literal["linear", "exponential"]


def ndcg_at_k(relevance: Relevance, k: int, gain: Gain = "linear") -> Floats:
    """(q,) DCG@k / ideal DCG@k with DCG@k = Σ_{i≤k} gain(grade_i) / log2(i + 1); 0 without a relevant item.

    Linear gain (the grade itself) is that of trec_eval and BEIR, exponential (2^grade - 1) that of METHODS.md §2.
    The ideal ranking is cut at k as well.
    """
    return ratio(_dcg(relevance.at(k), gain), _dcg(relevance.ideal[:, :k], gain))


def _dcg(grades: Ints, gain: Gain) -> Floats:
    gains = grades.astype(np.float64) if gain == "linear" else np.exp2(grades) - 1.0
    discounted: Floats = gains @ (1.0 / np.log2(np.arange(2, grades.shape[1] + 2)))
    return discounted
