"""BM25 as vectors of terms, for search engines elsewhere: a chunk's score is Σ_t (the query's
weight of t) · (the chunk's impact of t), which is what `LexicalIndex.search` gives it, to
float32 rounding.

A word's impact is idf_t · (k1 + 1) · tf / (tf + k1 · (1 − b + b · |c| / avg |c|)), a whole code's
1; a query's weight of a word is how often it occurs there, of a code its `code_bonus`. So what
depends on the corpus lies with the chunks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.lexical.bm25 import K1, code_bonus, idf, length_norms
from engine.lexical.codes import is_number
from engine.lexical.index import LexicalIndex


@dataclass(frozen=True, slots=True)
class ChunkTerms:
    """Of a chunk `id`: its `words` as they are indexed, repeated as they occur, joined by
    spaces; its `codes`, long numbers among them, which decide what hybrid search puts first; the
    impact of each of its terms.
    """

    id: int
    words: str
    codes: tuple[str, ...]
    impacts: dict[str, float]


def chunk_terms(index: LexicalIndex) -> Iterator[ChunkTerms]:
    """Every chunk of an index, by id.

    The index is read twice, chunk by chunk: memory grows with the vocabulary alone.
    """
    total = 0
    frequencies = Counter[str]()
    for _, text, _ in index.stored():
        words = text.split()
        total += len(words)
        frequencies.update(set(words))
    counts = np.fromiter(frequencies.values(), np.int64, len(frequencies))
    gains = dict(zip(frequencies, (idf(counts, index.count) * (K1 + 1)).tolist(), strict=True))
    mean = total / max(index.count, 1)
    for key, text, code_text in index.stored():
        words = text.split()
        codes = code_text.split()
        norm = float(length_norms(np.array([len(words)]), mean)[0])
        impacts = {
            word: gains[word] * times / (times + norm) for word, times in Counter(words).items()
        }
        held = dict.fromkeys((*codes, *filter(is_number, words)))
        yield ChunkTerms(key, text, tuple(held), {**impacts, **dict.fromkeys(codes, 1.0)})


def query_weights(index: LexicalIndex, text: str) -> dict[str, float]:
    """The weight of each term of a query."""
    terms = index.query_terms(text, bonus=True)
    return {
        **terms.words,
        **{code: code_bonus(index.idf(parts)) for code, parts in terms.codes.items()},
    }
