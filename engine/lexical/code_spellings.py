"""Codes of chunks that a typed code may mean, although they are written otherwise.

`080442957X` means 0-8044-2957-X, `3.11` also 3.11.4, and `5550199` (415) 555-0199.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from engine.lexical.analysis import Analyzer
from engine.lexical.codes import is_whole

MAX_LONGER = 5
"""Maximum number of longer codes that a typed code stands for."""
_MIN_LENGTH = 4
_MIN_SUBSCRIBER = 6
_MAX_TELEPHONE = 13
_NUMBER_END = ".0"


def has_longer_code(analyzer: Analyzer, code: str, text: str) -> bool:
    """Tell whether a text contains a code as part of a longer one: `PHX-121` in `PHX-121/B`."""
    # What reads as a day by itself, such as `20310412`, has other parts in `IMG_20310412_Scan`.
    if re.search(rf"(?<![^\W_]){re.escape(code)}(?![^\W_])", text, re.IGNORECASE):
        return True
    # A code may not contain spaces, so it never matches across two codes of the text.
    text_codes = " ".join(map(_delimit_parts, analyzer.terms(text).codes))
    codes = map(_delimit_parts, analyzer.unstemmed(code).codes)
    return any(whole in text_codes for whole in codes)


class CodeVocabulary:
    """The codes of an index, to look for parts and for other marks between the same characters."""

    def __init__(self, codes: Iterable[str]) -> None:
        self._codes = [code for code in codes if is_whole(code)]
        # One code on each line: looking through one text is faster than through many codes.
        self._characters = _join_lines(map(_strip_marks, self._codes))
        self._parts = _join_lines(map(_delimit_parts, self._codes))

    def find_spellings(self, code: str) -> list[str]:
        """Return the codes that a code means which is not among them."""
        return self._find_same(code) or self._find_longer(code)

    def _find_same(self, code: str) -> list[str]:
        """Return the codes with the same letters and digits. Amounts such as 1.25 have none."""
        stripped = _strip_marks(code)
        if len(stripped) < _MIN_LENGTH:
            return []
        same = self._find(self._characters, f"\n{stripped}\n")
        return [code for code in same if _is_identifier(code)]

    def _find_longer(self, code: str) -> list[str]:
        """Return the codes with the parts of a code, and numbers with a prefix before it."""
        longer = list(self._find(self._parts, _delimit_parts(code)))
        if code.isdigit() and len(code) >= _MIN_SUBSCRIBER:
            for number in self._find(self._parts, f"{code}-0-\n"):
                if len(number) <= _MAX_TELEPHONE + len(_NUMBER_END):
                    longer.append(number)
        return longer[:MAX_LONGER]

    def _find(self, lines: str, text: str) -> Iterator[str]:
        """Yield the codes whose lines contain a text."""
        number = -1
        counted = 0
        at = lines.find(text)
        while at >= 0:
            # A text may begin with the line end before it.
            start = at + text.startswith("\n")
            number += lines.count("\n", counted, start)
            yield self._codes[number]
            counted = start
            at = lines.find(text, lines.find("\n", start))


def _join_lines(lines: Iterable[str]) -> str:
    """Return lines as one text, with a line end before and behind each."""
    return "".join(f"\n{line}" for line in lines) + "\n"


def _delimit_parts(code: str) -> str:
    """Return a code with "-" around each of its parts."""
    hyphenated = code.replace(".", "-").replace("/", "-")
    return f"-{hyphenated}-"


def _strip_marks(code: str) -> str:
    """Return the letters and digits of a code."""
    return "".join(filter(str.isalnum, code))


def _is_identifier(code: str) -> bool:
    """Tell whether a code is no amount, whose marks mean something."""
    return not code.replace(".", "", 1).isdigit()
