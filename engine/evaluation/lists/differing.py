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

    The lists name passages by what decides their relevance, such as their text, so that copies of a
    text are one passage.
    """
    first_ranks = _ranks_of(first)
    second_ranks = _ranks_of(second)
    best_ranks = {}
    for passage in first_ranks | second_ranks:
        ranks = first_ranks.get(passage, ())
        other_ranks = second_ranks.get(passage, ())
        if ranks != other_ranks:
            best_ranks[passage] = min(ranks + other_ranks)
    return sorted(best_ranks, key=best_ranks.__getitem__)


def undecided_passages(
    first: Sequence[Passage], second: Sequence[Passage], judged: Collection[Passage]
) -> list[Passage]:
    """Return the differing passages that nobody has judged, empty if the difference is known."""
    return [passage for passage in differing_passages(first, second) if passage not in judged]


def _ranks_of(passages: Sequence[Passage]) -> dict[Passage, tuple[int, ...]]:
    """Return the ranks of each passage among the first `DEPTH`."""
    ranks: dict[Passage, tuple[int, ...]] = {}
    for rank, passage in enumerate(passages[:DEPTH], 1):
        ranks[passage] = (*ranks.get(passage, ()), rank)
    return ranks
