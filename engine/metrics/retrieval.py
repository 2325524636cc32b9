"""Figures of rankings: Hit@k, MRR@k, nDCG@k, recall@k, MAP@k, and the MAP@k (multihop) that
MultiHop-RAG's and BMEmbed's tables use (METHODS.md §1 Metrics).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats, Ints, Relevance, ratio

Gain = Literal["linear", "exponential"]


def hit_at_k(relevance: Relevance, k: int) -> Floats:
    """(q,) 1 where at least one of the first k items is relevant, else 0 (top-k accuracy in
    MultiHop-RAG, Tang & Yang 2024).
    """
    found: Floats = (relevance.at(k) > 0).any(axis=1).astype("float64")
    return found


def reciprocal_rank(relevance: Relevance, k: int) -> Floats:
    """(q,) 1 / rank of the first relevant item, ranks from 1; 0 when none is among the first k
    (Voorhees, TREC-8, 1999).
    """
    relevant = relevance.at(k) > 0
    reciprocals = relevant / np.arange(1, relevant.shape[1] + 1, dtype=np.float64)
    best: Floats = reciprocals.max(axis=1, initial=0.0)
    return best


def recall_at_k(relevance: Relevance, k: int) -> Floats:
    """(q,) |relevant among the first k| / |relevant|; 0 for a query without a relevant item."""
    return ratio(np.count_nonzero(relevance.at(k) > 0, axis=1), relevance.relevant)


def average_precision_at_k(relevance: Relevance, k: int) -> Floats:
    """(q,) Σ_{i≤k, item i relevant} precision@i / |relevant|; 0 for a query without a relevant
    item.

    As trec_eval's map_cut (Buckley & Voorhees 2000): the divisor is the number of all relevant
    items, also where it exceeds k.
    """
    relevant = relevance.at(k) > 0
    precision = np.cumsum(relevant, axis=1) / np.arange(1, relevant.shape[1] + 1)
    return ratio((precision * relevant).sum(axis=1), relevance.relevant)


def ndcg_at_k(relevance: Relevance, k: int, gain: Gain = "linear") -> Floats:
    """(q,) DCG@k / ideal DCG@k with DCG@k = Σ_{i≤k} gain(grade_i) / log2(i + 1); 0 without a
    relevant item.

    Linear gain (the grade itself: Järvelin & Kekäläinen 2002) is that of trec_eval and BEIR,
    exponential gain (2^grade - 1: Burges et al. 2005) that of METHODS.md §2. The ideal ranking is
    cut at k as well.
    """
    return ratio(_dcg(relevance.at(k), gain), _dcg(relevance.ideal[:, :k], gain))


def _dcg(grades: Ints, gain: Gain) -> Floats:
    if gain == "linear":
        gains = grades.astype(np.float64)
    else:
        gains = np.exp2(grades) - 1.0
    discounted: Floats = gains @ (1.0 / np.log2(np.arange(2, grades.shape[1] + 2)))
    return discounted


def first_found(ids: ArrayLike, held: Sequence[Mapping[int, Collection[int]]]) -> Ints:
    """(q, depth) how many evidence strings the item at each rank shows for the first time.

    `ids` (q, depth) with -1 for padding; `held`: for each query, item id → indices of the evidence
    strings it holds.
    """
    rankings = np.asarray(ids, dtype=np.int64)
    if rankings.ndim != 2 or len(rankings) != len(held):
        raise ValueError(f"{len(held)} queries do not fit rankings of shape {rankings.shape}")
    counts = np.zeros(rankings.shape, dtype=np.int64)
    for row, evidence in enumerate(held):
        seen: set[int] = set()
        for rank in np.flatnonzero(np.isin(rankings[row], list(evidence))):
            new = set(evidence[int(rankings[row, rank])]) - seen
            counts[row, rank] = len(new)
            seen |= new
    return counts


def multihop_ap_at_k(first: Ints, evidence: ArrayLike, k: int = 10) -> Floats:
    """(q,) Σ_{i≤k} first_i / i, divided by min(#evidence, k); 0 for a query without evidence.

    `first` (q, depth) comes from `first_found`; `evidence` (q,) is the number of evidence strings
    of each query, found or not. Not standard average precision: a chunk that holds two strings at
    rank 1 adds 2.
    """
    counts = first[:, :k]
    return ratio((counts / np.arange(1, counts.shape[1] + 1)).sum(axis=1), np.minimum(evidence, k))


METRICS: dict[str, Callable[[Relevance, int], Floats]] = {
    "hit": hit_at_k,
    "mrr": reciprocal_rank,
    "ndcg": ndcg_at_k,
    "ndcg_exp": partial(ndcg_at_k, gain="exponential"),
    "recall": recall_at_k,
    "map": average_precision_at_k,
}
MAFIN = tuple(f"{metric}@{k}" for metric in ("recall", "ndcg_exp") for k in (1, 3, 5, 10, 20))
"""Of Mafin's tables (section 4.2): Recall@K, and nDCG@K with gain 2^rel − 1."""
NAMES = ("hit@1", "hit@4", "hit@10", "mrr@10", "ndcg@10", "recall@10", "map@10")


def evaluate_run(relevance: Relevance, names: Iterable[str] = NAMES) -> dict[str, Floats]:
    """Metric name (`metric@k`) → (q,) per-query values in [0, 1].

    ValueError for a name that is not known.

    A query without any relevant item scores 0 everywhere: leave such queries out beforehand.
    """
    values = {}
    for name in names:
        metric, _, cut = name.partition("@")
        if metric not in METRICS or not cut.isdigit():
            raise ValueError(
                f"unknown metric {name!r}; known: {', '.join(METRICS)}, each as name@k"
            )
        values[name] = METRICS[metric](relevance, int(cut))
    return values
