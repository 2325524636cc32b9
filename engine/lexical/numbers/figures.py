"""Amounts, numbers, days, sections, R&D, telephone and account numbers: one code for each spelling.

A number with decimals or in groups becomes its value (`12.750,00`, `12,750`, `12 750` → `12750.0`;
`9,90` → `9.9`), a day `2031-05-17`, a number in groups its digits, and an IBAN in groups the IBAN
without spaces. A telephone number also has a code without prefixes. If a spelling may mean two
things, both count: `12.750` is 12750 or 12.75, `05/06/2031` a day in May or in June.

Three steps: a hint says whether a text may hold a figure, since most hold none; a pattern finds the
figures; `read_figure` reads each.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from engine.core.calendar_names import CALENDAR_NAMES
from engine.lexical.characters import BLANK, compound_pattern, fold, normalise, spell_out
from engine.lexical.numbers import account_numbers, telephones, units

_SPACE = rf"[{BLANK}]{{1,2}}"
# Where a line may end within a day: 17. Mai / 2031.
_GAP = rf"(?:[{BLANK}]{{1,2}}|[{BLANK}]?\n[{BLANK}]*)"
_HYPHEN = "\u2010\u2011-"
# Separates the groups of an amount, as commas and full stops do: 12'750 or 12 750.
_GROUP = rf"['\u2019{BLANK}]"
# A figure does not end before a letter, nor within a longer one: 12.5 is none in 12.5.3.
_END = rf"(?!\w|[.,]\d|[./{_HYPHEN}]\w)"
# An amount may end before its unit: 12,5Nm.
_AMOUNT_END = rf"(?:{_END}|(?=(?:{units.PATTERN})(?!\w)))"

_THOUSANDS = "|".join(
    (
        r"(?:,\d{2,3})*,\d{3}(?:\.\d+)?",  # 12,750.00 or 12,75,000
        r"(?:\.\d{3})+(?:,\d+)?",  # 12.750,00
        rf"(?:{_GROUP}\d{{3}})+(?:[.,]\d+)?",  # 12 750,00 or 12'750.00
    )
)
_AMOUNT = "|".join(
    (
        rf"[1-9]\d{{0,2}}(?:{_THOUSANDS})(?!{_GROUP}\d)",
        r"\d+[.,]\d+",  # 9,90
    )
)
# 17 May 2031, 17.Mai 31, 17th of May, 2031, 1er mai 2031, 1º de mayo de 2031
_DAY = (
    rf"\d{{1,2}}(?:\.{_GAP}?|(?:st|nd|rd|th|er|\u00ba)?{_GAP})(?:(?:of|de)[{BLANK}])?"
    rf"[^\W\d_]{{3,10}}\.?,?{_GAP}(?:de[{BLANK}])?\d{{2,4}}"
)
# May 17, 2031 or Sept. 17th 2031
_DAY_AFTER_MONTH = rf"[^\W\d_]{{3,10}}\.?{_GAP}\d{{1,2}}(?:st|nd|rd|th)?,?{_GAP}\d{{4}}"
# 0171 234 5678
_GROUPS = rf"\d{{2,8}}(?:[{BLANK}]\d{{2,8}}){{1,7}}(?![{BLANK}]?\d)"
# (030) 1234-567, from the 0 on
_MORE_DIGITS = rf"(?:[{BLANK}{_HYPHEN}]\d{{2,8}}){{0,4}}(?![{BLANK}]?\d)"
_AREA = rf"(?<=\()\d{{2,6}}\)[{BLANK}]?\d{{2,8}}{_MORE_DIGITS}"
# 4 006381 333931, the number under a bar code
_EAN = rf"\d[{BLANK}]\d{{6}}[{BLANK}]\d{{6}}(?![{BLANK}]?\d)"


def _build_after_digit(wholes: tuple[str, ...]) -> str:
    """Build the pattern of a figure that begins with a digit or a plus sign.

    It is one of `wholes`, an amount, or a number in groups.
    """
    return (
        rf"(?=[+\d])(?<!\d[.,'\u2019])(?:(?:{'|'.join(wholes)}){_END}"
        rf"|(?:{_AMOUNT}){_AMOUNT_END}|(?:{_GROUPS}){_END})"
    )


_AFTER_DIGIT = _build_after_digit((_DAY, _AREA, telephones.PATTERN, _EAN))
_AFTER_DIGIT_WITHOUT_TELEPHONES = _build_after_digit((_DAY, _AREA, _EAN))
_AFTER_LETTER = (
    rf"{_DAY_AFTER_MONTH}{_END}|(?:{account_numbers.PATTERN}){_END}"
    r"|(?<!\w)\.net(?!\w)"
)
# § 12, §12a, § 1º or §§ 12, of a law or a contract
_SECTION = rf"§{{1,2}}[{BLANK}]{{0,2}}\d{{1,4}}[a-z\u00ba]?(?!\w|[.,/{_HYPHEN}]\d)"
# R&D or R & D
_AMPERSAND = rf"(?<!\w)[^\W\d_]{{1,2}}[{BLANK}]?&[{BLANK}]?[^\W\d_]{{1,2}}(?!\w)"
_BEHIND_DIGIT = "|".join(
    (
        telephones.HINT,
        rf"\)[{BLANK}]?\d",  # (030) 12
        rf"[.,'\u2019{BLANK}]\d",  # 9,9 or 12 7
        rf"(?:[a-z.\u00ba]{{0,2}}{_GAP}|\.)[^\W\d_]",  # 17th of, 17.Mai
    )
)
# A pattern that begins with a set of characters is found fast.
_DIGIT_HINT = re.compile(rf"[+\d](?:{_BEHIND_DIGIT})")
_LETTER_HINT = re.compile(
    "|".join(
        (
            rf"\d(?:[a-z]{{2}})?,?{_GAP}\d{{4}}(?!\d)",  # 7th, 2031
            account_numbers.HINT,
        )
    ),
    re.IGNORECASE,
)

_IS_SECTION = re.compile(_SECTION)
_IS_AMPERSAND = re.compile(_AMPERSAND)
_IS_AMOUNT = re.compile(_AMOUNT)
# 030/1234-567, as a word of the text has it, or 0171 234 5678
_IS_GROUPS = re.compile(rf"\d+(?:[{BLANK}./{_HYPHEN}]\d+)+")
_AFTER_AREA = re.compile(rf"\)[{BLANK}]?")
_NUMBER = re.compile(r"\d{4,34}")
# 2031-05-17, 2031/5/17 or 2031-05-17t12:00
_YEAR_FIRST = re.compile(r"(\d{4})[-./](\d{1,2})[-./](\d{1,2})(?:t\d.*)?")
# 17.05.2031, 05/17/2031 or 17-05-2031
_YEAR_LAST = re.compile(r"(\d{1,2})([-./])(\d{1,2})\2(\d{4}|\d{2})")
# 20310517
_COMPACT = re.compile(r"((?:19|20)\d\d)(\d\d)(\d\d)")
# 17, may and 2031 in 17 may 2031
_PIECE = re.compile(r"[^\W\d_]+|\d+")
# 2030/2031
_ALL_YEARS = re.compile(rf"(?:(?:1[5-9]|20)\d\d[{BLANK}./{_HYPHEN}]?)+")
_SPELLINGS = {
    ".net": "dotnet",
    "asp.net": "dotnet",
    "ado.net": "dotnet",
    "vb.net": "dotnet",
}
_MIN_DIGITS = 7
_MAX_DIGITS = 34
_MIN_YEAR = 1000
_MAX_YEAR = 2999
# Years of two digits below this belong to the twenty-first century.
_THIS_CENTURY = 70
# What may stand in a day besides its number, month and year.
_PARTICLES = frozenset(("of", "de", "st", "nd", "rd", "th", "er"))


@dataclass(frozen=True, slots=True)
class Figure:
    """The meanings of a figure."""

    codes: tuple[str, ...]
    """One code for each reading: `12.750` → `12750.0`, `12.75`."""
    digits: tuple[str, ...] = ()
    """The readings that are whole numbers, in plain digits: `12750`. They are words in a text."""
    words: tuple[str, ...] = ()
    """Other words that mean the same: `dotnet` for `.net`."""


def compound_pattern_for(text: str, *, any_case: bool = False) -> re.Pattern[str]:
    """Return the pattern that splits a text into compounds.

    A figure such as `17 May 2031` is one compound, and so is what only looks like one. The text is
    in lower case, unless `any_case` is set.
    """
    return _choose_pattern(text, _AFTER_DIGIT, any_case)


def find_parts(lookalike: str, *, any_case: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the parts of a compound that only looked like a figure, with their offsets.

    What looked like a telephone number may contain amounts and days: `0 – 250 000`. Parts that are
    not figures either are split into words.
    """
    pattern = _choose_pattern(lookalike, _AFTER_DIGIT_WITHOUT_TELEPHONES, any_case)
    for part in pattern.finditer(lookalike):
        start = part.start()
        if read_figure(normalise(part.group())) is not None:
            yield start, part.group()
            continue
        for word in compound_pattern().finditer(part.group()):
            yield start + word.start(), word.group()


