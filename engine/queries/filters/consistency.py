"""The consistency filter: a query is kept if an untrained retriever finds its chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.core.records import Query
from engine.queries.rejection import Filtered, Reason, Rejected

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EVERYDAY_TOP = 100
"""Depth within which the chunk of an everyday query must be found.

Such queries should ask for what neither retriever finds yet: one whose chunk is among the first 20
teaches little. If the chunk is among the first hundred, the query still fits it, and hybrid search
fuses as deep (`evaluation.depth`).
"""


def format_share(share: float) -> str:
    """Return a share in percent; 0 % and 100 % only if they are exact."""
    percent = f"{100 * share:.0f}"
    if percent == "100" and share < 1:
        return "over 99 %"
    if percent == "0" and share > 0:
        return "under 1 %"
    return f"{percent} %"


def depth_of(query: Query, top: int) -> int:
    """Return the depth within which a query's chunk must be found; `top` unless it is everyday."""
    if query.kind == "everyday":
        return max(top, EVERYDAY_TOP)
    return top


def max_depth(queries: Sequence[Query], top: int) -> int:
    """Return the depth to which chunks must be ranked for these queries."""
    return max((depth_of(query, top) for query in queries), default=top)


def consistency_filter(
    queries: Sequence[Query],
    rankers: Sequence[Callable[[Sequence[Query]], NDArray[np.integer]]],
    top: int = 20,
) -> Filtered:
    """Keep a query if any retriever ranks its chunk within the first `top` (METHODS.md §5).

    For everyday queries, within the first `EVERYDAY_TOP`. Each function in `rankers` returns the
    1-based ranks (n,) of the queries' chunks, 0 if not found. Later retrievers are asked only about
    queries that the earlier ones have not found.
    """
    not_found = list(range(len(queries)))  # rows of `queries`
    for ranker in rankers:
        if not not_found:
            break
        ranks = ranker([queries[row] for row in not_found]).tolist()
        remaining = []
        for row, rank in zip(not_found, ranks, strict=True):
            if not 0 < rank <= depth_of(queries[row], top):
                remaining.append(row)
        not_found = remaining
    rejected_rows = set(not_found)
    kept = [query for row, query in enumerate(queries) if row not in rejected_rows]
    rejected = []
    for row in not_found:
        detail = f"beyond the top {depth_of(queries[row], top)}"
        rejected.append(Rejected(queries[row], Reason.CHUNK_NOT_FOUND, detail))
    return Filtered(kept, rejected)
