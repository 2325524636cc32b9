"""Numbers in Excel sheets of before 2007 as the sheet shows them: kreuzberg gives 15 % as 0.15, and 36 hours as a day in 1900.

[MS-XLS] 2.4.28 (where a sheet begins), 2.4.77 (days from 1904), 2.4.126 (formats), 2.4.353 (styles) and 2.5.217 (numbers in four
bytes); Excel 5 and 95 differ in the text of a format alone. Where a cell does not hold what kreuzberg gives for it, its sheet
stays as it is.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from engine.corpus.compound import compound_of
from engine.corpus.number_formats import BUILT_IN, Style, style_of

_BEGIN, _END, _SHEET, _FROM_1904, _FORMAT, _XF = 0x0809, 0x0A, 0x85, 0x22, 0x041E, 0xE0
_NUMBER, _SHORT, _SHORTS, _FORMULA = 0x0203, 0x027E, 0xBD, 0x06
_TEXTS = (0x0204, 0xFD, 0xD6, 0x0205)  # and what is true, false or an error
_CELLS = frozenset({_NUMBER, _SHORT, _SHORTS, _FORMULA, *_TEXTS})
_HEAD = struct.Struct("<HH")  # of a record: its kind, and the length of its data
_WITH_UNICODE = b"\x00\x06"
_OF_STYLES = 0x04  # an XF record that is no cell's
_WIDE = 0x01
OF_CHART = 0x4000
"""Added to the kind of a record: it is a chart's copy of a cell."""
_CHART = re.compile(rb"\x09\x08[\x08\x10]\x00..\x20\x00", re.DOTALL)  # where one begins
_NO_NUMBER = b"\xff\xff"
_CLOSE = 1e-6
_OVERLAP = 2  # sheets of a sound workbook do not overlap: more is not walked through than twice its length
_FIRST_DAY, _FIRST_OF_1904 = datetime(1899, 12, 31), datetime(1904, 1, 1)
_DAY = timedelta(days=1)
_ABOUT = 2  # days: Excel counts a 29th of February of 1900


@dataclass(slots=True)
class _Book:
    """Where each sheet begins, by its name; and the styles that show percentages and durations, by their numbers."""

    sheets: dict[str, int] = field(default_factory=dict)
    styles: dict[int, Style] = field(default_factory=dict)
    first_day: datetime = _FIRST_DAY


@dataclass(slots=True)
class Sheet:
    """The numbers in such styles by row and column, where the first cell is, and how many bytes the sheet takes."""

    numbers: dict[tuple[int, int], tuple[float, Style]] = field(default_factory=dict)
    top: int = 0xFFFF
    left: int = 0xFFFF
    length: int = 0


def as_sheets_show(nodes: Sequence[Mapping[str, Any]], content: bytes) -> Sequence[Mapping[str, Any]]:
    """kreuzberg's nodes of a workbook, whose bytes are `content`, with percentages and durations as its sheets show them; as they
    are where it has none, or is damaged.
    """
    try:
        compound = compound_of(content)
        stream = compound.read("Workbook") or compound.read("Book")
        book = _book(stream)
        return list(_shown(nodes, stream, book)) if book.styles else nodes
    except (ValueError, ArithmeticError, struct.error, IndexError):
        return nodes


def with_charts_apart(content: bytes) -> bytes:
    """The bytes of a workbook in which the copies of cells that its charts have are set apart from cells by `OF_CHART`: kreuzberg
    would put them in the place of those of the sheet that a chart stands on. The same where there are none, or it is damaged.
    """
    try:
        compound = compound_of(content)
        name = "Workbook" if "Workbook" in compound else "Book"
        stream = compound.read(name)
        if _CHART.search(stream) is None:
            return content
        changed, depth = bytearray(stream), 0
        for at, _, kind in records_of(stream, _CELLS | {_BEGIN, _END}):
            depth += (kind == _BEGIN) - (kind == _END)
            if depth > 1 and kind in _CELLS:
                struct.pack_into("<H", changed, at - _HEAD.size, kind | OF_CHART)
        return compound.with_stream(name, bytes(changed)) if changed != stream else content
    except (ValueError, OverflowError, struct.error):
        return content


def records_of(stream: bytes, kinds: frozenset[int]) -> Iterator[tuple[int, int, int]]:
    """(place of the data, its length, kind) of the records of some kinds in a workbook, one after the other."""
    head, at, last = _HEAD.unpack_from, 0, len(stream) - _HEAD.size
    while at <= last:
        kind, size = head(stream, at)
        at += 4
        if kind in kinds:
            yield at, size, kind
        at += size


