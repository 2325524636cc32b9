"""Numbers of Excel and OpenDocument sheets as a reader sees them: kreuzberg gives 15 % as 0.15, and 36 hours as a day in 1900."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any

from engine.corpus.package import Package

_DURATION = re.compile(
    rb'(<table:table-cell\b[^<>]*\boffice:value-type=")time("[^<>]*?\boffice:)time-value="PT(\d{1,6})H(\d\d?)M(\d\d?(?:\.\d{1,20})?)S"'
)
_DAY_AND_TIME = re.compile(rb'(\boffice:date-value=")(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{1,20})?(?=")')
_MAX_STYLES_SIZE = 16 * 2**20  # bytes of the table of styles
BUILT_IN = {
    "9": "0%", "10": "0.00%", "18": "h:mm AM/PM", "19": "h:mm:ss AM/PM", "20": "h:mm", "21": "h:mm:ss", "45": "mm:ss",
    "46": "[h]:mm:ss", "47": "mm:ss.0",
}  # fmt: skip
"""Formats that no workbook lists, by their numbers (ECMA-376 part 1, 18.8.30); kreuzberg gives those of days well."""
_NOT_SHOWN_AS_IS = re.compile(r'"[^"]*"|\\.|[_*].|\[(?!(?:h+|m+|s+)\])[^\]]{0,255}\]', re.IGNORECASE)
_ELAPSED = re.compile(r"\[([hms])", re.IGNORECASE)
_OF_TIMES, _OF_DAYS = re.compile(r"[hs]", re.IGNORECASE), re.compile(r"[dy]", re.IGNORECASE)
_FROM_1904 = re.compile(rb'\sdate1904="(?:1|true)"')
_CELL = (
    rb'<((?:\w+:)?c)(\s[^<>]*?\bs="(%b)"[^<>]*)>((?:<(?:\w+:)?f\b[^<>]*(?:/>|>[^<]*</(?:\w+:)?f>))?<(?:\w+:)?v>)'
    rb"([^<]{1,40})(?=<)"
)
_TYPE = re.compile(rb'\st="(\w+)"')
_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d) 00:00:00")
_TIME = re.compile(r"1899-12-3[01] (\d\d:\d\d:\d\d)")
_MOMENT = len("1899-12-31 00:00:00")
_PERCENTAGE = re.compile(rb'<table:table-cell\b[^<>]*\boffice:value-type="percentage"[^<>]*>')
_VALUE = re.compile(rb'\soffice:value="[^"]*"')

Style = Callable[[Decimal], str]


def cells_as_text(content: bytes) -> bytes:
    """The cells of an OpenDocument sheet: those that hold percentages are what is written in them; days with a time, and times, are
    shown to the second, as those of Excel are.
    """
    if b'"percentage"' in content:
        content = _PERCENTAGE.sub(
            lambda found: _VALUE.sub(b"", found[0].replace(b'"percentage"', b'"string"')), content
        )
    if b'time-value="PT' in content:
        content = _DURATION.sub(
            lambda found: b'%bdate%bdate-value="%b"' % (found[1], found[2], _clock(*found.groups()[2:])), content
        )
    return _DAY_AND_TIME.sub(_moment, content) if b"date-value=" in content else content


def _clock(hours: bytes, minutes: bytes, seconds: bytes) -> bytes:
    whole = int(Decimal(seconds.decode()).quantize(Decimal(1), ROUND_HALF_UP)) + 60 * int(minutes) + 3600 * int(hours)
    return b"%02d:%02d:%02d" % (whole // 3600, whole // 60 % 60, whole % 60)


def _moment(found: re.Match[bytes]) -> bytes:
    try:
        day = datetime.fromisoformat(found[2].decode()) + timedelta(seconds=float(found[3] or 0))
    except (ValueError, OverflowError):
        return found[0]
    day = (day + timedelta(milliseconds=500)).replace(microsecond=0)
    return found[1] + day.isoformat(" ").removesuffix(" 00:00:00").encode()


def as_shown(cell: str) -> str:
    """The text of a cell as kreuzberg gives it, a day without a time and a time without a day."""
    if len(cell) != _MOMENT:
        return cell
    found = _TIME.fullmatch(cell) or _MIDNIGHT.fullmatch(cell)
    return found[1] if found else cell


def sheet_change(package: Package) -> Callable[[bytes], bytes] | None:
    """What makes texts of the percentages and durations in a workbook's sheets; None where it has none."""
    styles = _styles(package)
    if not styles:
        return None
    pattern = re.compile(_CELL % b"|".join(number.encode() for number in styles))
    return lambda sheet: pattern.sub(lambda found: _told(found, styles), sheet)