def _choose_pattern(
    text: str,
    after_digit: str,
    any_case: bool,
) -> re.Pattern[str]:
    """Return the pattern of a text's compounds, with only the figures that the text may contain.

    `after_digit`: the pattern of figures that begin with a digit.
    """
    lower = text.lower() if any_case else text
    alternatives = [compound_pattern().pattern]
    if ".net" in lower or _LETTER_HINT.search(text):
        alternatives.insert(0, _AFTER_LETTER)
    if _DIGIT_HINT.search(text):
        alternatives.insert(0, after_digit)
    if "§" in text:
        alternatives.insert(0, _SECTION)
    if "&" in text:
        alternatives.insert(0, _AMPERSAND)
    return _compile_pattern(tuple(alternatives), any_case)


@lru_cache(maxsize=16)
def _compile_pattern(alternatives: tuple[str, ...], any_case: bool) -> re.Pattern[str]:
    """Compile the alternatives into one pattern; the first that matches counts."""
    return re.compile("|".join(alternatives), re.IGNORECASE if any_case else 0)


def read_figure(compound: str) -> Figure | None:
    """Read the figure that a lower-case compound stands for, or return None."""
    if compound in _SPELLINGS:
        return Figure((), words=(_SPELLINGS[compound],))
    if _IS_AMPERSAND.fullmatch(compound):
        return Figure(("-&-".join(_PIECE.findall(compound)),))
    if not any(map(str.isdigit, compound)):
        return None
    if _IS_SECTION.fullmatch(compound):
        return Figure((f"§-{compound.lstrip('§' + BLANK)}",))
    days = [day.isoformat() for day in _read_days(compound)]
    if days:
        return Figure(tuple(dict.fromkeys(days)))
    # An area code in brackets is the first group of a telephone number.
    groups = compound if "(" in compound else _AFTER_AREA.sub(" ", compound)
    numbers = telephones.read_telephone(groups)
    if numbers:
        return _build_number(groups, numbers)
    if _NUMBER.fullmatch(compound):
        return Figure((f"{compound}.0",), (compound,))
    if _IS_AMOUNT.fullmatch(compound):
        return _read_amount(compound)
    account_codes = account_numbers.read_account_number(compound)
    if account_codes:
        return Figure(account_codes)
    if _IS_GROUPS.fullmatch(groups):
        return _read_groups(groups)
    return None


