"""Codes in chunks that a typed code may mean, although they are spelt in another way.

The code `080442957X` may mean 0-8044-2957-X, `3.11` may mean 3.11.4, and `5550199` may mean
(415) 555-0199.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from engine.lexical.analysis import Analyzer
from engine.lexical.codes import is_whole

MAX_LONGER = 5
"""Maximum number of longer codes that a typed code stands for."""
# Minimum letters and digits of a code that is compared without its marks.
_MIN_LENGTH = 4
# Minimum digits of a telephone number without prefixes, and maximum digits of one with them.
_MIN_SUBSCRIBER = 6
_MAX_TELEPHONE = 13
# Ending of the codes of numbers: `5550199.0`.
_NUMBER_END = ".0"


def has_longer_code(
    analyzer: Analyzer,
    code: str,
    text: str,
) -> bool:
    """Return whether a text contains a code as part of a longer one: `PHX-121` in `PHX-121/B`."""
    # `20310412` alone is a day with other parts than in `IMG_20310412_Scan`: search for it as text.
    if re.search(rf"(?<![^\W_]){re.escape(code)}(?![^\W_])", text, re.IGNORECASE):
        return True
    # A code may not contain spaces, so it never matches across two codes of the text.
    text_codes = " ".join(map(_delimit_parts, analyzer.terms(text).codes))
    codes = map(_delimit_parts, analyzer.unstemmed(code).codes)
    return any(whole in text_codes for whole in codes)


class CodeVocabulary:
    """The codes of an index, searchable by parts, and by letters and digits without marks."""

    def __init__(self, codes: Iterable[str]) -> None:
        self._codes = [code for code in codes if is_whole(code)]
        # One code on each line: searching one long text is faster than searching many codes.
        self._characters = _join_lines(map(_strip_marks, self._codes))
        self._parts = _join_lines(map(_delimit_parts, self._codes))

    def find_spellings(self, code: str) -> list[str]:
        """Return the codes of the index that a code may mean if the index does not contain it.

        These are codes with the same letters and digits, or else longer codes.
        """
        return self._find_same(code) or self._find_longer(code)

    def _find_same(self, code: str) -> list[str]:
        """Return the codes with the same letters and digits, except amounts such as 1.25."""
        stripped = _strip_marks(code)
        if len(stripped) < _MIN_LENGTH:
            return []
        same = self._find(self._characters, f"\n{stripped}\n")
        return [code for code in same if _is_identifier(code)]

    def _find_longer(self, code: str) -> list[str]:
        """Return longer codes that contain the parts of a code: `3.11.4` for `3.11`.

        For six digits or more, also telephone numbers that end in these digits.
        """
        longer = list(self._find(self._parts, _delimit_parts(code)))
        if code.isdigit() and len(code) >= _MIN_SUBSCRIBER:
            for number in self._find(self._parts, f"{code}-0-\n"):
                if len(number) <= _MAX_TELEPHONE + len(_NUMBER_END):
                    longer.append(number)
        return longer[:MAX_LONGER]

    def _find(self, lines: str, text: str) -> Iterator[str]:
        """Yield the codes whose lines contain a text."""
        # Number of the code at the current place, and the place up to which lines are counted.
        number = -1
        counted = 0
        at = lines.find(text)
        while at >= 0:
            # If the text begins with a line end, the code starts behind it.
            start = at + text.startswith("\n")
            number += lines.count("\n", counted, start)
            yield self._codes[number]
            counted = start
            at = lines.find(text, lines.find("\n", start))


def _join_lines(lines: Iterable[str]) -> str:
    """Return lines as one text: a line end before each, and one at the end."""
    return "".join(f"\n{line}" for line in lines) + "\n"


def _delimit_parts(code: str) -> str:
    """Return a code with "-" around each of its parts."""
    hyphenated = code.replace(".", "-").replace("/", "-")
    return f"-{hyphenated}-"


def _strip_marks(code: str) -> str:
    """Return the letters and digits of a code."""
    return "".join(filter(str.isalnum, code))


def _is_identifier(code: str) -> bool:
    """Return whether the marks of a code may be ignored, unlike the point of an amount."""
    return not code.replace(".", "", 1).isdigit()
