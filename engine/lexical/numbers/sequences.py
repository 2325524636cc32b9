"""Words and numbers that say more together: `Windows 10`, `Annex III`, `45 Nm`, `May 2031`.

BM25 ignores the order of words, and many chunks contain the same number. So each sequence is
indexed as a code: `=windows-10`, `=annex-3`, `=45-nm`, `=2031-05`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from engine.lexical.characters import DIAMETER, SINGLE_CAPITAL, fold, normalise
from engine.lexical.numbers import units
from engine.lexical.numbers.figures import MONTHS

Span = tuple[int, int]
# First character of the code of a sequence; no other code begins with it.
_MARK = "="
_WORD = re.compile(r"[^\W\d_]{1,30}")
# 10, 3a, 3.11.4 or v18.16.0-rc1
_NUMBER = re.compile(r"v?(\d{1,5}(?:\.\d{1,5}){0,3}[a-z]?)(?:[-/].*)?")
_ENDS_IN_YEAR = re.compile(r"\.(?:19|20)\d\d\Z")
# 5 or 5th
_DAY = re.compile(r"([012]?\d|3[01])(?:st|nd|rd|th|er)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
# 2031-05 or 05/2031
_MONTH = re.compile(r"(?P<first>(?:19|20)\d\d)[-./](\d{1,2})|(\d{1,2})[-./](?P<last>(?:19|20)\d\d)")
# 14:30, 14:30:59, 14h30, 14.30 uhr, 9 uhr, 2:30 pm or 9 a.m
_TIME = re.compile(
    r"(?<![\w:.,])(?P<hour>\d{1,2})(?:(?P<mark>[:.h])(?P<minutes>[0-5]\d)(?::[0-5]\d)?)?"
    r"(?:[ \u00a0]?(?:(?P<unit>uhr|h)|(?P<half>[ap])\.?m))?(?![\w:]|[.,]\d)"
)
# A year, a month and perhaps a day: 2031年5月17日, or the same in Korean
_EAST_ASIAN_DATE = re.compile(
    "((?:19|20)\\d\\d) ?[\u5e74\ub144] ?(\\d{1,2}) ?[\u6708\uc6d4](?: ?(\\d{1,2}) ?[\u65e5\uc77c])?"
)
# An article or chapter in Chinese or Japanese: 第5条, 第五条
_HAN_DIGITS = "〇一二三四五六七八九"
_ARTICLE = re.compile(
    rf"第 ?(\d{{1,4}}|[零{_HAN_DIGITS}十百]{{1,7}}) ?([条條章节節款項项号號编編回期])"
)
_HAN_POWERS = {"十": 10, "百": 100}
# The sign of 50 %, 50€, $50, 20 °C or \u230012
_SIGN = re.compile(f"[%€$£\u2103{DIAMETER}]|°[cf](?!\\w)")
_SIGNS = "%€$£\u2103°" + DIAMETER
_NUMBER_BEFORE = re.compile("(?<![\\w.,/])(?<!\\d[ \u00a0])(\\d{1,6})[ \u00a0\u202f]?\\Z")
_NUMBER_AFTER = re.compile("[ \u00a0]?(\\d{1,6})(?!\\d|[., ]\\d)")
_UNITS_OF_SIGNS = {
    "€": "eur",
    "$": "usd",
    "£": "gbp",
    "\u2103": "°c",
}
# Signs that may stand before their number.
_PREFIXES = frozenset("€$£" + DIAMETER)
_WORD_BEFORE = re.compile(r"[^\W\d_]{3,30}\Z")
_ROMAN_LETTERS = {
    "i": "1",
    "v": "5",
    "x": "10",
}
# Words after which I, V and X are numbers.
_NUMBERED_WORDS = """
abschnitt allegato anexo anhang anlage annex annexe annexes appendix article articles band book
buch capitolo capitulo chapitre chapter clase class classe clause division exhibit fase grade
grado kapitel klasse level livre livro module part parte partie phase schedule secao seccion
section stage stufe teil tipo title titolo titre titulo tome typ type vol volume war
"""
_NUMBERED = frozenset(_NUMBERED_WORDS.split())
_DIGITS = frozenset("0123456789")
# Characters of the longest time of day that is one compound: 14:30:59.
_MAX_TIME = 8
# First characters of numbers, versions and Roman numbers.
_STARTS = frozenset("0123456789vix")
_HALVES = frozenset(("am", "pm", "uhr"))
# Words that follow the number in a time of day.
_CLOCK = frozenset(("am", "pm", "a.m", "p.m", "uhr", "h"))
_PARTICLES = frozenset(("of", "de"))
_ROMAN = "ii iii iv vi vii viii ix xi xii xiii xiv xv xvi xvii xviii xix xxi xxii xxiii xxiv xxv"
_ROMAN_VALUES = (
    2,
    3,
    4,
    *range(6, 10),
    *range(11, 20),
    *range(21, 26),
)
_ROMAN_NUMBERS = dict(zip(_ROMAN.split(), map(str, _ROMAN_VALUES), strict=True))


class Occurrence(NamedTuple):
    """A sequence in a text, such as a time or a date: its span and its codes."""

    span: Span
    codes: list[str]


def is_sequence(code: str) -> bool:
    """Return whether a code stands for words and numbers that follow each other."""
    return code.startswith(_MARK)


def find_places(compounds: Sequence[str]) -> list[int]:
    """Return the positions of the lower-case compounds that may be numbers: 10, v18 or iii."""
    return [
        place
        for place, compound in enumerate(compounds)
        if compound[0] in _STARTS and may_be_number(compound)
    ]


def may_be_number(compound: str) -> bool:
    """Return whether a lower-case compound may be a number, a version or a Roman number."""
    if compound[0] in _DIGITS or compound in _ROMAN_NUMBERS:
        return True
    return compound[0] == "v" and compound[1:2].isdigit()


def is_particle(compound: str) -> bool:
    """Return whether a compound may stand between the parts of a sequence: 5th of September."""
    return compound in _PARTICLES


def find_neighbours(compounds: Sequence[str], place: int) -> tuple[str, str]:
    """Return the compounds before and after one, without particles; empty at either end."""
    before = compounds[max(0, place - 2) : place]
    after = compounds[place + 1 : place + 3]
    words_before = [compound for compound in before if compound not in _PARTICLES]
    words_after = [compound for compound in after if compound not in _PARTICLES]
    nearest_before = words_before[-1] if words_before else ""
    nearest_after = words_after[0] if words_after else ""
    return nearest_before, nearest_after


@lru_cache(maxsize=50_000)
def find_sequences(first: str, second: str) -> tuple[str, ...]:
    """Return the codes of two lower-case compounds that follow each other; most have none.

    `45 nm` has `=45-nm`, `5 kilograms` has `=5-kg`, `annex iii` has `=annex-3`, `may 2031` has
    `=2031-05`, `may 5` and `5th may` have `=-05-05`. Codes of a number's beginnings come before
    that of the whole: `python 3.11` has `=python-3` and `=python-3.11`.
    """
    first = normalise(first)
    second = normalise(second).replace("\u00b7", "")  # N·m is the unit nm.
    unit = units.find_symbol(second) if first.isdigit() else ""
    if unit and unit not in _HALVES:
        return (_format_measure(first, unit),)
    if _WORD.fullmatch(second) and second not in _ROMAN_NUMBERS:
        return _find_day(first, second)
    if not _WORD.fullmatch(first):
        return ()
    word = fold(first)
    month = MONTHS.get(word)
    if month and _YEAR.fullmatch(second):
        return (_format_month(second, month),)
    if day := _find_day(second, first):
        return day
    if roman := _ROMAN_NUMBERS.get(second):
        return (f"{_MARK}{word}-{roman}",)
    number = _NUMBER.fullmatch(second)
    if number is None or _ENDS_IN_YEAR.search(second):
        return ()
    parts = number[1].split(".")
    beginnings = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return tuple(f"{_MARK}{word}-{beginning}" for beginning in beginnings)


def _find_day(number: str, name: str) -> tuple[str, ...]:
    """Return the code of a day without its year, given as its number and its month's name."""
    month = MONTHS.get(fold(name))
    day = _DAY.fullmatch(number)
    return (_format_day(month, int(day[1])),) if month and day else ()


