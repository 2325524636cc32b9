"""Workbooks of Excel 5 to 2003 (.xls, MS-XLS): their numbers as their cells show them.

office_oxide gives these numbers without the formats of the cells.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from engine.corpus.formats.containers import open_compound
from engine.corpus.formats.sheets.cells import show_cell
from engine.corpus.formats.sheets.number_formats import choose_code
from engine.corpus.formats.sheets.shown import find_added_text

_STREAMS = ("Workbook", "Book")
_BEGIN = 0x0809
_END = 0x0A
_SHEET = 0x85
_FORMAT = 0x041E
_STYLE = 0xE0
_CALENDAR = 0x22
_NUMBER = 0x0203
_PACKED = 0x027E
_PACKED_ROW = 0xBD
_FORMULA = 0x06
# Texts of their own, shared texts, texts with runs.
_TEXTS = (0x0204, 0xFD, 0xD6)
_EXCEL_97 = 0x600
# The end of a formula's value if that is a text or an error.
_NO_NUMBER = b"\xff\xff"
# An empty cell.
_EMPTY: Mapping[str, Any] = {"content": ()}
_CELL = struct.Struct("<HHH")
_DOUBLE = struct.Struct("<d")


@dataclass
class _Book:
    """What the first part of a workbook says of the others."""

    # Where each sheet begins, and its name.
    sheets: list[tuple[int, str]] = field(default_factory=list)
    codes: dict[int, str] = field(default_factory=dict)
    styles: list[int] = field(default_factory=list)
    from_1904: bool = False

    def show(self, value: float, style: int) -> str:
        """Return a number as a cell of this style shows it."""
        return show_cell(value, self._find_code(style), from_1904=self.from_1904)

    def find_added_text(self, style: int) -> tuple[str, str] | None:
        """Return what a cell of this style shows before and after a text, None if nothing."""
        return find_added_text(self._find_code(style))

    def _find_code(self, style: int) -> str:
        number = 0
        if style < len(self.styles):
            number = self.styles[style]
        return choose_code(number, self.codes.get(number))


def put_shown_numbers(sections: Sequence[Mapping[str, Any]], content: bytes) -> None:
    """Put the numbers of a workbook into its sheets as they are shown.

    The numbers of a damaged workbook stay as they are.
    """
    try:
        compound = open_compound(content)
    except ValueError:
        return
    data = next(filter(None, map(compound.read, _STREAMS)), b"")
    if not data:
        return
    with suppress(struct.error, IndexError, OverflowError):
        book = _read_book(data)
        starts = {name: start for start, name in book.sheets}
        for section in sections:
            start = starts.get(section.get("title") or "")
            table = next((node for node in section["elements"] if node["type"] == "table"), None)
            if start is not None and table is not None:
                _put_numbers(table["rows"], data, start, book)
                _add_to_texts(table["rows"], data, start, book)


def _put_numbers(rows: list[Any], data: bytes, start: int, book: _Book) -> None:
    for row, column, style, value in _read_numbers(data, start):
        try:
            text = book.show(value, style)
        except (ValueError, ArithmeticError):
            # The value is infinite or not a number.
            continue
        if not text and (row >= len(rows) or column >= len(rows[row]["cells"])):
            continue
        while row >= len(rows):
            rows.append({"cells": []})
        cells = rows[row]["cells"]
        # office_oxide omits the last cells of a row if it shows nothing of them.
        cells.extend([_EMPTY] * (column + 1 - len(cells)))
        paragraph = {"type": "paragraph", "content": [{"type": "text", "text": text}]}
        cells[column] = {**cells[column], "content": [paragraph]}


def _add_to_texts(rows: list[Any], data: bytes, start: int, book: _Book) -> None:
    """Put what formats such as `"Art. "@` add to texts into their cells."""
    for row, column, style in _read_texts(data, start):
        added = book.find_added_text(style)
        if added is None or row >= len(rows) or column >= len(rows[row]["cells"]):
            continue
        paragraphs = rows[row]["cells"][column].get("content")
        if not paragraphs:
            continue
        before, after = added
        first = paragraphs[0]
        first["content"] = [{"type": "text", "text": before}, *first.get("content", ())]
        last = paragraphs[-1]
        last["content"] = [*last.get("content", ()), {"type": "text", "text": after}]


def _read_records(data: bytes, start: int) -> Iterator[tuple[int, bytes]]:
    """Yield (kind, content) of the records from `start` to the end of that part.

    Other parts inside it are left out.
    """
    at = start
    depth = 0
    while at + 4 <= len(data):
        kind, size = struct.unpack_from("<HH", data, at)
        content = data[at + 4 : at + 4 + size]
        at += 4 + size
        if kind == _BEGIN:
            depth += 1
        elif kind == _END:
            depth -= 1
            if depth <= 0:
                return
        # A chart on a sheet is a part within its part.
        elif depth == 1:
            yield kind, content


def _read_book(data: bytes) -> _Book:
    is_97 = struct.unpack_from("<H", data, 4)[0] >= _EXCEL_97
    book = _Book()
    for kind, content in _read_records(data, 0):
        if kind == _SHEET:
            (start,) = struct.unpack_from("<I", content)
            book.sheets.append((start, _read_text(content[6:], 1, is_97)))
        elif kind == _FORMAT:
            (number,) = struct.unpack_from("<H", content)
            book.codes[number] = _read_text(content[2:], 2 if is_97 else 1, is_97)
        elif kind == _STYLE:
            book.styles.append(struct.unpack_from("<H", content, 2)[0])
        elif kind == _CALENDAR:
            book.from_1904 = content[:1] == b"\1"
    return book


def _read_text(content: bytes, length_size: int, is_97: bool) -> str:
    """Return a text that follows its length.

    Since Excel 97 a byte says whether its characters have two bytes.
    """
    length = int.from_bytes(content[:length_size], "little")
    rest = content[length_size:]
    if not is_97:
        return rest[:length].decode("cp1252", "replace")
    if rest[:1] and rest[0] & 1:
        return rest[1 : 1 + 2 * length].decode("utf-16-le", "replace")
    return rest[1 : 1 + length].decode("latin-1")


def _read_texts(data: bytes, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield (row, column, style) of each text of a sheet, including those of formulas."""
    for kind, content in _read_records(data, start):
        # The first byte of a formula's value says whether it is a text.
        is_formula = kind == _FORMULA and content[12:14] == _NO_NUMBER and content[6] == 0
        if is_formula or kind in _TEXTS:
            yield _CELL.unpack_from(content)