def _book(stream: bytes) -> _Book:
    book, codes, used = _Book(), dict(BUILT_IN), list[str]()
    wide = stream[4:6] == _WITH_UNICODE
    for kind, data in _records(stream, 0):
        if kind == _SHEET:
            book.sheets[text_of(data[6:], wide=wide, long=False)] = struct.unpack_from("<I", data)[0]
        elif kind == _FROM_1904:
            book.first_day = _FIRST_OF_1904 if data[:1] == b"\x01" else _FIRST_DAY
        elif kind == _FORMAT:
            codes[str(struct.unpack_from("<H", data)[0])] = text_of(data[2:], wide=wide, long=wide)
        elif kind == _XF:
            used.append("" if data[4] & _OF_STYLES else str(struct.unpack_from("<H", data, 2)[0]))
    from_1904 = book.first_day == _FIRST_OF_1904
    styles = ((number, style_of(codes.get(code, ""), from_1904=from_1904)) for number, code in enumerate(used))
    book.styles = {number: style for number, style in styles if style is not None}
    return book


def _records(stream: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """(kind, data) of the records from a mark of a beginning to its end mark, or to the next beginning."""
    at, begun = start, False
    while at + 4 <= len(stream):
        kind, size = struct.unpack_from("<HH", stream, at)
        if kind == _END or begun == (kind == _BEGIN):
            return
        begun = True
        yield kind, stream[at + 4 : at + 4 + size]
        at += 4 + size


def text_of(data: bytes, *, wide: bool, long: bool) -> str:
    """A text with its length before it, in two bytes where it is `long`; `wide`: and how many bytes a character has."""
    length, rest = (struct.unpack_from("<H", data)[0], data[2:]) if long else (data[0], data[1:])
    if wide and rest[0] & _WIDE:
        return rest[1 : 1 + 2 * length].decode("utf-16-le", "replace")
    return rest[wide : wide + length].decode("latin-1")


def _shown(nodes: Sequence[Mapping[str, Any]], stream: bytes, book: _Book) -> Iterator[Mapping[str, Any]]:
    left, name = _OVERLAP * len(stream), ""
    for node in nodes:
        content = node["content"]
        if content["node_type"] in ("heading", "title"):
            name = content.get("text") or content.get("title") or ""
        elif content["node_type"] == "table" and name in book.sheets and left > 0:
            sheet = read_sheet(stream, book.sheets[name], book.styles)
            left -= sheet.length
            cells = _cells(content["grid"]["cells"], sheet, book)
            node = {**node, "content": {**content, "grid": {**content["grid"], "cells": cells}}}
        yield node


def read_sheet(stream: bytes, start: int, styles: Mapping[int, Style]) -> Sheet:
    """The cells of one sheet of a workbook's stream, which begins at `start`."""
    sheet = Sheet()
    for kind, data in _records(stream, start):
        sheet.length += 4 + len(data)
        if kind not in _CELLS:
            continue
        row, column = struct.unpack_from("<HH", data)
        sheet.top, sheet.left = min(sheet.top, row), min(sheet.left, column)
        for along, style, number in _values(kind, data):
            if style in styles:
                sheet.numbers[row, column + along] = number, styles[style]
    return sheet


def _values(kind: int, data: bytes) -> Iterator[tuple[int, int, float]]:
    """(columns to the right, number of the style, number) of the cells of a record that hold numbers."""
    if kind == _SHORTS:
        for along, at in enumerate(range(4, len(data) - 7, 6)):
            style, short = struct.unpack_from("<HI", data, at)
            yield along, style, _short(short)
    elif kind == _SHORT:
        style, short = struct.unpack_from("<HI", data, 4)
        yield 0, style, _short(short)
    elif kind == _NUMBER or (kind == _FORMULA and data[12:14] != _NO_NUMBER):
        style, number = struct.unpack_from("<Hd", data, 4)
        yield 0, style, number


def _short(raw: int) -> float:
    """A number written in four bytes: 30 bits of a whole number or of a float, and whether it is hundredths."""
    whole = (raw >> 2) - (1 << 30 if raw >> 31 else 0)
    number: float = whole if raw & 2 else struct.unpack("<d", struct.pack("<Q", (raw & ~3) << 32))[0]
    return number / 100 if raw & 1 else number


def _cells(cells: Sequence[Mapping[str, Any]], sheet: Sheet, book: _Book) -> Sequence[Mapping[str, Any]]:
    changed: list[Mapping[str, Any]] = []
    for cell in cells:
        place = sheet.top + cell["row"], sheet.left + cell["col"]
        if place in sheet.numbers:
            number, style = sheet.numbers[place]
            shown = cell["content"] or ""
            if not _agree(shown, number, book.first_day):
                return cells
            changed.append({**cell, "content": _written(number, style, shown)})
        else:
            changed.append(cell)
    return changed


def _agree(shown: str, number: float, first_day: datetime) -> bool:
    """Whether kreuzberg's text for a cell is its number: as it is, or as a day, the first one for all below zero."""
    with suppress(ValueError):
        return math.isclose(float(shown), number, rel_tol=_CLOSE)
    with suppress(ValueError, TypeError):
        days = (datetime.fromisoformat(shown) - first_day) / _DAY
        return abs(days - max(number, 0)) < _ABOUT
    return False


def _written(number: float, style: Style, shown: str) -> str:
    try:
        return style(Decimal(repr(number)))
    except (ArithmeticError, ValueError):
        return shown