def _read_amount(amount: str) -> Figure:
    """Read an amount. Its whole values above 999 are also plain numbers (`digits`)."""
    values = tuple(dict.fromkeys(_read_values(amount)))
    whole_numbers = [value.removesuffix(".0") for value in values if value.endswith(".0")]
    return Figure(values, tuple(number for number in whole_numbers if len(number) > 3))


def _read_groups(groups: str) -> Figure | None:
    """Read a number in groups; None if it is too short or only years."""
    digits = "".join(filter(str.isdigit, groups))
    if not _MIN_DIGITS <= len(digits) <= _MAX_DIGITS or _ALL_YEARS.fullmatch(groups):
        return None
    return _build_number(groups, (digits,))


def _build_number(groups: str, numbers: tuple[str, ...]) -> Figure:
    """Build the figure of a number in groups; `numbers`: its readings, in plain digits.

    If marks separate the groups (`030/1234-567`), the number as typed is also a code.
    """
    codes = [f"{number}.0" for number in numbers]
    has_blanks = any(blank in groups for blank in BLANK)
    if _IS_GROUPS.fullmatch(groups) and not has_blanks:
        codes.insert(0, re.sub("[\u2010\u2011]", "-", groups))
    return Figure(tuple(codes), numbers)


def _read_values(amount: str) -> Iterator[str]:
    """Yield the values of an amount: `9,90` is 9.9, and `12.750` is 12750 or 12.75.

    A mark before exactly three digits may separate groups or decimals.
    """
    marks = re.sub(r"\d", "", amount)
    *groups, last = re.split(r"\D", amount)
    whole = "".join(groups)
    ends_in_group = len(last) == 3 and not amount.startswith("0") and marks[-1] == marks[0]
    if ends_in_group:
        yield f"{whole}{last}.0"
    may_end_in_decimals = not ends_in_group or marks in (".", ",")
    if may_end_in_decimals:
        whole = whole.lstrip("0") or "0"
        decimals = last.rstrip("0") or "0"
        yield f"{whole}.{decimals}"


