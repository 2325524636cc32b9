"""Compounds of languages that write them as one word, such as German.

A word that no chunk contains stands for the compounds with it: `Laufzeit` for Vertragslaufzeit. A
compound that no chunk contains stands for its parts: `Vertragslaufzeit` for Vertrag and Laufzeit.
"""

from __future__ import annotations

from engine.lexical.characters import fold, normalise
from engine.lexical.codes import strip_language
from engine.lexical.index import LexicalIndex

LANGUAGES = frozenset(("da", "de", "fi", "nl", "no", "sv"))
MAX_COMPOUNDS = 20
"""Maximum number of compounds that a word stands for."""
MAX_CHUNKS = 200_000
"""Number of chunks beyond which no compounds are looked for: all terms are held in memory."""
_MIN_LENGTH = 5
_MIN_OTHER_PART = 3
_MIN_PART = 4


def find_compounds(index: LexicalIndex, word: str) -> list[str]:
    """Return the terms of the compounds with a word that no chunk contains.

    The most frequent come first. There are none for a word that is short or has a short stem.
    """
    if not is_looked_up(index, word):
        return []
    compounds: dict[str, int] = {}
    for language in sorted(LANGUAGES.intersection(index.languages)):
        part = "".join(map(strip_language, index.analyse(word, language)))
        # A short stem is in words of all kinds: that of Eisen is in Ausweis.
        if len(part) < _MIN_LENGTH:
            continue
        for term in index.find_terms(part, language):
            stem = strip_language(term)
            is_longer = len(stem) >= len(part) + _MIN_OTHER_PART
            if is_longer and (stem.startswith(part) or stem.endswith(part)):
                compounds[term] = index.document_frequency(term)
    by_frequency = sorted(compounds, key=lambda term: (-compounds[term], term))
    return by_frequency[:MAX_COMPOUNDS]


def split_compound(index: LexicalIndex, word: str) -> tuple[str, ...]:
    """Return the two parts of a compound that no chunk contains, if chunks contain both.

    The second part is as long as possible, since it says what the compound is. Neither is a stop
    word.
    """
    if not is_looked_up(index, word):
        return ()
    for cut in range(_MIN_PART, len(word) - _MIN_PART + 1):
        # Stems lack the letter that may join the parts, as in Vertrags-laufzeit.
        if index.has_chunks_with(word[cut:]) and index.has_chunks_with(word[:cut]):
            return word[:cut], word[cut:]
    return ()


def has_compounds(index: LexicalIndex, word: str) -> bool:
    """Tell whether a word stands for compounds or for its parts."""
    return bool(find_compounds(index, word) or split_compound(index, word))


def is_looked_up(index: LexicalIndex, word: str) -> bool:
    """Tell whether compounds are looked for: for a word of some length that no chunk contains."""
    if len(fold(normalise(word))) < _MIN_LENGTH or not word.isalpha():
        return False
    has_language = not LANGUAGES.isdisjoint(index.languages)
    return has_language and index.count <= MAX_CHUNKS and not index.contains(word)