def _read_numbers(data: bytes, start: int) -> Iterator[tuple[int, int, int, float]]:
    """Yield (row, column, style, value) of each number of a sheet, including those of formulas."""
    for kind, content in _read_records(data, start):
        if kind == _PACKED_ROW:
            row, column = struct.unpack_from("<HH", content)
            for at in range(4, len(content) - 2, 6):
                style, packed = struct.unpack_from("<HI", content, at)
                yield row, column + at // 6, style, _unpack(packed)
        elif kind in (_NUMBER, _PACKED, _FORMULA):
            row, column, style = _CELL.unpack_from(content)
            if kind == _PACKED:
                yield row, column, style, _unpack(struct.unpack_from("<I", content, 6)[0])
            elif kind == _NUMBER or content[12:14] != _NO_NUMBER:
                yield row, column, style, _DOUBLE.unpack_from(content, 6)[0]


def _unpack(packed: int) -> float:
    """Return a number of 30 bits (MS-XLS 2.5.122).

    It is a whole number or the first bits of another, and may be times a hundred.
    """
    value: float
    if packed & 2:
        value = packed >> 2
        if packed & 0x8000_0000:
            value -= 1 << 30
    else:
        (value,) = _DOUBLE.unpack(bytes(4) + struct.pack("<I", packed & 0xFFFF_FFFC))
    if packed & 1:
        return value / 100
    return float(value)
