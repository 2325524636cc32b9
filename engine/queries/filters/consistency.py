"""The consistency filter: a query is kept when a retriever that nobody trained on it finds its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from engine.core.records import Query
from engine.queries.rejection import Filtered, Reason, Rejected

Ranks: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.integer]]"
RankOf: TypeAlias = Callable[[Sequence[Query]], Ranks]


def format_share(share: float) -> str:
    """A share in percent: neither all nor none where it is nearly so."""
    percent = f"{100 * share:.0f}"
    if percent == "100" and share < 1:
        return "over 99 %"
    return "under 1 %" if percent == "0" and share > 0 else f"{percent} %"


def consistency_filter(queries: Sequence[Query], rank_of: Sequence[RankOf], top: int = 20) -> Filtered:
    """Keep a query when its source chunk is within the first `top` of any of the retrievers (METHODS.md §5).

    Each of `rank_of` gives the 1-based rank of every query's source chunk, 0 where it was not found, shape (n,).
    Later retrievers are asked only about queries that the earlier ones did not find. Raises ValueError for a wrong
    shape.
    """
    open_positions = list(range(len(queries)))
    for rank in rank_of:
        open_queries = [queries[position] for position in open_positions]
        if not open_queries:
            break
        ranks = np.asarray(rank(open_queries))
        if ranks.shape != (len(open_queries),):
            raise ValueError(f"ranks of shape {ranks.shape} for {len(open_queries)} queries")
        open_positions = [
            position for position, found in zip(open_positions, ranks.tolist(), strict=True) if not 0 < found <= top
        ]
    lost = set(open_positions)
    kept = [query for position, query in enumerate(queries) if position not in lost]
    detail = f"beyond the top {top}"
    return Filtered(kept, [Rejected(queries[row], Reason.CHUNK_NOT_FOUND, detail) for row in open_positions])
