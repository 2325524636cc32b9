"""Suspended hyphens at a line end: `Kunden-` before `und Lieferantendaten` is no `Kundenund`.

A conjunction at the beginning of the next line may also be the end of the split word (`Frau-en`,
`in-to`, `sail-or`). It is taken for a conjunction only in texts of its language, and a doubtful one
only if the words before and after it fit a suspended hyphen.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.core.assets import asset_path

_WORDS = "words/suspended.toml"
_WORD_BEGINNINGS = "-\u2010([\"'„“«"
"""Signs that may stand before the first letter of a word."""


@dataclass(frozen=True, slots=True)
class _Language:
    """The conjunctions of a language, and words that identify it."""

    # Conjunctions that no word ends in.
    always: frozenset[str] = frozenset()
    # Conjunctions that are also endings of words.
    doubtful: frozenset[str] = frozenset()
    # Frequent words.
    common: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Words:
    """The lists of assets/words/suspended.toml, which are explained there."""

    languages: Mapping[str, _Language]
    first_parts: frozenset[str]
    of_any_language: frozenset[str]
    single_letters: frozenset[str]
    ends_of_words: frozenset[str]


@cache
def _read_words() -> _Words:
    """Return the lists of assets/words/suspended.toml."""
    content: dict[str, Any] = tomllib.loads(asset_path(_WORDS).read_text("utf-8"))
    languages = {}
    general_lists = {}
    for key, value in content.items():
        # The value is a list of words, or a table with the lists of a language.
        if isinstance(value, str):
            general_lists[key] = frozenset(value.split())
        else:
            lists = {kind: frozenset(text.split()) for kind, text in value.items()}
            languages[key] = _Language(**lists)
    return _Words(languages, **general_lists)


def language_of(words: Mapping[str, int]) -> str:
    """Return the language whose common words occur most often in a text, as an ISO 639-1 code.

    `words` counts the words of the text, in lower case. Empty if it has no common word of any
    language.
    """
    counts: Counter[str] = Counter()
    for code, language in _read_words().languages.items():
        counts[code] = sum(words.get(word, 0) for word in language.common)
    commonest, count = counts.most_common(1)[0]
    return commonest if count else ""


def is_suspended(
    left: str, right: str, following: str, words: Mapping[str, int], language: str
) -> bool:
    """Return whether the hyphen at a line end stands for the end of a word that follows.

    In `Kunden-` / `und Lieferantendaten`, `left` is the part before the hyphen, `right` the first
    word of the next line, and `following` the word after that. `words` counts the words of the
    text, in lower case, and `language` is as returned by `language_of`.
    """
    lists = _read_words()
    conjunction = right.casefold()
    first_part = left.rpartition("-")[2].casefold()
    joined = first_part + conjunction
    if words.get(joined) or joined in lists.ends_of_words:
        return False
    if not following[0].isalnum() and following[0] not in _WORD_BEGINNINGS:
        return False
    if conjunction in lists.of_any_language:
        return True
    language_lists = lists.languages.get(language, _Language())
    if following.casefold() in language_lists.common:
        return False
    if right in lists.single_letters or conjunction in language_lists.always:
        return True
    doubtful = language_lists.doubtful
    if not language:
        doubtful = _list_all_conjunctions()
    if conjunction not in doubtful:
        return False
    has_compound_after = "-" in following.strip("-")
    return has_compound_after or first_part.isdigit() or first_part in lists.first_parts


@cache
def _list_all_conjunctions() -> frozenset[str]:
    """Return the conjunctions of all languages."""
    languages = _read_words().languages.values()
    return frozenset().union(*(language.always | language.doubtful for language in languages))
