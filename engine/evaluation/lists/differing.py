"""What a difference between two lists depends on: the passages that stand in one alone, or at
another rank.

A passage at the same rank in both adds the same to both, so that its relevance says nothing about
which is better.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import TypeVar

DEPTH = 10
"""Of nDCG@10: what stands below changes nothing."""

Passage = TypeVar("Passage", bound=Hashable)


def differing_passages(first: Sequence[Passage], second: Sequence[Passage]) -> list[Passage]:
    """The passages whose relevance can tell two lists apart, those that stand higher first.

    The lists name passages by what decides their relevance, such as their text: copies of a text
    are one passage.
    """
    ranks = _ranks(first)
    others = _ranks(second)
    differing = [one for one in {**ranks, **others} if ranks.get(one) != others.get(one)]
    return sorted(differing, key=lambda one: min(ranks.get(one, ()) + others.get(one, ())))


def undecided_passages(
    first: Sequence[Passage], second: Sequence[Passage], judged: Collection[Passage]
) -> list[Passage]:
    """The differing passages that nobody has judged yet; empty where the difference of the lists
    is known.
    """
    return [one for one in differing_passages(first, second) if one not in judged]


def _ranks(passages: Sequence[Passage]) -> dict[Passage, tuple[int, ...]]:
    ranks: dict[Passage, tuple[int, ...]] = {}
    for rank, one in enumerate(passages[:DEPTH], 1):
        ranks[one] = (*ranks.get(one, ()), rank)
    return ranks
