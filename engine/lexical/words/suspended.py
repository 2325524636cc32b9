"""Compounds of which a text writes one part only: `Kranken- und Pflegeversicherung`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LETTER = r"[^\W\d_]"
_AND = (
    r"(?:und|oder|bzw\.?|beziehungsweise|sowie|wie|en|of|och|eller|samt|og|ja|tai|and|or|to|&)[ \n]"
)
# The hyphen of `Kranken- und`, or of `und -abwicklung`. A pattern that begins with one character is
# found fast.
_HYPHEN = re.compile(rf"-(?:(?=[ ,/])(?<={_LETTER}.)|(?<=[ \n].)(?={_LETTER}{{4}}))")
_WORD_BEFORE = re.compile(rf"{_LETTER}{{2,30}}\Z")
# `, Unfall- und pflegeversicherung`, or `/pflegeversicherung`
_REST = re.compile(rf"(?:(?:, ?|[ /]){_LETTER}{{2,30}}-){{0,4}}(?: ?/ ?|,? {_AND})([\w-]{{5,60}})")
# `auftragsannahme und `
_FIRST_WORD = re.compile(rf"({_LETTER}{{6,40}})[ ,]{{1,2}}{_AND}\Z")
_LAST_WORD = re.compile(rf"{_LETTER}{{4,40}}")
_MIN_PART = 3
_MAX_BEFORE = 60


class Suspended(NamedTuple):
    """A compound of which only a part is written."""

    span: tuple[int, int]
    """From its first part to its last."""
    words: list[str]
    """What the whole compound may be: one word for each place where the other one may be split."""


def find_suspended(text: str) -> Iterator[Suspended]:
    """Yield the compounds of a lower-case text that share a part with another one.

    `kranken- und pflegeversicherung` gives `krankenversicherung`, besides words that nobody types,
    such as `krankengeversicherung`.
    """
    for hyphen in _HYPHEN.finditer(text):
        start, end = hyphen.span()
        before = max(0, start - _MAX_BEFORE)
        if text[end].isalpha():
            first = _FIRST_WORD.search(text, before, start)
            last = _LAST_WORD.match(text, end)
            if first and last:
                words = [beginning + last[0] for beginning in _cut_end(first[1])]
                yield Suspended((first.start(), last.end()), words)
            continue
        part = _WORD_BEFORE.search(text, before, start)
        rest = _REST.match(text, end)
        if part and rest:
            words = [part[0] + ending for ending in _cut_beginning(rest[1])]
            yield Suspended((part.start(), rest.end()), words)


def _cut_end(word: str) -> list[str]:
    """Return the beginnings of a word that may be the first part of a compound."""
    return [word[:cut] for cut in range(_MIN_PART, len(word) - _MIN_PART + 1)]


def _cut_beginning(word: str) -> list[str]:
    """Return the endings of a word that may be the last part of a compound.

    The words of a hyphenated one are known: `tax` of `post-tax`.
    """
    head, hyphen, last = word.rpartition("-")
    if hyphen:
        return [last] if head and last.isalpha() else []
    if not word.isalpha():
        return []
    return [word[cut:] for cut in range(2, len(word) - _MIN_PART + 1)]
