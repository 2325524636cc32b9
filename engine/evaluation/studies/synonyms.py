"""Words that stand where another stands: a corpus' own synonyms, without a dictionary or a
model.

Words are compared by the company they keep (Harris 1954): rows of positive pointwise mutual
information with the words within `WINDOW` places, context counts raised to 0.75 so that rare
contexts do not rule (Levy, Goldberg & Dagan 2015).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from engine.core.similarity import unit_rows
from engine.evaluation.studies.perturbation import words_of

WINDOW = 4
MIN_COUNT = 5
MAX_WORDS = 10_000
MAX_CONTEXTS = 1_000
MIN_COSINE = 0.2
_SMOOTHING = 0.75
_BLOCK = 500_000
Terms = Callable[[str], Collection[str]]


def corpus_synonyms(texts: Iterable[str], wanted: Collection[str], terms: Terms) -> dict[str, str]:
    """Lower-case word → the word of another stem that is used most like it in `texts`, for those
    of `wanted` that have one.

    `terms` gives the stems of a word, none for a stop word. Words that are rarer than `MIN_COUNT`,
    and neighbours of a cosine below `MIN_COSINE`, are left out.
    """
    rows = [words_of(text) for text in texts]
    counts = Counter(word for row in rows for word in row)
    stems = {word: frozenset(terms(word)) for word, _ in counts.most_common(2 * MAX_WORDS)}
    words = [
        word
        for word, count in counts.most_common(2 * MAX_WORDS)
        if count >= MIN_COUNT and stems[word]
    ]
    words = words[:MAX_WORDS]
    place = {word: number for number, word in enumerate(words)}
    known = sorted({word.lower() for word in wanted} & place.keys())
    if not known or len(words) < 2:
        return {}
    profile = _profiles(cooccurrences(rows, place, min(MAX_CONTEXTS, len(words)), len(words)))
    found = {}
    cosines = profile[[place[word] for word in known]] @ profile.T
    for word, line in zip(known, cosines, strict=True):
        for best in np.argsort(-line, kind="stable")[:10]:
            if line[best] >= MIN_COSINE and not stems[words[best]] & stems[word]:
                found[word] = words[best]
                break
    return found


def cooccurrences(
    rows: Sequence[Sequence[str]], place: dict[str, int], contexts: int, count: int
) -> NDArray[np.float32]:
    """(words, contexts) how often a word stands within the window of each of the most frequent
    words.
    """
    boundary = [-1] * WINDOW  # no window reaches from one text into the next
    flat = np.array(
        [number for row in rows for number in (*(place.get(word, -1) for word in row), *boundary)],
        dtype=np.int64,
    )
    counts = np.zeros(count * contexts, dtype=np.float32)
    for offset in range(1, WINDOW + 1):
        for one, other in ((flat[:-offset], flat[offset:]), (flat[offset:], flat[:-offset])):
            kept = (one >= 0) & (other >= 0) & (other < contexts)
            keys = one[kept] * contexts + other[kept]
            for start in range(0, len(keys), _BLOCK):
                number, times = np.unique(keys[start : start + _BLOCK], return_counts=True)
                counts[number] += times
    return counts.reshape(count, contexts)


def _profiles(counts: NDArray[np.float32]) -> NDArray[np.float32]:
    """Unit rows of positive pointwise mutual information, 0 where a word has none."""
    words = counts.sum(axis=1, keepdims=True)
    contexts = counts.sum(axis=0, keepdims=True) ** _SMOOTHING
    expected = words * (contexts / max(float(contexts.sum()), 1.0))
    shares = np.divide(
        counts, expected, out=np.ones_like(counts), where=(expected > 0) & (counts > 0)
    )
    information = np.maximum(np.log(shares), 0)
    return unit_rows(information)
