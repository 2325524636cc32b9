"""The whole index in memory, for deep rankings of thousands of queries.

It has tantivy's scores at several times its speed: each posting's full score is computed once (it
does not depend on the query), so a query costs one addition per posting and one partial sort.
tantivy's binding builds two Python objects per hit, which dominates at a depth of 1,000.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from engine.core.arrays import Floats, Ids, Ranking
from engine.lexical.bm25 import Weights, code_bonus, idf, posting_scores
from engine.lexical.codes import is_code
from engine.lexical.query_terms import QueryTerms
from engine.lexical.writing import StoredChunk

_MAX_ROW = np.uint64(0xFFFFFFFF)
_ROW_BITS = np.uint64(32)


class _Postings:
    """The postings of all terms: the rows that contain a term, and how often.

    The postings of term number t are those from bounds[t] to bounds[t + 1].
    """

    def __init__(
        self,
        numbers: dict[str, int],
        occurrences: list[int],
        lengths: Ids,
    ) -> None:
        """Count the terms of each row.

        Args:
            numbers: the number of each term.
            occurrences: the numbers of the terms of all rows, one row after the other.
            lengths: how many terms each row (n,) has.
        """
        row_count = max(len(lengths), 1)
        rows = np.repeat(np.arange(len(lengths)), lengths)
        # One integer for each occurrence, whose order is by term, then by row.
        keys = np.array(occurrences, dtype=np.int64) * row_count + rows
        postings, self.frequencies = np.unique(keys, return_counts=True)
        self.terms, self.rows = np.divmod(postings, row_count)
        term_numbers = np.arange(len(numbers) + 1)
        self.bounds = np.searchsorted(self.terms, term_numbers)
        self._numbers = numbers

    def find_postings(self, term: str) -> slice:
        """Return the slice of a term's postings, empty for an unknown term."""
        number = self._numbers.get(term)
        if number is None:
            return slice(0, 0)
        start, end = self.bounds[number : number + 2].tolist()
        return slice(start, end)


class PostingsScorer:
    """Ranks as tantivy does, up to float32 rounding.

    `chunks` are in order of their ids.
    """

    def __init__(self, chunks: Iterable[StoredChunk]) -> None:
        keys: list[int] = []
        words = _PostingsBuilder()
        codes = _PostingsBuilder()
        for chunk in chunks:
            keys.append(chunk.id)
            words.add(chunk.words)
            codes.add(chunk.codes)
        self._keys = np.array(keys, dtype=np.int64)
        self._words = words.build()
        self._codes = codes.build()
        lengths = np.array(words.lengths, dtype=np.int64)
        chunks_with_term = np.diff(self._words.bounds)
        document_frequencies = chunks_with_term[self._words.terms]  # One for each posting.
        self._scores = posting_scores(
            self._words.frequencies, self._words.rows, document_frequencies, lengths
        )

    def rank(self, terms: QueryTerms, k: int) -> Ranking:
        """Return the k best chunks with a score above 0, by score, then id.

        They are ids (n,) and scores (n,), n ≤ k.
        """
        return self._select_best(self._sum_scores(terms), k)

    def scores(self, terms: QueryTerms, ids: Ids) -> Floats:
        """Return the scores (n,) of the chunks `ids` (n,).

        The score is 0 for a chunk that is not indexed, -inf for the id -1.
        """
        scores = np.zeros(ids.shape, np.float32)
        scores[ids < 0] = -np.inf
        if len(self._keys):
            last = len(self._keys) - 1
            rows = np.minimum(np.searchsorted(self._keys, ids), last)
            is_known = self._keys[rows] == ids
            totals = self._sum_scores(terms)
            scores[is_known] = totals[rows[is_known]]
        return scores

    def _sum_scores(self, terms: QueryTerms) -> Floats:
        """Return every chunk's score (N,)."""
        totals = np.zeros(len(self._keys), dtype=np.float32)
        for word, weight in terms.words.items():
            postings = self._words.find_postings(word)
            scores = self._scores[postings]
            if weight != 1.0:
                scores = scores * np.float32(weight)
            rows = self._words.rows[postings]
            totals[rows] += scores
        for code, parts in terms.codes.items():
            postings = self._codes.find_postings(code)
            rows = self._codes.rows[postings]
            totals[rows] += np.float32(code_bonus(self._idf(parts)))
        return totals

    def _idf(self, terms: tuple[str, ...]) -> Weights:
        """Return the idf (t,) of words and codes."""
        frequencies = []
        for term in terms:
            field = self._codes if is_code(term) else self._words
            postings = field.find_postings(term)
            frequencies.append(postings.stop - postings.start)
        return idf(np.array(frequencies, np.int64), len(self._keys))

    def _select_best(self, totals: Floats, k: int) -> Ranking:
        """Return the k best rows, with ties in id order.

        One integer per chunk holds score and row, since positive floats sort like their bits.
        """
        rows = np.flatnonzero(totals > 0)
        score_bits = totals[rows].view(np.uint32).astype(np.uint64)
        # Of equal scores, the smaller row ranks first, so it needs the larger number.
        row_bits = _MAX_ROW - rows.astype(np.uint64)
        keys = (score_bits << _ROW_BITS) | row_bits
        if 0 < k < len(keys):
            keys = np.partition(keys, len(keys) - k)[-k:]
        keys.sort()
        best = keys[::-1][: max(k, 0)]
        best_rows = (_MAX_ROW - (best & _MAX_ROW)).astype(np.int64)
        return self._keys[best_rows], totals[best_rows]


class _PostingsBuilder:
    """Collects the terms of rows, and numbers them in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._occurrences: list[int] = []
        self.lengths: list[int] = []

    def add(self, text: str) -> None:
        """Add the next row: terms joined by spaces."""
        numbers = self._numbers
        terms = text.split()
        self._occurrences += [numbers.setdefault(term, len(numbers)) for term in terms]
        self.lengths.append(len(terms))

    def build(self) -> _Postings:
        """Return the postings of all rows."""
        lengths = np.array(self.lengths, np.int64)
        return _Postings(
            self._numbers,
            self._occurrences,
            lengths,
        )
