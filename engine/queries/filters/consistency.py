"""The consistency filter: a query is kept when a retriever that nobody trained on it finds its source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.core.records import Query
from engine.queries.rejection import Filtered, Reason, Rejected

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def format_share(share: float) -> str:
    """A share in percent: neither all nor none where it is nearly so."""
    percent = f"{100 * share:.0f}"
    if percent == "100" and share < 1:
        return "over 99 %"
    return "under 1 %" if percent == "0" and share > 0 else f"{percent} %"


def consistency_filter(
    queries: Sequence[Query], rank_of: Sequence[Callable[[Sequence[Query]], NDArray[np.integer]]], top: int = 20
) -> Filtered:
    """Keep a query when its source chunk is within the first `top` of any of the retrievers (METHODS.md §5).

    Each of `rank_of` gives the 1-based rank of every query's source chunk, 0 where it was not found, shape (n,).
    Later retrievers are asked only about queries that the earlier ones did not find.
    """
    lost = list(range(len(queries)))
    for rank in rank_of:
        ranks = rank([queries[row] for row in lost]).tolist() if lost else []
        lost = [row for row, found in zip(lost, ranks, strict=True) if not 0 < found <= top]
    kept = [queries[row] for row in sorted(set(range(len(queries))) - set(lost))]
    return Filtered(kept, [Rejected(queries[row], Reason.CHUNK_NOT_FOUND, f"beyond the top {top}") for row in lost])
