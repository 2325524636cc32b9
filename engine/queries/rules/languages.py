"""What the built-in generator knows of a language: its function words, pronouns and leading connectives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from engine.queries.rules.vocabulary import word_lists, word_set


@dataclass(frozen=True)
class Language:
    """Closed word classes, case-folded. An unknown language has none: its function words come from statistics.

    `vague`: words that point outside the sentence when they stand first. `personal`: words of a speaker, which make a
    sentence a poor source. `connectives`: leading words that a claim drops. `relatives`: words that open a tail.
    """

    code: str
    function_words: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    personal: frozenset[str] = frozenset()
    connectives: tuple[str, ...] = ()
    relatives: tuple[str, ...] = ()


NAMES = {"english": "en", "german": "de", "french": "fr", "spanish": "es"}


def language_of(code: str) -> Language:
    """The word classes of an ISO 639-1 code (a region is ignored); an unknown code gets empty ones."""
    short = code.casefold().replace("_", "-").split("-")[0]
    return _read(NAMES.get(short, short))


@cache
def _read(code: str) -> Language:
    if code not in NAMES.values():
        return Language(code)
    lists = word_lists(code)
    function_words, vague, personal = (word_set(lists[name]) for name in ("function_words", "vague", "personal"))
    return Language(code, function_words, vague, personal, _phrases(lists["connectives"]), _phrases(lists["relatives"]))


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(sorted((part.strip() for part in text.split("|")), key=len, reverse=True))


ENGLISH = language_of("en")
