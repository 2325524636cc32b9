"""The built-in generator's knowledge of languages: closed word classes.

Lists are written as text with white space between words; longer ones are in assets/words/.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from engine.core.assets import asset_path


def word_set(text: str) -> frozenset[str]:
    """Return the words of a list."""
    return frozenset(text.split())


def split_phrases(text: str) -> tuple[str, ...]:
    """Return the phrases of a list, which are separated by |."""
    return tuple(part.strip() for part in text.split("|"))


@cache
def word_lists(name: str) -> Mapping[str, str]:
    """Read the lists of assets/words/NAME.toml, with one blank between words."""
    lists = tomllib.loads(asset_path(f"words/{name}.toml").read_text("utf-8"))
    return {key: " ".join(text.split()) for key, text in lists.items()}


def english_words(name: str) -> frozenset[str]:
    """Return a list of assets/words/english.toml."""
    return word_set(word_lists("english")[name])


GIVEN_NAMES = english_words("given_names")
"""A capitalised word after a given name is the name of a person."""


@dataclass(frozen=True)
class Language:
    """Closed word classes of a language, case-folded; an unknown language has none."""

    code: str
    function_words: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    """Words that point outside the sentence if they come first: "this"."""
    personal: frozenset[str] = frozenset()
    """Words of a speaker, which make a sentence a poor source: "i"."""
    connectives: tuple[str, ...] = ()
    """Leading words that a claim drops: "however"."""
    relatives: tuple[str, ...] = ()
    """Words that open a relative clause: "which"."""
    questions: tuple[str, ...] = ()
    """Templates with gaps for two phrases."""


# Languages with lists in assets/words/CODE.toml, by the names of their stemmers.
CODES = {
    "english": "en",
    "german": "de",
    "french": "fr",
    "spanish": "es",
}


def language_of(code: str) -> Language:
    """Return the word classes of an ISO 639-1 code, with or without a region."""
    short = code.casefold().replace("_", "-").split("-")[0]
    return _read_language(CODES.get(short, short))


@cache
def _read_language(code: str) -> Language:
    """Read the lists of assets/words/CODE.toml."""
    if code not in CODES.values():
        return Language(code)
    lists = word_lists(code)
    return Language(
        code,
        function_words=word_set(lists["function_words"]),
        vague=word_set(lists["vague"]),
        personal=word_set(lists["personal"]),
        connectives=_longest_first(lists["connectives"]),
        relatives=_longest_first(lists["relatives"]),
        questions=split_phrases(lists["questions"]),
    )


def _longest_first(text: str) -> tuple[str, ...]:
    """Return the phrases of a list so that a pattern tries longer ones first."""
    return tuple(sorted(split_phrases(text), key=len, reverse=True))


ENGLISH = language_of("en")
