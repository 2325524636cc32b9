"""Suspended hyphens at a line end: `Kunden-` before `und Lieferantendaten` is no `Kundenund`.

A conjunction in the next line may also be the end of the word (`Frau-en`, `in-to`, `sail-or`), so
it counts only in texts of its language. Doubtful conjunctions count only if the text before or
after them looks as it does with a suspended hyphen.
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
    """The conjunctions of a language, and words that identify it.

    Conjunctions that are also endings of words are listed separately.
    """

    always: frozenset[str] = frozenset()
    doubtful: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Words:
    """The content of assets/words/suspended.toml."""

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
    """Return the language of most of the commonest words of a text, as an ISO 639-1 code.

    Empty if no language is known. `words` counts the words of the text, in lower case.
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
    """Tell whether the hyphen between two parts of a word stands for a word that follows.

    `right` is the part in the next line, `following` the word after it, and `words` counts the
    words of the text, in lower case.
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
