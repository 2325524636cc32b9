"""Figures of rankings: Hit@k, MRR@k, nDCG@k, recall@k, MAP@k and MAP@k (multihop).

METHODS.md §1 Metrics. The tables of MultiHop-RAG and BMEmbed use MAP@k (multihop).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from engine.core.arrays import Doubles
from engine.metrics.relevance import Ints, Relevance, ratio

Gain = Literal["linear", "exponential"]


def hit_at_k(relevance: Relevance, k: int) -> Doubles:
    """Return 1 for each query (q,) with a relevant item among the first k, else 0.

    Top-k accuracy in MultiHop-RAG, Tang & Yang 2024.
    """
    relevant = relevance.at(k) > 0
    hits: Doubles = relevant.any(axis=1).astype("float64")
    return hits


def reciprocal_rank(relevance: Relevance, k: int) -> Doubles:
    """Return 1 / rank of each query's first relevant item (q,), 0 if none is among the first k.

    Ranks count from 1 (Voorhees, TREC-8, 1999).
    """
    relevant = relevance.at(k) > 0
    reciprocals = relevant / _ranks(relevant)
    best: Doubles = reciprocals.max(axis=1, initial=0.0)
    return best


def recall_at_k(relevance: Relevance, k: int) -> Doubles:
    """Return |relevant among the first k| / |relevant| (q,), 0 without a relevant item."""
    retrieved = np.count_nonzero(relevance.at(k) > 0, axis=1)
    return ratio(retrieved, relevance.relevant)


def average_precision_at_k(relevance: Relevance, k: int) -> Doubles:
    """Return Σ_{i≤k, item i relevant} precision@i / |relevant| (q,), 0 without a relevant item.

    As trec_eval's map_cut (Buckley & Voorhees 2000): the divisor is the number of all relevant
    items, even if it exceeds k.
    """
    relevant = relevance.at(k) > 0
    precision = np.cumsum(relevant, axis=1) / _ranks(relevant)
    return ratio((precision * relevant).sum(axis=1), relevance.relevant)


def ndcg_at_k(
    relevance: Relevance,
    k: int,
    gain: Gain = "linear",
) -> Doubles:
    """Return DCG@k / ideal DCG@k (q,) with DCG@k = Σ_{i≤k} gain(grade_i) / log2(i + 1).

    0 without a relevant item. Linear gain (the grade itself: Järvelin & Kekäläinen 2002) is that of
    trec_eval and BEIR, exponential gain (2^grade - 1: Burges et al. 2005) that of METHODS.md §2.
    The ideal ranking is cut at k as well.
    """
    dcg = _dcg(relevance.at(k), gain)
    ideal_dcg = _dcg(relevance.ideal[:, :k], gain)
    return ratio(dcg, ideal_dcg)


def _dcg(grades: Ints, gain: Gain) -> Doubles:
    """Return Σ_i gain(grade_i) / log2(i + 1) of each row of grades (q,)."""
    gains = grades.astype(np.float64)
    if gain == "exponential":
        gains = np.exp2(grades) - 1.0
    discounts = 1.0 / np.log2(_ranks(grades) + 1)
    sums: Doubles = gains @ discounts
    return sums


def _ranks(rows: NDArray[Any]) -> Ints:
    """Return the ranks 1, 2, … of the columns of `rows` (q, depth)."""
    return np.arange(1, rows.shape[1] + 1)


def count_new_evidence(ids: ArrayLike, held: Sequence[Mapping[int, Collection[int]]]) -> Ints:
    """Return how many evidence strings the item at each rank shows for the first time (q, depth).

    `ids` (q, depth) is padded with -1. `held` has one mapping for each query: an item's id → the
    indices of the evidence strings in that item.
    """
    rankings = np.asarray(ids, dtype=np.int64)
    if rankings.ndim != 2 or len(rankings) != len(held):
        raise ValueError(f"{len(held)} queries do not fit rankings of shape {rankings.shape}")
    counts = np.zeros(rankings.shape, dtype=np.int64)
    for row, evidence in enumerate(held):
        seen: set[int] = set()
        for rank, item in enumerate(rankings[row].tolist()):
            new = set(evidence.get(item, ())) - seen
            counts[row, rank] = len(new)
            seen |= new
    return counts


def multihop_ap_at_k(
    first: Ints,
    evidence: ArrayLike,
    k: int = 10,
) -> Doubles:
    """Return Σ_{i≤k} first_i / i, divided by min(#evidence, k) (q,), 0 without evidence.

    `first` (q, depth) comes from `count_new_evidence`; `evidence` (q,) is the number of evidence
    strings of each query, retrieved or not. This is not standard average precision: a chunk at rank
    1 that holds two strings adds 2.
    """
    counts = first[:, :k]
    gains = (counts / _ranks(counts)).sum(axis=1)
    return ratio(gains, np.minimum(evidence, k))


METRICS: dict[str, Callable[[Relevance, int], Doubles]] = {
    "hit": hit_at_k,
    "mrr": reciprocal_rank,
    "ndcg": ndcg_at_k,
    "ndcg_exp": partial(ndcg_at_k, gain="exponential"),
    "recall": recall_at_k,
    "map": average_precision_at_k,
}
"""Metric by the part of its name before `@`."""
_DEPTHS = (
    1,
    3,
    5,
    10,
    20,
)
MAFIN = (*(f"recall@{k}" for k in _DEPTHS), *(f"ndcg_exp@{k}" for k in _DEPTHS))
"""Figures of Mafin's tables (section 4.2): recall@k, and nDCG@k with gain 2^grade − 1."""
NAMES = (
    "hit@1",
    "hit@4",
    "hit@10",
    "mrr@10",
    "ndcg@10",
    "recall@10",
    "map@10",
)
"""Figures that every evaluation computes."""


def evaluate_run(relevance: Relevance, names: Iterable[str] = NAMES) -> dict[str, Doubles]:
    """Return per-query values (q,) in [0, 1] by metric name (`metric@k`).

    A query without any relevant item scores 0 everywhere, so leave such queries out beforehand.
    Raises ValueError for an unknown name.
    """
    values = {}
    for name in names:
        metric, _, cut = name.partition("@")
        if metric not in METRICS or not cut.isdigit():
            known = ", ".join(METRICS)
            raise ValueError(f"unknown metric {name!r}; known: {known}, each as name@k")
        values[name] = METRICS[metric](relevance, int(cut))
    return values
