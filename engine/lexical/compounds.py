"""Compounds of languages that write them as one word, such as German.

A word that no chunk contains stands for the compounds with it: `Laufzeit` for Vertragslaufzeit. A
compound that no chunk contains stands for its parts: `Vertragslaufzeit` for Vertrag and Laufzeit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from engine.lexical.characters import IS_UNSPACED, find_acronym_plurals, fold, normalise
from engine.lexical.codes import strip_language
from engine.lexical.vocabulary import Vocabulary

LANGUAGES = frozenset(("da", "de", "fi", "nl", "no", "sv"))
MAX_COMPOUNDS = 20
"""Maximum number of compounds that a word stands for."""
# Minimum lengths in letters.
_MIN_LENGTH = 5  # of a word or stem that is looked up
_MIN_OTHER_PART = 3  # of what a compound has besides this stem
_MIN_PART = 4  # of each part that a compound is split into
_MIN_INNER_PART = 8  # of a stem in the middle of a compound
_MIN_SINGULAR = 3  # of singular and plural


@dataclass(frozen=True, slots=True)
class Compound:
    """The term of a compound."""

    term: str
    part: str = ""
    """Stem that the spelling in a chunk must contain; empty if the term shows that it does."""


def find_compounds(vocabulary: Vocabulary, word: str) -> list[Compound]:
    """Return the compounds that contain a word which no chunk contains by itself.

    Compounds without a `part` to check come first, then the most frequent. Empty for a word that is
    short or has a short stem.
    """
    if not _is_looked_up(vocabulary, word):
        return []
    # Term of a compound → its `Compound.part`.
    parts: dict[str, str] = {}
    for language in sorted(LANGUAGES.intersection(vocabulary.languages)):
        part = _stem(vocabulary, word, language)
        # A short stem is in words of all kinds: that of Eisen is in Ausweis.
        if len(part) < _MIN_LENGTH:
            continue
        for term in _find_longer(vocabulary, part, language):
            stem = strip_language(term)
            is_at_end = stem.startswith(part) or stem.endswith(part)
            if is_at_end or len(part) >= _MIN_INNER_PART:
                parts[term] = ""
        # Kündigung has the stem `kundig`, but that of Mietvertragskündigung ends in `kund`.
        ending = vocabulary.stem_ending(word, language)
        if ending != part and len(ending) >= _MIN_PART:
            for term in _find_longer(vocabulary, ending, language):
                if strip_language(term).endswith(ending):
                    parts.setdefault(term, part)

    def order(term: str) -> tuple[bool, int, str]:
        return parts[term] != "", -vocabulary.document_frequency(term), term

    best = sorted(parts, key=order)[:MAX_COMPOUNDS]
    return [Compound(term, parts[term]) for term in best]


def _stem(
    vocabulary: Vocabulary,
    word: str,
    language: str,
) -> str:
    """Return the stem of a word without the mark of its language."""
    return "".join(map(strip_language, vocabulary.analyse(word, language)))


def _find_longer(
    vocabulary: Vocabulary,
    part: str,
    language: str,
) -> Iterator[str]:
    """Yield the terms that contain a part and are long enough to have another part."""
    for term in vocabulary.find_containing(part, language):
        if len(strip_language(term)) >= len(part) + _MIN_OTHER_PART:
            yield term


def split_compound(vocabulary: Vocabulary, word: str) -> tuple[str, ...]:
    """Return the two parts of a compound that no chunk contains, or nothing.

    Chunks contain both parts, and neither is a stop word. The second part is as long as possible,
    since it says what the compound is.
    """
    if not _is_looked_up(vocabulary, word):
        return ()
    for cut in range(_MIN_PART, len(word) - _MIN_PART + 1):
        # Stems lack the letter that may join the parts, as in Vertrags-laufzeit.
        if vocabulary.has_chunks_with(word[cut:]) and vocabulary.has_chunks_with(word[:cut]):
            return word[:cut], word[cut:]
    return ()


def find_other_number(vocabulary: Vocabulary, word: str) -> str:
    """Return the word with or without a final s, if chunks contain only that: `Kitas` for `Kita`.

    Otherwise an empty text. Stemmers keep this s after most letters: Kitas, Büros, Lkws. For an
    acronym such as `PDFs`, return the singular in any language if the stemmer keeps its s, also if
    chunks contain both.
    """
    if acronym := next(find_acronym_plurals(word), None):
        other = acronym[1]
        is_another_term = vocabulary.analyse(word) != vocabulary.analyse(other)
        return other if is_another_term and vocabulary.has_chunks_with(other) else ""
    if not word.isalpha() or IS_UNSPACED.search(word) or not _has_compounds(vocabulary):
        return ""
    if vocabulary.contains(word):
        return ""
    other = word[:-1] if word.endswith(("s", "S")) else f"{word}s"
    if min(len(word), len(other)) >= _MIN_SINGULAR and vocabulary.has_chunks_with(other):
        return other
    return ""


def has_compounds(vocabulary: Vocabulary, word: str) -> bool:
    """Return whether a word stands for compounds, for its parts, or for its singular or plural."""
    lookups = (find_compounds, split_compound, find_other_number)
    return any(look_up(vocabulary, word) for look_up in lookups)


def _is_looked_up(vocabulary: Vocabulary, word: str) -> bool:
    """Return whether compounds are looked for: for a word of some length that no chunk contains."""
    if len(fold(normalise(word))) < _MIN_LENGTH or not word.isalpha():
        return False
    return _has_compounds(vocabulary) and not vocabulary.contains(word)


def _has_compounds(vocabulary: Vocabulary) -> bool:
    """Return whether some chunks are in a language with compounds, and terms may be listed."""
    return vocabulary.is_listed and not LANGUAGES.isdisjoint(vocabulary.languages)
