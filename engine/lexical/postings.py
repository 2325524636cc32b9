"""The whole index in memory, for deep rankings of thousands of queries.

It has tantivy's scores at several times its speed: each posting's full score is computed once (it
does not depend on the query), so a query costs one addition per posting and one partial sort.
tantivy's binding builds two Python objects per hit, which dominates at a depth of 1,000.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from engine.lexical.analysis import QueryTerms
from engine.lexical.bm25 import Ranking, code_bonus, idf, posting_scores

_ALL_ONES = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


class _Postings:
    """The rows that contain a term, and how often; those of term t are bounds[t]:bounds[t + 1]."""

    def __init__(
        self, numbers: dict[str, int], flat: list[int], lengths: npt.NDArray[np.int64]
    ) -> None:
        count = max(len(lengths), 1)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        postings, self.frequencies = np.unique(
            np.array(flat, dtype=np.int64) * count + rows, return_counts=True
        )
        self.terms, self.rows = np.divmod(postings, count)
        self.bounds = np.searchsorted(self.terms, np.arange(len(numbers) + 1))
        self._numbers = numbers

    def where(self, term: str) -> slice:
        """Return the slice of a term's postings, empty for an unknown term."""
        number = self._numbers.get(term)
        if number is None:
            return slice(0, 0)
        return slice(int(self.bounds[number]), int(self.bounds[number + 1]))


class PostingsScorer:
    """Ranks as tantivy does, up to float32 rounding.

    It takes (id, words, codes) by id, with terms joined by spaces.
    """

    def __init__(self, chunks: Iterable[tuple[int, str, str]]) -> None:
        keys: list[int] = []
        words = _Collector()
        codes = _Collector()
        for key, word_text, code_text in chunks:
            keys.append(key)
            words.add(word_text)
            codes.add(code_text)
        self._keys = np.array(keys, dtype=np.int64)
        self._words = words.postings()
        self._codes = codes.postings()
        lengths = np.array(words.lengths, dtype=np.int64)
        df = np.diff(self._words.bounds)[self._words.terms]
        self._scores = posting_scores(self._words.frequencies, self._words.rows, df, lengths)

    def rank(self, terms: QueryTerms, k: int) -> Ranking:
        """Return the k best chunks with a score above 0, by score, then id.

        They are ids (n,) and scores (n,), n ≤ k.
        """
        return self._top(self._totals(terms), k)

    def scores(self, terms: QueryTerms, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Return the scores (n,) of the chunks `ids` (n,).

        The score is 0 for a chunk that is not indexed, -inf for the id -1.
        """
        found = np.where(ids < 0, np.float32(-np.inf), np.float32(0))
        if len(self._keys):
            slots = np.minimum(np.searchsorted(self._keys, ids), len(self._keys) - 1)
            known = self._keys[slots] == ids
            found[known] = self._totals(terms)[slots[known]]
        return found

    def _totals(self, terms: QueryTerms) -> npt.NDArray[np.float32]:
        """Return every chunk's score (N,)."""
        totals = np.zeros(len(self._keys), dtype=np.float32)
        for word, weight in terms.words.items():
            here = self._words.where(word)
            scores = self._scores[here]
            totals[self._words.rows[here]] += (
                scores if weight == 1.0 else scores * np.float32(weight)
            )
        for code, parts in terms.codes.items():
            totals[self._codes.rows[self._codes.where(code)]] += np.float32(
                code_bonus(self._idf(parts))
            )
        return totals

    def _idf(self, words: tuple[str, ...]) -> npt.NDArray[np.float64]:
        found = [self._words.where(word) for word in words]
        return idf(
            np.array([here.stop - here.start for here in found], dtype=np.int64), len(self._keys)
        )

    def _top(self, totals: npt.NDArray[np.float32], k: int) -> Ranking:
        """Return the k best rows, with ties in id order.

        One integer per chunk holds score and row, since positive floats sort like their bits.
        """
        found = np.flatnonzero(totals > 0)
        order = totals[found].view(np.uint32).astype(np.uint64) << _HALF
        order |= _ALL_ONES - found.astype(np.uint64)
        if 0 < k < len(order):
            order = np.partition(order, len(order) - k)[-k:]
        order.sort()
        rows = (_ALL_ONES - (order[::-1] & _ALL_ONES)).astype(np.int64)[: max(k, 0)]
        return self._keys[rows], totals[rows]


class _Collector:
    """Numbers terms in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._flat: list[int] = []
        self.lengths: list[int] = []

    def add(self, text: str) -> None:
        numbers = self._numbers
        found = [numbers.setdefault(term, len(numbers)) for term in text.split()]
        self._flat += found
        self.lengths.append(len(found))

    def postings(self) -> _Postings:
        return _Postings(self._numbers, self._flat, np.array(self.lengths, dtype=np.int64))
