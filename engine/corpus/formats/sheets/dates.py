"""Days and times as a spreadsheet shows them, from the number of days that it counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from math import floor

from engine.core.calendar_names import (
    ASIAN_CALENDAR_NAMES,
    CALENDAR_NAMES,
    NOON_NAMES,
    CalendarNames,
)
from engine.corpus.formats.sheets.number_formats import Section, Token, count_run

_LANGUAGES = {
    0x04: "zh",
    0x06: "da",
    0x07: "de",
    0x09: "en",
    0x0A: "es",
    0x0C: "fr",
    0x10: "it",
    0x11: "ja",
    0x12: "ko",
    0x13: "nl",
    0x14: "no",
    0x15: "pl",
    0x16: "pt",
    0x19: "ru",
    0x1D: "sv",
    0x1E: "th",
}
"""Languages by the primary language of a Windows locale, its low ten bits (MS-LCID)."""
_PRIMARY_LANGUAGE = 0x3FF
# A hexadecimal number with a decimal digit, such as 407 or F800, but not `de`.
_LOCALE = re.compile(r"(?=[a-z]*\d)[0-9a-f]+", re.IGNORECASE)
# The first day after the year 9999.
_MAX_DAYS = 2_958_466
# How many days later the count begins in workbooks that count from 1904.
_DAYS_TO_1904 = 1462
# 29 February 1900, which Excel counts although it did not exist.
_LEAP_DAY = 60
# Years by which the Buddhist calendar is ahead.
_BUDDHIST_YEARS = 543
# Calendars by their numbers in a locale (CALID of Windows), without the bit for typing dates.
_JAPANESE_CALENDAR = 3
_TAIWANESE_CALENDAR = 4
_KOREAN_CALENDAR = 5
_THAI_CALENDAR = 7
_CALENDAR = 0x7F
_YEARS_AHEAD = {_KOREAN_CALENDAR: 2333, _THAI_CALENDAR: _BUDDHIST_YEARS}
# The eras of Japanese years: their first days, and their names in one to three letters.
_JAPANESE_ERAS = (
    ((2019, 5, 1), ("R", "令", "令和")),
    ((1989, 1, 8), ("H", "平", "平成")),
    ((1926, 12, 25), ("S", "昭", "昭和")),
    ((1912, 7, 30), ("T", "大", "大正")),
    ((1868, 10, 23), ("M", "明", "明治")),
)
_TAIWANESE_ERA = ((1912, 1, 1), ("", "民國", "中華民國"))
_TAIWAN = 0x404
_TAIWANESE = "zh-tw"
# A locale in which the first year of an era has a name of its own.
_WITH_FIRST_YEAR = "x-gannen"
_SECONDS_OF_DAY = 86_400
# Maximum number of dates whose texts are remembered.
_MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class _Locale:
    """The language in which a section writes names, and the calendar by which it counts years."""

    # As in `_LANGUAGES`, or `zh-tw`; `x-` and the like for others.
    language: str
    # 0 for the usual one of the language.
    calendar: int
    has_first_year: bool


@dataclass(frozen=True, slots=True)
class _Era:
    """The era in which a date lies: its names in one to three letters, and the year in it."""

    names: tuple[str, str, str]
    year: int
    has_first_year: bool


@dataclass(frozen=True, slots=True)
class _Moment:
    """The moment that a section writes."""

    year: int
    month: int
    day: int
    # 0 is Sunday.
    weekday: int
    # Seconds since the count of days began, times 10 ** `places`.
    units: int
    # How many digits of a fraction of a second are written.
    places: int
    # Whether the section writes AM or PM.
    is_12_hour: bool
    # By how many years the calendar of the section is ahead.
    years_ahead: int

    @property
    def seconds(self) -> int:
        """Whole seconds since the count began."""
        return self.units // int(10**self.places)

    @property
    def hour(self) -> int:
        """The hour of the day, from 1 to 12 on a twelve-hour clock."""
        if self.is_12_hour:
            return (self.hour_of_24 + 11) % 12 + 1
        return self.hour_of_24

    @property
    def hour_of_24(self) -> int:
        """The hour of the day, from 0 to 23."""
        return self.seconds // 3600 % 24


def show_date(
    value: float,
    section: Section,
    *,
    from_1904: bool = False,
) -> str | None:
    """Write a number of days as a date or a time, by a section with `is_date`.

    None if that is not possible: after the year 9999, or for a negative number unless the section
    writes an elapsed time.
    """
    if value >= _MAX_DAYS or (value < 0 and not section.has("elapsed")):
        return None
    return _write_date(
        value if section.has_time else floor(value),
        section,
        from_1904,
    )


@lru_cache(_MAX_REMEMBERED)
def _write_date(
    value: float,
    section: Section,
    from_1904: bool,
) -> str:
    """Write a number of days token by token; the texts are cached, since dates recur in a sheet."""
    tokens = section.tokens
    has_day = any(token.kind == "date" and token.text[0] == "d" for token in tokens)
    places = _count_places(tokens)
    locale = _read_locale(section.language)
    years_ahead = _YEARS_AHEAD.get(locale.calendar, 0)
    moment = _compute_moment(
        abs(value),
        section,
        places,
        years_ahead,
        from_1904=from_1904,
    )
    names = _find_names(locale.language)
    era = _find_era(moment, section, locale)
    pieces = ["-"] if value < 0 else []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        at += 1
        if token.kind == "elapsed":
            pieces.append(_show_elapsed(token.text, moment))
        elif token.kind == "date":
            if era and token.text[0] in "ge":
                pieces.append(_show_era(token.text, era))
            else:
                pieces.append(_show_date_part(token.text, moment, names, has_day=has_day))
        elif token.kind == "noon":
            pieces.append(_show_noon(token.text, moment, locale.language))
        elif token.kind == "point" and places and count_run(tokens[at:], "digit"):
            # One token stands for each digit of the fraction of a second.
            pieces.append(f".{moment.units % 10**places:0{places}}")
            at += count_run(tokens[at:], "digit")
        else:
            pieces.append(token.text)
    return "".join(pieces)


def _count_places(tokens: Sequence[Token]) -> int:
    """Return how many digits of a fraction of a second are written, as in `ss.000`, at most six."""
    for at, (token, following) in enumerate(pairwise(tokens)):
        is_second = token.kind in ("date", "elapsed") and token.text[0] == "s"
        if is_second and following.kind == "point":
            return min(count_run(tokens[at + 2 :], "digit"), 6)
    return 0


def _compute_moment(
    value: float, section: Section, places: int, years_ahead: int, *, from_1904: bool
) -> _Moment:
    """Return the moment of a number of days, such as 47985.333 (8:00 on the day 47985).

    If a time is written, it is rounded to `places` digits of a second. A day alone is never rounded
    up to the next day.
    """
    if section.has_time:
        units = floor(value * _SECONDS_OF_DAY * 10**places + 0.5)
    else:
        units = floor(value) * _SECONDS_OF_DAY
    days = units // (_SECONDS_OF_DAY * 10**places) + (_DAYS_TO_1904 if from_1904 else 0)
    if days == 0:
        # The day before 1 January 1900, as Excel writes it.
        day = (1900, 1, 0)
    elif days == _LEAP_DAY:
        day = (1900, 2, 29)
    else:
        # Day 1 is 1 January 1900; after the day that did not exist, all dates are a day earlier.
        day_zero = date(
            1899,
            12,
            31 if days < _LEAP_DAY else 30,
        )
        written = day_zero + timedelta(min(days, _MAX_DAYS - 1))
        day = (
            written.year,
            written.month,
            written.day,
        )
    # To Excel, day 1 was a Sunday.
    weekday = (days - 1) % 7
    return _Moment(
        *day,
        weekday,
        units,
        places,
        section.has("noon"),
        years_ahead,
    )


@lru_cache
def _read_locale(typed: str) -> _Locale:
    """Return the locale of a section, as in `[$-407]`, `[$-de-DE]` or `[$-107041E]`.

    In the last one, and in `[$-th-TH,107]`, 07 is the calendar, and 1 the script of numbers.
    """
    name, _, variant = typed.lower().partition(",")
    has_first_year = _WITH_FIRST_YEAR in name
    if not _LOCALE.fullmatch(name):
        calendar = int(variant, 16) & _CALENDAR if _LOCALE.fullmatch(variant) else 0
        language = _TAIWANESE if name.startswith(_TAIWANESE) else name[:2]
        return _Locale(language, calendar, has_first_year)
    number = int(name, 16)
    language = _LANGUAGES.get(number & _PRIMARY_LANGUAGE, "en")
    if number & 0xFFFF == _TAIWAN:
        language = _TAIWANESE
    return _Locale(
        language,
        number >> 16 & _CALENDAR,
        has_first_year,
    )


def _find_names(language: str) -> CalendarNames:
    """Return the names of months and days in a language, in English if it is unknown."""
    names = CALENDAR_NAMES.get(language) or ASIAN_CALENDAR_NAMES.get(language)
    return names or CALENDAR_NAMES["en"]


def _find_era(
    moment: _Moment,
    section: Section,
    locale: _Locale,
) -> _Era | None:
    """Return the era that a section writes, None if it writes years of our own calendar."""
    letters = {token.text[0] for token in section.tokens if token.kind == "date"}
    is_taiwanese = locale.language == _TAIWANESE or locale.calendar == _TAIWANESE_CALENDAR
    is_japanese = locale.language == "ja" or locale.calendar == _JAPANESE_CALENDAR
    if "g" not in letters and not ((is_taiwanese or is_japanese) and "e" in letters):
        return None
    eras = (_TAIWANESE_ERA,) if is_taiwanese else _JAPANESE_ERAS
    for first_day, names in eras:
        if (moment.year, moment.month, moment.day) >= first_day:
            year = moment.year - first_day[0] + 1
            return _Era(names, year, locale.has_first_year)
    return None


def _show_era(text: str, era: _Era) -> str:
    """Write the name of an era for `g`, `gg` or `ggg`, and the year in it for `e` or `ee`."""
    length = len(text)
    if text[0] == "g":
        return era.names[min(length, 3) - 1]
    if era.year == 1 and era.has_first_year:
        return "元"
    return f"{era.year:0{min(length, 2)}}"


def _show_elapsed(text: str, moment: _Moment) -> str:
    """Write `[h]`, `[mm]` or `[ss]`: all hours, minutes or seconds since the count began."""
    unit = {"h": 3600, "m": 60, "s": 1}[text[0]]
    return str(moment.seconds // unit).zfill(len(text))


def _show_noon(
    text: str,
    moment: _Moment,
    language: str,
) -> str:
    """Write `AM/PM`, `a/p` or the like; in some languages, `AM/PM` stands for other words."""
    if text == "am/pm":
        text = NOON_NAMES.get(language, text)
    before_noon, _, after_noon = text.upper().partition("/")
    return after_noon if moment.hour_of_24 >= 12 else before_noon


def _show_date_part(
    text: str,
    moment: _Moment,
    names: CalendarNames,
    *,
    has_day: bool,
) -> str:
    """Write a year, month, day, hour, minute or second by a token such as `yyyy` or `mm`.

    `has_day` tells that the section also writes a day: in some languages, the name of a month then
    has another form.
    """
    length = len(text)
    match text[0]:
        case "y":
            return _show_year(length, moment.year + moment.years_ahead)
        case "e":
            return str(moment.year)
        case "b":
            return _show_year(length, moment.year + _BUDDHIST_YEARS)
        case "m":
            return _show_month(
                length,
                moment.month,
                names,
                has_day=has_day,
            )
        case "d":
            return _show_day(length, moment, names)
        case "a":
            return _show_asian_day(length, moment, names)
        case "h":
            return f"{moment.hour:0{min(length, 2)}}"
        case "n":
            return f"{moment.seconds // 60 % 60:0{min(length, 2)}}"
        case "s":
            return f"{moment.seconds % 60:0{min(length, 2)}}"
    # An era, `g`, before the first that is known.
    return ""


def _show_year(length: int, year: int) -> str:
    """Write a year in two digits for one or two letters, else in four."""
    if length < 3:
        return f"{year % 100:02}"
    return str(year)


def _show_month(
    length: int,
    month: int,
    names: CalendarNames,
    *,
    has_day: bool,
) -> str:
    """Write 3 for `m`, 03 for `mm`, Mar for `mmm`, March for `mmmm` and M for `mmmmm`."""
    if length < 3:
        return f"{month:0{length}}"
    if length == 3:
        return names.short_months[month - 1]
    months = names.months
    if has_day and names.months_of_day:
        months = names.months_of_day
    name = months[month - 1]
    if length == 5:
        return name[:1]
    return name


def _show_day(
    length: int,
    moment: _Moment,
    names: CalendarNames,
) -> str:
    """Write 4 for `d`, 04 for `dd`, Tue for `ddd` and Tuesday for `dddd`."""
    if length < 3:
        return f"{moment.day:0{length}}"
    days = names.short_days if length == 3 else names.days
    return days[moment.weekday]


def _show_asian_day(
    length: int,
    moment: _Moment,
    names: CalendarNames,
) -> str:
    """Write 土 for `aaa` and 土曜日 for `aaaa`, in Japanese unless the section names a language."""
    if names is CALENDAR_NAMES["en"]:
        names = ASIAN_CALENDAR_NAMES["ja"]
    return _show_day(length, moment, names)