def find_letter(word: str, letter: str) -> tuple[str, ...]:
    """Return the code of a lower-case word and a letter that follow each other: `=vitamin-a`.

    `annex v` has that of Annex 5. The pronoun I forms none with other words.
    """
    if len(letter) != 1 or not letter.isalpha() or not _WORD_BEFORE.fullmatch(word):
        return ()
    folded = fold(word)
    if letter in _ROMAN_LETTERS and folded in _NUMBERED:
        return (f"{_MARK}{folded}-{_ROMAN_LETTERS[letter]}",)
    return () if letter == "i" else (f"{_MARK}{folded}-{letter}",)


def find_capitals(text: str) -> Iterator[tuple[str, Occurrence]]:
    """Yield each word that a single capital letter follows, in lower case, and both as a sequence.

    The text is not in lower case.
    """
    for capital in SINGLE_CAPITAL.finditer(text):
        start, end = capital.span()
        if match := _WORD_BEFORE.search(text, max(0, start - 31), start - 1):
            word = match[0].lower()
            codes = find_letter(word, capital[0].lower())
            yield word, Occurrence((match.start(), end), list(codes))


def find_other_spelling(code: str) -> str:
    """Return the code of `Windows10` for that of `Windows 10`, and the reverse.

    `=windows-10` ↔ `windows-10`; an empty text for other sequences, such as `=45-nm`.
    """
    if not is_sequence(code):
        return f"{_MARK}{code}"
    return code[1:] if code[1].isalpha() else ""


