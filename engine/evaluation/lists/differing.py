"""What a difference between two lists depends on: the passages that stand in one alone, or at another rank.

A passage at the same rank in both adds the same to both, so that its relevance says nothing about which is better.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import TypeVar

DEPTH = 10
"""Of nDCG@10: what stands below changes nothing."""

Passage = TypeVar("Passage", bound=Hashable)


def differing_passages(first: Sequence[Passage], second: Sequence[Passage]) -> list[Passage]:
    """The passages whose relevance can tell two lists apart, those that stand higher first.

    The lists name passages by what decides their relevance, such as their text: copies of a text are one passage.
    """
    ranks = _ranks(first)
    others = _ranks(second)
    differing = [one for one in {**ranks, **others} if ranks.get(one) != others.get(one)]
    return sorted(differing, key=lambda one: min(ranks.get(one, ()) + others.get(one, ())))


def undecided_passages(
    first: Sequence[Passage], second: Sequence[Passage], judged: Collection[Passage]
) -> list[Passage]:
    """The differing passages that nobody has judged yet; empty where the difference of the lists is known."""
    return [one for one in differing_passages(first, second) if one not in judged]


def known_difference(
    first: Sequence[Passage], second: Sequence[Passage], grades: Mapping[Passage, int]
) -> float | None:
    """nDCG@10 of the second list less that of the first; None while a differing passage has no grade (0: wrong).

    Passages at the same rank in both lists cancel out, whatever they are worth. The ideal ranking, by which both are divided, is
    that of the passages known to be right. Further right ones, at ranks that nobody was asked about, would make it longer: the
    difference is then smaller than is said here, of the same sign, and 0 where it is 0.
    """
    if undecided_passages(first, second, grades):
        return None
    ranks = _ranks(first)
    others = _ranks(second)
    gain = 0.0
    for one in differing_passages(first, second):
        gain += grades[one] * (_discount(others.get(one, ())) - _discount(ranks.get(one, ())))
    best = sorted((grade for grade in grades.values() if grade > 0), reverse=True)[:DEPTH]
    ideal = sum(grade * _discount((rank,)) for rank, grade in enumerate(best, 1))
    return gain / ideal if ideal else 0.0


def _ranks(passages: Sequence[Passage]) -> dict[Passage, tuple[int, ...]]:
    ranks: dict[Passage, tuple[int, ...]] = {}
    for rank, one in enumerate(passages[:DEPTH], 1):
        ranks[one] = (*ranks.get(one, ()), rank)
    return ranks


def _discount(ranks: tuple[int, ...]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in ranks)
