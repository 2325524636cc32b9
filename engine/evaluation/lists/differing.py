"""Passages that two lists rank differently.

A passage at the same rank in both contributes the same to both, so its relevance does not say which
list is better.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar

DEPTH = 10
"""Depth of nDCG@10: passages below do not change it."""

Passage = TypeVar("Passage", bound=Hashable)


def differing_passages(first: Sequence[Passage], second: Sequence[Passage]) -> list[Passage]:
    """Return the passages whose relevance can tell two lists apart, highest ranks first.

    Passages are compared by value: pass texts, for example, so that copies of a text are one
    passage.
    """
    ranks_in_first = _find_ranks(first)
    ranks_in_second = _find_ranks(second)
    best_ranks = {}
    for passage in ranks_in_first | ranks_in_second:
        first_ranks = ranks_in_first.get(passage, ())
        second_ranks = ranks_in_second.get(passage, ())
        if first_ranks != second_ranks:
            best_ranks[passage] = min(first_ranks + second_ranks)
    return sorted(best_ranks, key=best_ranks.__getitem__)


def undecided_passages(
    first: Sequence[Passage], second: Sequence[Passage], judged: Collection[Passage]
) -> list[Passage]:
    """Return the differing passages that are not `judged`; if empty, the difference is known."""
    return [passage for passage in differing_passages(first, second) if passage not in judged]


def _find_ranks(passages: Sequence[Passage]) -> dict[Passage, tuple[int, ...]]:
    """Return the ranks of each passage among the first `DEPTH`; a text with copies has several."""
    ranks: dict[Passage, tuple[int, ...]] = {}
    for rank, passage in enumerate(passages[:DEPTH], 1):
        ranks[passage] = (*ranks.get(passage, ()), rank)
    return ranks
