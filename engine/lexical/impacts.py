"""BM25 as vectors of terms, for other search engines.

The score of a chunk is Σ_t (the query's weight of t) · (the chunk's impact of t), which equals that
of `LexicalIndex.search` up to float32 rounding.
"""

# A word's impact is idf_t · (k1 + 1) · tf / (tf + k1 · (1 − b + b · |c| / avg |c|)), a whole code's
# 1. A query's weight of a word is the number of its occurrences there, that of a code its
# `code_bonus`. So everything that depends on the corpus is stored with the chunks.

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.lexical.bm25 import K1, code_bonus, idf, length_norms
from engine.lexical.codes import is_number, is_whole
from engine.lexical.index import LexicalIndex


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """The terms of a chunk."""

    id: int
    words: str
    """The indexed words, with repetitions, joined by spaces."""
    codes: tuple[str, ...]
    """The codes and long numbers by which hybrid search puts chunks first."""
    impacts: dict[str, float]
    """Term → its impact in the chunk."""


def chunk_terms(index: LexicalIndex) -> Iterator[ChunkTerms]:
    """Yield the terms of every chunk of an index, by id.

    The index is read twice, chunk by chunk, so memory grows only with the vocabulary.
    """
    gains, mean_length = _read_statistics(index)
    for chunk in index.stored():
        words = chunk.words.split()
        codes = chunk.codes.split()
        (norm,) = length_norms(np.array([len(words)]), mean_length).tolist()
        impacts = {}
        for word, frequency in Counter(words).items():
            impacts[word] = gains[word] * frequency / (frequency + norm)
        impacts |= dict.fromkeys(codes, 1.0)
        codes_and_numbers = dict.fromkeys(filter(is_whole, codes))
        codes_and_numbers |= dict.fromkeys(filter(is_number, words))
        yield ChunkTerms(
            chunk.id,
            chunk.words,
            tuple(codes_and_numbers),
            impacts,
        )


def _read_statistics(index: LexicalIndex) -> tuple[dict[str, float], float]:
    """Return idf · (k1 + 1) of each word, and the mean number of words in a chunk."""
    total = 0
    frequencies: Counter[str] = Counter()
    for chunk in index.stored():
        words = chunk.words.split()
        total += len(words)
        frequencies.update(set(words))
    counts = np.fromiter(
        frequencies.values(),
        np.int64,
        len(frequencies),
    )
    gains = idf(counts, index.count) * (K1 + 1)
    return dict(zip(frequencies, gains.tolist(), strict=True)), total / max(index.count, 1)


def query_weights(index: LexicalIndex, text: str) -> dict[str, float]:
    """Return term → its weight, for each word and code of a query."""
    terms = index.query_terms(text, bonus=True)
    weights = dict(terms.words)
    for code, parts in terms.codes.items():
        weights[code] = code_bonus(index.vocabulary.idf(parts))
    return weights
