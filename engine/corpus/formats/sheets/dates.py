"""Days and times as a spreadsheet shows them, from the number of days that it counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from math import floor

from engine.core.calendar_names import CALENDAR_NAMES, CalendarNames
from engine.corpus.formats.sheets.number_formats import Section, Token, count_run

_LANGUAGES = {
    0x06: "da",
    0x07: "de",
    0x09: "en",
    0x0A: "es",
    0x0C: "fr",
    0x10: "it",
    0x13: "nl",
    0x14: "no",
    0x15: "pl",
    0x16: "pt",
    0x19: "ru",
    0x1D: "sv",
}
"""Languages by the primary language of a Windows locale, its low ten bits (MS-LCID)."""
_LOCALE = re.compile(r"(?=[a-z]*\d)[0-9a-f]+", re.IGNORECASE)
# The first day after the year 9999.
_MAX_DAYS = 2_958_466
# Days between the two calendars of workbooks.
_FROM_1904 = 1462
# 29 February 1900, which Excel counts although it did not exist.
_LEAP_DAY = 60
_BUDDHIST = 543
_SECONDS = 86_400
# Maximum number of days whose texts are remembered.
_KNOWN = 4096


@dataclass(frozen=True, slots=True)
class _Moment:
    """The moment that a section writes.

    `units` are seconds since the count began, times 10 ** `places`; `weekday` 0 is Sunday.
    """

    year: int
    month: int
    day: int
    weekday: int
    units: int
    places: int
    is_half_day: bool

    @property
    def seconds(self) -> int:
        """Whole seconds since the count began."""
        return self.units // int(10**self.places)

    @property
    def hour(self) -> int:
        """The hour of the day, on a twelve-hour clock if the section writes AM or PM."""
        hour = self.seconds // 3600 % 24
        if self.is_half_day:
            return (hour + 11) % 12 + 1
        return hour


def show_date(value: float, section: Section, *, from_1904: bool = False) -> str | None:
    """Write a day or time by a section with `is_date`, None if the number is neither."""
    if value >= _MAX_DAYS or (value < 0 and not section.has("elapsed")):
        return None
    return _write_date(value if section.has_time else floor(value), section, from_1904)


@lru_cache(_KNOWN)
def _write_date(value: float, section: Section, from_1904: bool) -> str:
    tokens = section.tokens
    has_day = any(token.kind == "date" and token.text[0] == "d" for token in tokens)
    places = _count_places(tokens)
    moment = _find_moment(
        abs(value), places, section.has_time, from_1904, is_half_day=section.has("noon")
    )
    names = _find_names(section.language)
    pieces = ["-"] if value < 0 else []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.kind == "elapsed":
            pieces.append(_show_elapsed(token.text, moment))
        elif token.kind == "date":
            pieces.append(_show_part(token.text, moment, names, has_day=has_day))
        elif token.kind == "noon":
            pieces.append(_show_noon(token.text, moment))
        elif token.kind == "point" and places and at < len(tokens) and tokens[at].kind == "digit":
            pieces.append(f".{moment.units % 10**places:0{places}}")
            while at < len(tokens) and tokens[at].kind == "digit":
                at += 1
        else:
            pieces.append(token.text)
    return "".join(pieces)


def _count_places(tokens: Sequence[Token]) -> int:
    """Count the places of a second that are written, as in `ss.000`."""
    for at, (token, following) in enumerate(pairwise(tokens)):
        is_second = token.kind in ("date", "elapsed") and token.text[0] == "s"
        if is_second and following.kind == "point":
            return min(count_run(tokens[at + 2 :], "digit"), 6)
    return 0


def _find_moment(
    value: float, places: int, has_time: bool, from_1904: bool, *, is_half_day: bool
) -> _Moment:
    """Return the moment of a number, rounded to its last place if a time is written.

    A day alone is not rounded up to the next day.
    """
    if has_time:
        units = floor(value * _SECONDS * 10**places + 0.5)
    else:
        units = floor(value) * _SECONDS
    days = units // (_SECONDS * 10**places) + (_FROM_1904 if from_1904 else 0)
    weekday = (days + 6) % 7
    if days == _LEAP_DAY:
        return _Moment(1900, 2, 29, weekday, units, places, is_half_day)
    if not days:
        return _Moment(1900, 1, 0, weekday, units, places, is_half_day)
    if days < _LEAP_DAY:
        first_day = date(1899, 12, 31)
    else:
        first_day = date(1899, 12, 30)
    day = first_day + timedelta(min(days, _MAX_DAYS - 1))
    return _Moment(day.year, day.month, day.day, weekday, units, places, is_half_day)


def _find_names(language: str) -> CalendarNames:
    code = language.rpartition(",")[0] or language
    if _LOCALE.fullmatch(code):
        return CALENDAR_NAMES[_LANGUAGES.get(int(code, 16) & 0x3FF, "en")]
    return CALENDAR_NAMES.get(code[:2].lower(), CALENDAR_NAMES["en"])


def _show_elapsed(text: str, moment: _Moment) -> str:
    length = {"h": 3600, "m": 60, "s": 1}[text[0]]
    return str(moment.seconds // length).zfill(len(text))


def _show_noon(text: str, moment: _Moment) -> str:
    before_noon, _, after_noon = text.upper().partition("/")
    return after_noon if moment.seconds // 3600 % 24 >= 12 else before_noon


def _show_part(text: str, moment: _Moment, names: CalendarNames, *, has_day: bool) -> str:
    """Write a year, month, day, hour, minute or second."""
    length = len(text)
    match text[0]:
        case "y":
            return _show_year(length, moment.year)
        case "e":
            return str(moment.year)
        case "b":
            return _show_year(length, moment.year + _BUDDHIST)
        case "m":
            return _show_month(length, moment.month, names, has_day=has_day)
        case "d":
            return _show_day(length, moment, names)
        case "h":
            return f"{moment.hour:0{min(length, 2)}}"
        case "n":
            return f"{moment.seconds // 60 % 60:0{min(length, 2)}}"
        case "s":
            return f"{moment.seconds % 60:0{min(length, 2)}}"
    # An era has no name here.
    return ""


def _show_year(length: int, year: int) -> str:
    if length < 3:
        return f"{year % 100:02}"
    return str(year)


def _show_month(length: int, month: int, names: CalendarNames, *, has_day: bool) -> str:
    if length < 3:
        return f"{month:0{length}}"
    if length == 3:
        return names.short_months[month - 1]
    months = (has_day and names.months_of_day) or names.months
    name = months[month - 1]
    if length == 5:
        return name[:1]
    return name


def _show_day(length: int, moment: _Moment, names: CalendarNames) -> str:
    if length < 3:
        return f"{moment.day:0{length}}"
    days = names.short_days if length == 3 else names.days
    return days[moment.weekday]