def _read_days(compound: str) -> Iterator[date]:
    """Yield the days that a compound may mean: `05/06/2031` is one in June or in May."""
    if match := _YEAR_FIRST.fullmatch(compound) or _COMPACT.fullmatch(compound):
        yield from _read_day(
            match[1],
            int(match[2]),
            int(match[3]),
        )
    elif match := _YEAR_LAST.fullmatch(compound):
        first, mark, second, year = match.groups()
        if mark == "-" and len(year) == 2:
            return
        yield from _read_day(
            year,
            int(second),
            int(first),
        )
        if mark != ".":
            yield from _read_day(
                year,
                int(first),
                int(second),
            )
    else:
        pieces = [piece for piece in _PIECE.findall(compound) if piece not in _PARTICLES]
        if len(pieces) != 3:
            return
        first, second, year = pieces
        day = first
        name = second
        if second.isdigit():  # may 17 2031
            day = second
            name = first
        month = MONTHS.get(fold(name))
        if month and day.isdigit() and year.isdigit():
            yield from _read_day(
                year,
                month,
                int(day),
            )


def _read_day(
    year: str,
    month: int,
    day: int,
) -> Iterator[date]:
    """Yield the day if it exists. A year has four digits, or two for one near today."""
    number = int(year)
    if len(year) == 2:
        number += 2000 if number < _THIS_CENTURY else 1900
    if len(year) in (2, 4) and _MIN_YEAR <= number <= _MAX_YEAR:
        try:
            yield date(number, month, day)
        except ValueError:
            return


def _number_months() -> dict[str, int]:
    """Return the number of each month by its names and short names in all languages."""
    numbers = {
        "sept": 9,
        "mar": 3,
        "janner": 1,
    }
    for names in CALENDAR_NAMES.values():
        for months in (names.months, names.short_months, names.months_of_day):
            for number, name in enumerate(months, 1):
                month = name.rstrip(".").lower()
                numbers.setdefault(fold(month), number)
                numbers.setdefault(fold(spell_out(month)), number)
    return numbers


MONTHS = _number_months()
"""Number of a month by its name in any language, in lower case and without accents."""
