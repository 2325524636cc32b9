"""Queries that say the same thing twice: exact and near duplicates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from engine.core.records import Query
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import fold, same_things, things, tokenize

_PERMUTATIONS, _BANDS = 32, 16
_PRIME = np.uint64(4_294_967_291)


def deduplicate(queries: Sequence[Query], threshold: float = 0.8, check: Callable[[], None] = lambda: None) -> Filtered:
    """Reject each query that equals an earlier kept one after folding, or is as near to it as `threshold` (Jaccard).

    Queries with other codes, numbers or names are never near: they ask about other things in the same words.
    Shingles are runs of three words (of all words when there are fewer). Candidate pairs come from MinHash with
    banding (Broder 1997; 16 bands of 2 rows: a pair at Jaccard 0.8 is missed with probability
    (1 - 0.8^2)^16 < 10^-7), and are then compared exactly. `check` is called now and then: what it raises ends the work.
    """
    shingles, about = [], []
    for query in queries:
        check()
        shingles.append(_shingles(query.text))
        about.append(things(query.text))
    candidates = _candidates(shingles, check)
    first: dict[str, int] = {}
    kept: dict[int, Query] = {}
    dropped: list[Rejected] = []
    for position, query in enumerate(queries):
        check()
        earlier = [other for other in sorted(candidates[position]) if other in kept]
        near = (
            other
            for other in earlier
            if jaccard(shingles[position], shingles[other]) >= threshold and same_things(about[other], about[position])
        )
        same = first.setdefault(fold(query.text), position)
        original = same if same in kept else next(near, None)
        if original is None:
            kept[position] = query
        else:
            dropped.append(Rejected(query, Reason.DUPLICATE, queries[original].text))
    return Filtered(list(kept.values()), dropped)


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """|A ∩ B| / |A ∪ B|; 1.0 for two empty sets."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def _shingles(text: str) -> frozenset[str]:
    words = [token.folded for token in tokenize(fold(text)) if token.text[-1].isalnum()]
    if len(words) < 3:
        return frozenset((" ".join(words) or fold(text),))
    return frozenset(" ".join(words[at : at + 3]) for at in range(len(words) - 2))


def _candidates(shingles: Sequence[frozenset[str]], check: Callable[[], None]) -> dict[int, set[int]]:
    """For each position, earlier positions that share a band of the MinHash signature."""
    pairs: dict[int, set[int]] = defaultdict(set)
    if not shingles:
        return pairs
    bands = _signatures(shingles).reshape(len(shingles), _BANDS, -1)
    for band in range(_BANDS):
        check()
        buckets: dict[bytes, list[int]] = defaultdict(list)
        for position in range(len(shingles)):
            bucket = buckets[bands[position, band].tobytes()]
            pairs[position].update(bucket[:200])
            bucket.append(position)
    return pairs


def _signatures(shingles: Sequence[frozenset[str]]) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
    """(n, 32) MinHash signatures: the least of (a·h + b) mod p over each set, h an id of the shingle."""
    ids: dict[str, int] = {}
    flat = np.array([ids.setdefault(item, len(ids)) for group in shingles for item in sorted(group)], dtype=np.uint64)
    starts = np.cumsum([0] + [len(group) for group in shingles[:-1]])
    random = np.random.default_rng(20)
    factors = random.integers(1, int(_PRIME), _PERMUTATIONS, dtype=np.uint64)
    shifts = random.integers(0, int(_PRIME), _PERMUTATIONS, dtype=np.uint64)
    columns = [
        np.minimum.reduceat((flat * factor + shift) % _PRIME, starts)
        for factor, shift in zip(factors, shifts, strict=True)
    ]
    return np.stack(columns, axis=1)
