"""International bank account numbers (IBAN, ISO 13616), however their characters are grouped."""

from __future__ import annotations

import re

from engine.lexical.characters import BLANK, split_letters_from_digits

# A line may end within a number.
_MARK = rf"[\n{BLANK}\u2010\u2011./-]"
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
# de89 3704 0044 0532 0130 00, or de 89-3704...
_GROUPED_IBAN = re.compile(rf"[a-z]{{2}}(?P<apart>{_MARK})?\d{_MARK}?\d[a-z0-9{_MARK[1:-1]}]+")
# An IBAN of a country that the registry does not have: xx12 abcd 1234 5678 9
_FOUR_TOGETHER = rf"[a-z]{{2}}\d{{2}}(?:[{BLANK}][a-z0-9]{{4}}){{2,7}}(?:[{BLANK}][a-z0-9]{{1,3}})?"
_MAY_BE_IBAN = re.compile(r"[a-z]{2}\d{2}[a-z0-9]{8,30}")
_FOUR_DIGITS = re.compile(rf"(?<=[{BLANK}])\d{{4}}(?!\w)")


def _build_pattern() -> str:
    """Build the pattern of the IBANs of all countries in the registry."""
    alternatives: list[str] = []
    for length, countries in _LENGTHS.items():
        either = countries.replace(" ", "|")
        alternatives.append(rf"(?:{either}){_MARK}?\d\d(?:{_MARK}?[a-z0-9]){{{length}}}")
    # Most words have no digits behind two letters.
    return rf"(?=[a-z]{{2}}{_MARK}?\d\d)(?:{'|'.join(alternatives)})"


PATTERN = f"{_build_pattern()}|{_FOUR_TOGETHER}"
"""A pattern of what may be an IBAN with marks between its characters, in lower case."""
_CHECK_DIGITS = "|".join(
    (
        r"(?<=[a-z]{2}\d\d)(?<!\w[a-z]{2}\d\d)",  # de89, not abcde89
        rf"(?<=[a-z]{{2}}{_MARK}\d\d)",  # de 89
    )
)
_REST = "|".join(
    (
        rf"[a-z]{{0,4}}(?:{_MARK}?\d){{8}}",  # 3704 0044 or nwbk 6016 1331
        rf"[a-z0-9]{{4}}[{BLANK}][a-z0-9]{{4}}[{BLANK}]",  # ab12 34cd
    )
)
HINT = rf"\d\d(?:{_CHECK_DIGITS}){_MARK}(?:{_REST})"
"""A pattern that finds such a number from its check digits on: 89 3704 0044."""


def read_account_number(compound: str) -> tuple[str, ...]:
    """Return the codes of an IBAN in groups, or nothing for any other compound.

    `compound` is in lower case. The codes are the number as one word, preceded by the number as
    typed if that has no blanks: `de89 3704 0044 0532 0130 00` has `de-89370400440532013000`. The
    number must have the length of its country in the registry, and right check digits if the
    country stands apart, or else two groups of four digits.
    """
    match = _GROUPED_IBAN.fullmatch(compound)
    if not match:
        return ()
    characters = "".join(filter(str.isalnum, compound))
    # Written without marks, it is an ordinary code.
    if len(characters) == len(compound):
        return ()
    code = split_letters_from_digits(characters)
    # A number that the registry does not confirm must be written in groups of four.
    if not _is_registered(characters, is_apart=match["apart"] is not None):
        if _is_in_fours(compound, characters):
            return (code,)
        return ()
    if "\n" in compound or any(blank in compound for blank in BLANK):
        return (code,)
    typed = re.sub("[\u2010\u2011]", "-", compound)
    return tuple(dict.fromkeys((split_letters_from_digits(typed), code)))


def _is_registered(characters: str, *, is_apart: bool) -> bool:
    """Return whether a number has the length of its country, and enough digits.

    If a mark follows the country (`is_apart`, as in `de 89`), the check digits must be right, too.
    """
    country = characters[:2]
    rest = characters[4:]
    if sum(map(str.isdigit, rest)) < _MIN_DIGITS:
        return False
    if country not in _LENGTHS.get(len(rest), "").split():
        return False
    return not is_apart or _is_valid(characters)


def _is_in_fours(compound: str, characters: str) -> bool:
    """Return whether two or more groups are four digits, as in an IBAN of an unknown country."""
    if " " not in compound or not _MAY_BE_IBAN.fullmatch(characters):
        return False
    return len(_FOUR_DIGITS.findall(compound)) >= 2


def _is_valid(characters: str) -> bool:
    """Return whether the check digits are right (ISO 7064, MOD 97-10)."""
    moved = characters[4:] + characters[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1
