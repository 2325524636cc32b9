"""Rejection of exact and near duplicates among queries."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import chain

from engine.core.records import Query
from engine.queries.rejection import Filtered, Reason, Rejected
from engine.queries.rules.tokens import extract_key_terms, fold, share_key_terms, tokenize


def deduplicate(
    queries: Sequence[Query], threshold: float = 0.8, check: Callable[[], None] = lambda: None
) -> Filtered:
    """Reject each query that equals an earlier kept one after folding, or nearly equals it.

    Near duplicates have a Jaccard similarity of shingles of at least `threshold`, and the same
    codes, numbers and names. Shingles are runs of three words (all words if there are fewer).
    `check` is called for each query, and may raise to end the work.
    """
    shingles = []
    key_terms = []
    for query in queries:
        check()
        shingles.append(_find_shingles(query.text))
        key_terms.append(extract_key_terms(query.text))
    counts = Counter(chain.from_iterable(shingles))

    def find_near_duplicate(row: int, candidates: set[int]) -> int | None:
        """Return the first of the `candidates`, rows of kept queries, that `row` nearly equals."""
        for other in sorted(candidates):
            if jaccard(shingles[row], shingles[other]) < threshold:
                continue
            if share_key_terms(key_terms[other], key_terms[row]):
                return other
        return None

    rows_by_shingle: dict[str, list[int]] = defaultdict(list)  # kept rows, by their rarest shingles
    first_rows: dict[str, int] = {}  # folded text → its first row
    kept: dict[int, Query] = {}
    rejected: list[Rejected] = []
    for row, query in enumerate(queries):
        check()
        # Two near sets share one of the n − ⌈threshold · n⌉ + 1 rarest shingles of each (Bayardo,
        # Ma & Srikant 2007): only such pairs are compared.
        by_rarity = sorted(shingles[row], key=lambda shingle: (counts[shingle], shingle))
        size = len(by_rarity)
        min_common = math.ceil(threshold * size - 1e-9)  # 7.000000000000001 counts as 7
        rarest = by_rarity[: size - min_common + 1]
        candidates: set[int] = set()
        for shingle in rarest:
            candidates.update(rows_by_shingle[shingle])
        original: int | None = first_rows.setdefault(fold(query.text), row)
        if original not in kept:
            # The text is new, or its first query was itself rejected.
            original = find_near_duplicate(row, candidates)
        if original is None:
            kept[row] = query
            for shingle in rarest:
                rows_by_shingle[shingle].append(row)
        else:
            rejected.append(Rejected(query, Reason.DUPLICATE, queries[original].text))
    return Filtered(list(kept.values()), rejected)


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return |A ∩ B| / |A ∪ B|; 1.0 for two empty sets."""
    union = len(first | second)
    if union:
        return len(first & second) / union
    return 1.0


def words_in(text: str) -> list[str]:
    """Return the words of a text, folded."""
    words = []
    for token in tokenize(fold(text)):
        if token.text[-1].isalnum():
            words.append(token.folded)
    return words


def _find_shingles(text: str) -> frozenset[str]:
    """Return the runs of three words of a text; the whole text if it has fewer words."""
    words = words_in(text)
    if len(words) < 3:
        whole = " ".join(words) or fold(text)
        return frozenset((whole,))
    return frozenset(map(" ".join, zip(words, words[1:], words[2:], strict=False)))
