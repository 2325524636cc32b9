"""International bank account numbers (IBAN, ISO 13616), however their characters are grouped."""

from __future__ import annotations

import re

_BLANK = " \u00a0\u2009\u202f"
_MARK = rf"[{_BLANK}\u2010\u2011./-]"
# The registry's lengths: what follows the country and its two check digits.
_LENGTHS = {
    11: "no",
    12: "be",
    14: "dk fi fk fo gl nl sd",
    15: "mk si",
    16: "at ba ee kz lt lu mn xk",
    17: "ch hr li lv",
    18: "bg bh cr de gb ge ie me rs va",
    19: "ae gi il iq om so tl",
    20: "ad cz es md pk ro sa se sk tn vg",
    21: "ly pt st",
    22: "is tr",
    23: "bi dj fr gr it mc mr sm",
    24: "al az by cy do gt hn hu lb ni pl sv",
    25: "br eg ps qa ua",
    26: "jo kw mu ye",
    27: "mt sc",
    28: "lc",
    29: "ru",
}
_MIN_DIGITS = 8
_GROUPED_IBAN = re.compile(rf"[a-z]{{2}}(?P<apart>{_MARK})?\d{_MARK}?\d[a-z0-9{_MARK[1:-1]}]+")
_LETTER_DIGIT_BOUNDARY = re.compile(r"(?<=\d)(?=[^\W\d])|(?<=[^\W\d])(?=\d)")


def _build_pattern() -> str:
    alternatives: list[str] = []
    for length, countries in _LENGTHS.items():
        either = countries.replace(" ", "|")
        alternatives.append(rf"(?:{either}){_MARK}?\d\d(?:{_MARK}?[a-z0-9]){{{length}}}")
    # Most words have no digits behind two letters.
    return rf"(?=[a-z]{{2}}{_MARK}?\d\d)(?:{'|'.join(alternatives)})"


PATTERN = _build_pattern()
"""A pattern of what may be an IBAN with marks between its characters, in lower case."""
HINT = (
    rf"\d\d(?:(?<=[a-z]{{2}}\d\d)(?<!\w[a-z]{{2}}\d\d)|(?<=[a-z]{{2}}{_MARK}\d\d))"
    rf"{_MARK}(?:[a-z]{{0,4}}(?:{_MARK}?\d){{8}}|[a-z0-9]{{4}}[{_BLANK}][a-z0-9]{{4}}[{_BLANK}])"
)
"""A pattern of what such a number contains, which begins with a digit."""


def read_account_number(compound: str) -> tuple[str, ...]:
    """Return the codes of an IBAN in groups, or nothing for any other compound.

    `compound` is in lower case. The codes are the number as one word, preceded by the number as
    typed if that has no blanks. A number whose country stands apart needs right check digits.
    """
    match = _GROUPED_IBAN.fullmatch(compound)
    if not match:
        return ()
    characters = "".join(char for char in compound if char.isalnum())
    # Written as one word, it has no groups to read.
    if len(characters) == len(compound):
        return ()
    if sum(map(str.isdigit, characters[4:])) < _MIN_DIGITS:
        return ()
    if not _has_known_length(characters) or (match["apart"] and not _is_valid(characters)):
        return ()
    codes = [_LETTER_DIGIT_BOUNDARY.sub("-", characters)]
    if not any(blank in compound for blank in _BLANK):
        typed = re.sub("[\u2010\u2011]", "-", compound)
        codes.insert(0, _LETTER_DIGIT_BOUNDARY.sub("-", typed))
    return tuple(dict.fromkeys(codes))


def _has_known_length(characters: str) -> bool:
    return characters[:2] in _LENGTHS.get(len(characters) - 4, "").split()


def _is_valid(characters: str) -> bool:
    """Tell whether the check digits are right (ISO 7064, MOD 97-10)."""
    moved = characters[4:] + characters[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1
