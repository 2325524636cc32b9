"""Synonyms learnt from a corpus, without a dictionary or a model.

Words are compared by their contexts (Harris 1954): rows of positive pointwise mutual information
with the words within `WINDOW` positions, context counts raised to 0.75 so that rare contexts do not
dominate (Levy, Goldberg & Dagan 2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from engine.core.arrays import Floats
from engine.encoders.geometry.similarity import unit_rows
from engine.lab.checks.perturbation import words_of

WINDOW = 4
"""Number of words on each side of a word that are its context."""
MIN_COUNT = 5
"""Minimum number of occurrences of a word."""
MAX_WORDS = 10_000
"""Number of the most frequent words that are compared."""
MAX_CONTEXTS = 1_000
"""Number of the most frequent words that count as contexts."""
MIN_COSINE = 0.2
"""Minimum cosine of the contexts of a word and its synonym."""
MAX_NEIGHBOURS = 10
"""Number of a word's nearest neighbours among which one of another stem is looked for."""
_SMOOTHING = 0.75
"""Exponent of context counts."""
_BLOCK = 500_000
"""Number of pairs that are counted at once, which limits the memory."""
Terms = Callable[[str], Collection[str]]


def corpus_synonyms(
    texts: Iterable[str],
    wanted: Collection[str],
    terms: Terms,
) -> dict[str, str]:
    """Return the most similarly used word of another stem for each wanted word that has one.

    Keys are in lower case. `terms` returns the stems of a word, none for a stop word. Words rarer
    than `MIN_COUNT`, and neighbours of a cosine below `MIN_COSINE`, are left out.
    """
    rows = [words_of(text) for text in texts]
    counts: Counter[str] = Counter()
    for row in rows:
        counts.update(row)
    stems = {}
    # Twice as many as needed, since some frequent words are stop words, which have no stem.
    for word, count in counts.most_common(2 * MAX_WORDS):
        stem = frozenset(terms(word))
        if stem and count >= MIN_COUNT:
            stems[word] = stem
    words = list(stems)[:MAX_WORDS]
    row_of = {word: row for row, word in enumerate(words)}
    frequent = sorted({word.lower() for word in wanted} & row_of.keys())
    if not frequent or len(words) < 2:
        return {}
    contexts = min(MAX_CONTEXTS, len(words))
    profiles = _build_profiles(count_cooccurrences(rows, row_of, contexts, len(words)))
    frequent_rows = [row_of[word] for word in frequent]
    cosines = profiles[frequent_rows] @ profiles.T  # (frequent, words)
    synonyms = {}
    for word, similarities in zip(frequent, cosines, strict=True):
        for nearest in np.argsort(-similarities, kind="stable")[:MAX_NEIGHBOURS]:
            neighbour = words[nearest]
            shared_stems = stems[neighbour] & stems[word]
            if similarities[nearest] >= MIN_COSINE and not shared_stems:
                synonyms[word] = neighbour
                break
    return synonyms


def count_cooccurrences(
    texts: Sequence[Sequence[str]], row_of: dict[str, int], contexts: int, count: int
) -> Floats:
    """Return how often each of `count` words is near each context word (count, contexts).

    `texts` are lists of words. `row_of` numbers the words by frequency; the first `contexts` of
    them are the context words. Words without a number are not counted.
    """
    numbers: list[int] = []
    for words in texts:
        numbers += [row_of.get(word, -1) for word in words]
        # No window may reach from one text into the next.
        numbers += [-1] * WINDOW
    flat = np.array(numbers, dtype=np.int64)
    counts = np.zeros(count * contexts, dtype=np.float32)
    for offset in range(1, WINDOW + 1):
        before = flat[:-offset]
        after = flat[offset:]
        for word, context in ((before, after), (after, before)):
            counted = (word >= 0) & (context >= 0) & (context < contexts)
            # Places of the pairs in the matrix, row after row.
            cells = word[counted] * contexts + context[counted]
            for start in range(0, len(cells), _BLOCK):
                block = cells[start : start + _BLOCK]
                distinct, times = np.unique(block, return_counts=True)
                counts[distinct] += times
    return counts.reshape(count, contexts)


def _build_profiles(counts: Floats) -> Floats:
    """Return unit rows (words, contexts) of positive pointwise mutual information.

    PPMI(w, c) = max(0, log(#(w, c) / (#(w) · p(c)))), p(c) = #(c)^0.75 / Σ #(c′)^0.75 (Levy,
    Goldberg & Dagan 2015). The row of a word without any is 0.
    """
    words = counts.sum(axis=1, keepdims=True)  # #(w), (words, 1)
    contexts = counts.sum(axis=0, keepdims=True) ** _SMOOTHING  # #(c)^0.75, (1, contexts)
    expected = words * (contexts / max(float(contexts.sum()), 1.0))  # #(w) · p(c)
    defined = (expected > 0) & (counts > 0)
    # Where nothing was counted, the ratio is 1 and its logarithm 0.
    ratios = np.divide(
        counts,
        expected,
        out=np.ones_like(counts),
        where=defined,
    )
    return unit_rows(np.maximum(np.log(ratios), 0))
