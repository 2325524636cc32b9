"""MAP@k (multihop): the definition that MultiHop-RAG's and BMEmbed's tables use (METHODS.md §1 Metrics)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from engine.metrics.relevance import Floats, Ints, ratio


def first_found(ids: ArrayLike, held: Sequence[Mapping[int, Collection[int]]]) -> Ints:
    """(q, depth) how many evidence strings the item at each rank shows for the first time.

    `ids` (q, depth) with -1 for padding; `held`: for each query, item id → indices of the evidence strings it holds.
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

    `first` (q, depth) comes from `first_found`; `evidence` (q,) is the number of evidence strings of each query, found
    or not. Not standard average precision: a chunk that holds two strings at rank 1 adds 2.
    """
    counts = first[:, :k]
    return ratio((counts / np.arange(1, counts.shape[1] + 1)).sum(axis=1), np.minimum(evidence, k))