def find_within(compound: str) -> list[str]:
    """Return the code of a measure or a month that is one compound: `45nm` or `05/2031`."""
    measure = units.split_measure(normalise(compound))
    if measure and measure[1] not in _HALVES:
        number, unit = measure
        return [_format_measure(number, units.find_symbol(unit))]
    if match := _MONTH.fullmatch(compound):
        month = int(match[2] or match[3])
        if 1 <= month <= 12:
            return [_format_month(match["first"] or match["last"], month)]
    return []


def find_in_day(day: str) -> list[str]:
    """Return the codes within a day: `=2031-05` and `=-05-17` for `2031-05-17`."""
    year, month, number = day.split("-")
    return [_format_month(year, int(month)), _format_day(int(month), int(number))]


def find_times(
    text: str,
    compounds: Sequence[str],
    places: Iterable[int],
) -> Iterator[Occurrence]:
    """Yield each time of day in a lower-case text.

    `compounds` are those of the text, and `places` is what `find_places` finds in them. A time on a
    clock of twelve hours has two codes: `2:30 pm` is 14:30, and 2:30 for those who leave out pm.
    """
    if not _may_contain_time(compounds, places):
        return
    for match in _TIME.finditer(text):
        if not _is_time(match):
            continue
        hour = int(match["hour"])
        minutes = match["minutes"]
        codes = [_format_time(hour, minutes)]
        if match["half"] == "p" and hour < 12:
            codes.append(_format_time(hour + 12, minutes))
        elif match["half"] == "a" and hour == 12:
            codes.append(_format_time(0, minutes))
        yield Occurrence(match.span(), codes)


def _is_time(match: re.Match[str]) -> bool:
    """Return whether numbers are a time of day: `14` and `14.30` only with a unit, `2 h` never."""
    if int(match["hour"]) > 23:
        return False
    if match["mark"] in (":", "h"):
        return True
    if match["mark"] is None and match["unit"] == "h":
        return False
    return bool(match["unit"] or match["half"])


