"""Queries that say the same thing twice: exact and near duplicates."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain

from engine.core.records import Query
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import fold, same_things, things, tokenize


def deduplicate(
    queries: Sequence[Query], threshold: float = 0.8, check: Callable[[], None] = lambda: None
) -> Filtered:
    """Reject each query that equals an earlier kept one after folding, or is as near to it as
    `threshold` (Jaccard).

    Queries with other codes, numbers or names are never near: they ask about other things in the
    same words. Shingles are runs of three words (of all words when there are fewer). Of two sets as
    near as that, each has one of its n − ⌈threshold · n⌉ + 1 rarest shingles in common with the
    other's (Bayardo, Ma & Srikant 2007): only such pairs are compared. `check` is called now and
    then: what it raises ends the work.
    """
    shingles = []
    about = []
    for query in queries:
        check()
        shingles.append(_shingles(query.text))
        about.append(things(query.text))
    counts = Counter(chain.from_iterable(shingles))
    holders: dict[str, list[int]] = defaultdict(list)
    first: dict[str, int] = {}
    kept: dict[int, Query] = {}
    dropped: list[Rejected] = []
    for position, query in enumerate(queries):
        check()
        rarest = sorted(shingles[position], key=lambda one: (counts[one], one))
        rarest = rarest[: len(rarest) - math.ceil(threshold * len(rarest) - 1e-9) + 1]
        near = (
            other
            for other in sorted({other for one in rarest for other in holders[one]})
            if jaccard(shingles[position], shingles[other]) >= threshold
            and same_things(about[other], about[position])
        )
        same = first.setdefault(fold(query.text), position)
        original = same if same in kept else next(near, None)
        if original is None:
            kept[position] = query
            for one in rarest:
                holders[one].append(position)
        else:
            dropped.append(Rejected(query, Reason.DUPLICATE, queries[original].text))
    return Filtered(list(kept.values()), dropped)


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """|A ∩ B| / |A ∪ B|; 1.0 for two empty sets."""
    union = len(first | second)
    if union:
        return len(first & second) / union
    return 1.0


def words_in(text: str) -> list[str]:
    """The words of a text, folded."""
    return [token.folded for token in tokenize(fold(text)) if token.text[-1].isalnum()]


def _shingles(text: str) -> frozenset[str]:
    words = words_in(text)
    if len(words) < 3:
        return frozenset((" ".join(words) or fold(text),))
    return frozenset(" ".join(words[at : at + 3]) for at in range(len(words) - 2))
