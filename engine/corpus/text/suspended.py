"""Suspended hyphens at the end of a line: `Kunden-` and `und Lieferantendaten` in the next line
are not `Kundenund`.

A conjunction in the next line may also be the end of the word (`Frau-en`, `in-to`, `sail-or`), so
it counts only in texts of its language, and the doubtful ones only where what stands before or
behind them is as it is with a suspended hyphen.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.core.assets import asset_path

_WORDS = "words/suspended.toml"
_BEGINS_A_WORD = "-\u2010([\"'„“«"


@dataclass(frozen=True, slots=True)
class _Language:
    """The conjunctions of a language, those that other words end in apart, and words that tell
    it.
    """

    always: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Words:
    """What assets/words/suspended.toml holds."""

    languages: Mapping[str, _Language]
    first_parts: frozenset[str]
    of_any_language: frozenset[str]
    ends_of_words: frozenset[str]


@cache
def _read_words() -> _Words:
    table: dict[str, Any] = tomllib.loads(asset_path(_WORDS).read_text("utf-8"))
    languages = {
        code: _Language(**{kind: frozenset(words.split()) for kind, words in one.items()})
        for code, one in table.items()
        if isinstance(one, dict)
    }
    lists = {name: frozenset(one.split()) for name, one in table.items() if isinstance(one, str)}
    return _Words(languages, **lists)


def language_of(words: Mapping[str, int]) -> str:
    """The language of a text that most of its commonest words are of, as an ISO 639-1 code;
    empty where none is.

    `words` counts the words of the text, in lower case.
    """
    counts = {
        code: sum(words.get(word, 0) for word in language.common)
        for code, language in _read_words().languages.items()
    }
    language = max(counts, key=lambda code: counts[code])
    return language if counts[language] else ""


def is_suspended(
    left: str, right: str, following: str, words: Mapping[str, int], language: str
) -> bool:
    """Whether the hyphen between two parts of a word stands for a word that follows.

    `right` is the part in the next line, `following` the word behind it, `words` counts the words
    of the text, in lower case.
    """
    known = _read_words()
    own = known.languages.get(language, _Language())
    conjunction = right.casefold()
    first = left.rpartition("-")[2].casefold()
    if words.get(first + conjunction):
        return False
    if not following[0].isalnum() and following[0] not in _BEGINS_A_WORD:
        return False
    if conjunction in known.of_any_language or conjunction in own.always:
        return True
    if conjunction not in own.doubtful:
        return False
    if "-" in following.strip("-") or first.isdigit():
        return True
    return first in known.first_parts and f"{first}{conjunction}" not in known.ends_of_words
