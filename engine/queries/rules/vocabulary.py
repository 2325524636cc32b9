"""What the built-in generator knows of languages: closed word classes, written as text with
white space between two words. The longer lists lie in assets/words/.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from engine.core.assets import asset_path


def word_set(text: str) -> frozenset[str]:
    """The words of `text`."""
    return frozenset(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """The phrases of `text`, which | parts."""
    return tuple(part.strip() for part in text.split("|"))


@cache
def word_lists(name: str) -> Mapping[str, str]:
    """Of assets/words/NAME.toml, each with one space between two words."""
    lists = tomllib.loads(asset_path(f"words/{name}.toml").read_text("utf-8"))
    return {key: " ".join(text.split()) for key, text in lists.items()}


def english_words(name: str) -> frozenset[str]:
    """A list of assets/words/english.toml."""
    return word_set(word_lists("english")[name])


GIVEN_NAMES = english_words("given_names")
"""A capitalised word after one is a person's."""


@dataclass(frozen=True)
class Language:
    """Closed word classes, case-folded.

    An unknown language has none: its function words come from statistics.

    `vague`: words that point outside the sentence when they stand first. `personal`: words of a
        speaker, which make a
    sentence a poor source. `connectives`: leading words that a claim drops. `relatives`: words that
    open a tail. `questions`: with gaps for two phrases; English has a grammar instead.
    """

    code: str
    function_words: frozenset[str] = frozenset()
    vague: frozenset[str] = frozenset()
    personal: frozenset[str] = frozenset()
    connectives: tuple[str, ...] = ()
    relatives: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


NAMES = {"english": "en", "german": "de", "french": "fr", "spanish": "es"}


def language_of(code: str) -> Language:
    """The word classes of an ISO 639-1 code (a region is ignored); an unknown code gets empty
    ones.
    """
    short = code.casefold().replace("_", "-").split("-")[0]
    return _read(NAMES.get(short, short))


@cache
def _read(code: str) -> Language:
    if code not in NAMES.values():
        return Language(code)
    lists = word_lists(code)
    function_words, vague, personal = (
        word_set(lists[name]) for name in ("function_words", "vague", "personal")
    )
    connectives, relatives = (
        sorted(phrases(lists[name]), key=len, reverse=True) for name in ("connectives", "relatives")
    )
    if "questions" in lists:
        questions = phrases(lists["questions"])
    else:
        questions = ()
    return Language(
        code, function_words, vague, personal, tuple(connectives), tuple(relatives), questions
    )


ENGLISH = language_of("en")
