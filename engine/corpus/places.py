"""Where the pages of a text begin, where all that is known is what stands on each."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from engine.corpus.letters import has_letters, letters_of
from engine.corpus.readers import Page
from engine.corpus.structure import Text

_WORD = re.compile(r"[^\W_]+")
_KEYS = (60, 30, 15, 8)  # letters that a page begins with: the most that can be found give its place
_PIECE = 4096
_LEEWAY = 4000  # letters that a text may have more or fewer than its pages between two places


def place_pages(text: Text, pages: Sequence[str]) -> Text:
    """The text with where each page begins: where its first letters stand, of several places the one nearest to where the
    page before it ends. What is no letter counts for nothing, so that lists and tables may be written in another way; a page
    that is not found has no place.
    """
    if len(pages) < 2:
        return Text(text.text, text.headings)
    letters = _Letters(text.text)
    squeezed = list(map(letters_of, pages))
    of_pages, lengths = "".join(squeezed), list(map(len, squeezed))
    found: list[Page] = []
    at, since = 0, 0  # the place of the last page that was found, and how many letters the pages have from there on
    for number, (start, length) in enumerate(zip(accumulate([0, *lengths]), lengths, strict=False), 1):
        place = 0 if number == 1 else letters.find(of_pages, start, at, since) if length else -1
        if place >= 0:
            found.append(Page(0 if number == 1 else letters.line_of(place), number, f"page {number}"))
            at, since = place, 0
        since += length
    return Text(text.text, text.headings, tuple(found) if len(found) > 1 else ())


class _Letters:
    """The letters of a text, without anything between them, and where they stand in it."""

    def __init__(self, text: str) -> None:
        pieces = [letters_of(text[start : start + _PIECE]) for start in range(0, len(text), _PIECE)]
        self._text, self._letters = text, "".join(pieces)
        self._before = list(accumulate(map(len, pieces), initial=0))

    def find(self, of_pages: str, start: int, last: int, since: int) -> int:
        """The place after `last` of what the pages have from `start` on, nearest to `since` letters after it; -1 for none."""
        expected, leeway = last + since, _LEEWAY + since
        for size in _KEYS:
            key = of_pages[start : start + size]
            before = self._letters.rfind(key, max(last + 1, expected - leeway), expected + len(key))
            after = self._letters.find(key, max(last + 1, expected), expected + leeway + len(key))
            places = [place for place in (before, after) if place >= 0]
            if places:
                return min(places, key=lambda place: abs(place - expected))
        return -1

    def line_of(self, place: int) -> int:
        """Where a letter stands in the text; the start of its line, where it is the first letter there."""
        piece = min(bisect_right(self._before, place), len(self._before) - 1) - 1
        at = self._nth(place - self._before[piece], piece * _PIECE)
        line = self._text.rfind("\n", 0, at) + 1
        return at if has_letters(self._text[line:at]) else line

    def _nth(self, number: int, start: int) -> int:
        """Where the letter stands that has `number` others before it from `start` on."""
        for word in _WORD.finditer(self._text, start):
            if number < word.end() - word.start():
                return word.start() + number
            number -= word.end() - word.start()
        return len(self._text)
