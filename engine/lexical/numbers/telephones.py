"""Telephone numbers, with or without the country's and the trunk prefix, in any groups.

`+49 (0)40 / 123 45-67`, `0049 40 1234567` and `040/1234567` are the same number.
"""

from __future__ import annotations

import re

from engine.lexical.characters import BLANK

_SPACE = f"[{BLANK}]"
_SEPARATOR = rf"(?:{_SPACE}?[/\u2010-\u2013-]{_SPACE}?|{_SPACE})"
_AREA_IN_BRACKETS = r"\(\d{1,5}\)"
# +49 (0)40 123 45-67 or 0049.40.1234567
_INTERNATIONAL = (
    rf"(?:\+{_SPACE}?|00{_SPACE}?)\d{{1,3}}(?:(?:{_SEPARATOR}|\.)?{_AREA_IN_BRACKETS})?"
    rf"(?:{_SEPARATOR}|\.)?\d{{1,12}}(?:(?:{_SEPARATOR}|\.)\d{{1,8}}){{0,6}}"
)
# 040/123 45-67, or 01.23.45.67.89 as in France
_NATIONAL = rf"0\d{{0,5}}(?:{_SEPARATOR}\d{{1,8}}){{1,6}}|0\d(?:\.\d{{2,4}}){{3,6}}"
_MORE_DIGITS_FOLLOW = rf"{_SPACE}?\d"
_MIN_DIGITS = 7
_MAX_DIGITS = 17
# Between two digits, at most a blank, a mark, a blank and a bracket.
_HAS_ENOUGH_DIGITS = rf"(?=\+?(?:[{BLANK}/\u2010-\u2013().-]{{0,4}}\d){{{_MIN_DIGITS}}})"
PATTERN = rf"{_HAS_ENOUGH_DIGITS}(?:{_INTERNATIONAL}|{_NATIONAL})(?!{_MORE_DIGITS_FOLLOW})"
"""A pattern of what may be a telephone number that begins with `+` or 0."""
HINT = rf"(?<=\+){_SPACE}?\d|{_SPACE}?[/\u2013-]{_SPACE}\d|\){_SEPARATOR}\d"
"""A pattern of what follows a digit or plus sign in such a number, but in no other figure."""
_IS_TELEPHONE = re.compile(PATTERN)
_TRUNK_PREFIX = "(0)"
# The countries of one and two digits (ITU-T E.164); all others have three.
_SHORT_CODES = re.compile(
    "1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]",
)


def read_telephone(compound: str) -> tuple[str, ...]:
    """Return the digits of a telephone number, then those without country code and trunk 0.

    `+49 (0)40 1234567` gives `49401234567` and `401234567`. Returns nothing for a compound that is
    not a telephone number.
    """
    if compound[:1] not in ("+", "0"):
        return ()
    if not compound.isdigit() and not _IS_TELEPHONE.fullmatch(compound):
        return ()
    digits = "".join(filter(str.isdigit, compound.replace(_TRUNK_PREFIX, "")))
    national = digits
    if compound.startswith("+"):
        national = digits[_count_country_digits(digits) :]
    elif compound.startswith("00") and not compound.isdigit():
        # Without marks, 00 is more often the filling of another number: 0012345678.
        international = digits[2:]
        national = international[_count_country_digits(international) :]
    national = national.lstrip("0")
    if len(national) < _MIN_DIGITS or len(digits) > _MAX_DIGITS:
        return ()
    return tuple(dict.fromkeys((digits, national)))


def _count_country_digits(number: str) -> int:
    """Return how many digits of an international number name the country."""
    match = _SHORT_CODES.match(number)
    return len(match[0]) if match else 3