def _may_contain_time(compounds: Sequence[str], places: Iterable[int]) -> bool:
    """Tell by a quick test whether a text may contain a time of day: `14:30` or `9pm`.

    `compounds`, `places`: see `find_times`.
    """
    for place in places:
        number = compounds[place]
        following = "".join(compounds[place + 1 : place + 2])
        if number[0] in _DIGITS and len(number) < _MAX_TIME:
            is_minute = len(following) == 2 and following.isdigit()
            ends_in_unit = number[-1] in "mhr"  # 9pm, 9h or 9uhr
            if is_minute or following in _CLOCK or ends_in_unit or "h" in number:
                return True
    return False


def find_by_signs(text: str) -> Iterator[Occurrence]:
    """Yield what signs mark in a text: 50 %, 20 °C, $50, \u230012, 第5条, 2031年5月17日.

    The text is in lower case (`characters.lower`). The first code is that of the whole.
    """
    if any(sign in text for sign in _SIGNS):
        for sign in _SIGN.finditer(text):
            yield from _find_signed(text, sign)
    if "\u7b2c" in text:
        for match in _ARTICLE.finditer(text):
            number = f"{_read_han_number(match[1])}"
            code = f"{_MARK}\u7b2c-{number}-{normalise(match[2])}"
            yield Occurrence(match.span(), [code])
    if "\u5e74" in text or "\ub144" in text:
        yield from _find_dates(text)


def _find_signed(text: str, sign: re.Match[str]) -> Iterator[Occurrence]:
    """Yield the measure of a sign and the number before it, or of a prefix and the one after.

    In `3 $50`, the sign belongs to 50.
    """
    start, end = sign.span()
    mark = sign[0]
    unit = _UNITS_OF_SIGNS.get(mark, mark)
    may_precede = mark in _PREFIXES
    must_precede = mark == DIAMETER or (
        may_precede and text[end : end + 1].isdigit() and not text[start - 1 : start].isdigit()
    )
    number = None
    if not must_precede:
        number = _NUMBER_BEFORE.search(
            text,
            max(0, start - 10),
            start,
        )
    if number:
        yield Occurrence((number.start(), end), [_format_measure(number[1], unit)])
    elif may_precede and (number := _NUMBER_AFTER.match(text, end)):
        yield Occurrence((start, number.end()), [_format_measure(number[1], unit)])


def _read_han_number(number: str) -> int:
    """Return the value of a number in digits or Chinese characters, below 1,000: 一百零五."""
    if number.isdecimal():
        return int(number)
    total = 0
    digit = 0
    for character in number:
        if character in _HAN_POWERS:
            total += (digit or 1) * _HAN_POWERS[character]
            digit = 0
        else:
            # Also 一〇五; 零 is 0.
            digit = 10 * digit + max(0, _HAN_DIGITS.find(character))
    return total + digit


def _find_dates(text: str) -> Iterator[Occurrence]:
    """Yield each day or month as East Asian texts write it.

    The first code is that of the whole: `2031年5月17日` → `2031-05-17`.
    """
    for match in _EAST_ASIAN_DATE.finditer(text):
        year = f"{int(match[1])}"
        month = int(match[2])
        if not 1 <= month <= 12:
            continue
        codes = [_format_month(year, month)]
        if match[3]:
            day = int(match[3])
            codes = [
                f"{year}-{month:02}-{day:02}",
                *codes,
                _format_day(month, day),
            ]
        yield Occurrence(match.span(), codes)


def _format_measure(number: str, unit: str) -> str:
    """Return the code of a number with its unit: `=45-nm`."""
    return f"{_MARK}{fold(number)}-{fold(unit)}"


def _format_month(year: str, month: int) -> str:
    """Return the code of a month: `=2031-05`."""
    return f"{_MARK}{year}-{month:02}"


def _format_day(month: int, day: int) -> str:
    """Return the code of a day of any year: `=-05-17`."""
    return f"{_MARK}-{month:02}-{day:02}"


def _format_time(hour: int, minutes: str | None) -> str:
    """Return the code of a time of day: `=~14-30`."""
    return f"{_MARK}~{hour:02}-{minutes or '00'}"
