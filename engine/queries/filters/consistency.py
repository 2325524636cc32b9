"""The consistency filter: a query is kept when a retriever that nobody trained on it finds its
source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.core.records import Query
from engine.queries.rejection import Filtered, Reason, Rejected

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EVERYDAY_TOP = 100
"""Depth to which an everyday query's chunk is looked for.

Such a query is to ask for what neither retriever finds yet: one whose chunk is among the first 20
teaches little. That its chunk is among the first hundred still tells it from one that fits nothing,
and a hundred is as deep as hybrid search fuses (`evaluation.depth`).
"""


def format_share(share: float) -> str:
    """A share in percent: neither all nor none where it is nearly so."""
    percent = f"{100 * share:.0f}"
    if percent == "100" and share < 1:
        return "over 99 %"
    if percent == "0" and share > 0:
        return "under 1 %"
    return f"{percent} %"


def depth_of(query: Query, top: int) -> int:
    """Return how deep the chunk of a query may be ranked where others' are to be within the
    first `top`.
    """
    if query.kind == "everyday":
        return max(top, EVERYDAY_TOP)
    return top


def max_depth(queries: Sequence[Query], top: int) -> int:
    """Return the depth to which the chunks of these queries have to be ranked."""
    return max((depth_of(query, top) for query in queries), default=top)


def consistency_filter(
    queries: Sequence[Query],
    rank_of: Sequence[Callable[[Sequence[Query]], NDArray[np.integer]]],
    top: int = 20,
) -> Filtered:
    """Keep a query when its source chunk is within the first `top` of any of the retrievers
    (METHODS.md §5), an everyday one when it is within the first `EVERYDAY_TOP`.

    Each of `rank_of` gives the 1-based rank of every query's source chunk, 0 where it was not
    found, shape (n,). Later retrievers are asked only about queries that the earlier ones did not
    find.
    """
    lost = list(range(len(queries)))
    for rank in rank_of:
        if lost:
            ranks = rank([queries[row] for row in lost]).tolist()
        else:
            ranks = []
        lost = [
            row
            for row, found in zip(lost, ranks, strict=True)
            if not 0 < found <= depth_of(queries[row], top)
        ]
    kept = [queries[row] for row in sorted(set(range(len(queries))) - set(lost))]
    rejected = []
    for row in lost:
        detail = f"beyond the top {depth_of(queries[row], top)}"
        rejected.append(Rejected(queries[row], Reason.CHUNK_NOT_FOUND, detail))
    return Filtered(kept, rejected)