def _told(found: re.Match[bytes], styles: Mapping[str, Style]) -> bytes:
    name, attributes, style, before, value = found.groups()
    kind = _TYPE.search(attributes)
    if kind is not None and kind[1] != b"n":
        return found[0]
    try:
        text = styles[style.decode()](Decimal(value.decode("ascii")))
    except (InvalidOperation, UnicodeDecodeError, ValueError, OverflowError):
        return found[0]
    return b'<%b%b t="str">%b%b' % (name, _TYPE.sub(b"", attributes), before, text.encode())


def _styles(package: Package) -> dict[str, Style]:
    """Number of a cell's style → how it shows a number, of those that show percentages or durations."""
    from lxml import etree

    part = package.archive.NameToInfo.get("xl/styles.xml")
    if part is None or part.file_size > _MAX_STYLES_SIZE:
        return {}
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        root = etree.fromstring(package.read("xl/styles.xml"), parser)
    except etree.XMLSyntaxError:
        return {}
    codes = {**BUILT_IN, **{one.get("numFmtId"): one.get("formatCode") or "" for one in root.iter("{*}numFmt")}}
    cells: Any = root.find("{*}cellXfs")
    from_1904 = _FROM_1904.search(package.read("xl/workbook.xml")) is not None
    kinds = (
        (str(at), style_of(codes.get(xf.get("numFmtId"), ""), from_1904=from_1904))
        for at, xf in enumerate(cells if cells is not None else ())
    )
    return {number: kind for number, kind in kinds if kind is not None}


def style_of(code: str, *, from_1904: bool = False) -> Style | None:
    """How a format of Excel shows a number; None for one that shows no percentages and no durations. Where days are counted from
    1904, also for one that shows times of the day: kreuzberg gives them with a day of that year, which may be meant.
    """
    plain = _NOT_SHOWN_AS_IS.sub("", code).partition(";")[0]
    if elapsed := _ELAPSED.search(plain):
        return _SINCE[elapsed[1].lower()]
    if "%" in plain:
        places = len(re.findall(r"[0#?]", plain.partition(".")[2]))
        return lambda number: f"{(100 * number).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}%"
    return _time if from_1904 and _OF_TIMES.search(plain) and not _OF_DAYS.search(plain) else None


def _hours(days: Decimal) -> str:
    sign, seconds = _seconds(days)
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _minutes(days: Decimal) -> str:
    sign, seconds = _seconds(days)
    return f"{sign}{seconds // 60}:{seconds % 60:02}"


def _only_seconds(days: Decimal) -> str:
    sign, seconds = _seconds(days)
    return f"{sign}{seconds}"


def _time(days: Decimal) -> str:
    if not 0 <= days < 1:
        raise ValueError("a time on a day, which is shown with it")
    seconds = _seconds(days)[1]
    return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _seconds(days: Decimal) -> tuple[str, int]:
    seconds = int((days * 86400).quantize(Decimal(1), ROUND_HALF_UP))
    return "-" if seconds < 0 else "", abs(seconds)


_SINCE = {"h": _hours, "m": _minutes, "s": _only_seconds}
