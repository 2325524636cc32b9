"""Workbooks of Excel 5 to 2003 (.xls, MS-XLS): their numbers as their cells show them.

office_oxide gives these numbers without the formats of their cells. A workbook is a sequence of
records, each with a kind and a content: first those of the whole workbook, then those of each
sheet.
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

# Streams of the compound file that may hold the workbook: since Excel 97, and before.
_STREAMS = ("Workbook", "Book")
# Kinds of records.
_PART_BEGIN = 0x0809
_PART_END = 0x0A
_SHEET = 0x85
_FORMAT = 0x041E
_STYLE = 0xE0
_CALENDAR = 0x22
_NUMBER = 0x0203
_PACKED_NUMBER = 0x027E
_PACKED_NUMBERS = 0xBD
_FORMULA = 0x06
# Kinds of cells with a text: a text of its own, a shared text, a text with runs.
_TEXTS = (0x0204, 0xFD, 0xD6)
# The version of Excel 97 in the first record.
_EXCEL_97 = 0x600
# The last two bytes of a formula's value if that is a text or an error.
_NOT_A_NUMBER = b"\xff\xff"
# An empty cell, as office_oxide represents it.
_EMPTY: Mapping[str, Any] = {"content": ()}
# The row, the column and the style with which the content of a cell begins.
_CELL_HEAD = struct.Struct("<HHH")
_DOUBLE = struct.Struct("<d")


@dataclass
class _WorkbookGlobals:
    """What the first part of a workbook says of its sheets."""

    # The byte at which the part of each sheet begins, by the sheet's name.
    sheet_starts: dict[str, int] = field(default_factory=dict)
    # The codes of number formats by the numbers of the formats.
    codes: dict[int, str] = field(default_factory=dict)
    # The number of the number format of each cell style.
    styles: list[int] = field(default_factory=list)
    # Whether days are counted from 1904.
    from_1904: bool = False

    def show(self, value: float, style: int) -> str:
        """Return a number as a cell of this style shows it."""
        return show_cell(
            value,
            self._find_code(style),
            from_1904=self.from_1904,
        )

    def find_added_text(self, style: int) -> tuple[str, str] | None:
        """Return what a cell of this style shows before and after a text, None if nothing."""
        return find_added_text(self._find_code(style))

    def _find_code(self, style: int) -> str:
        """Return the code of the number format of a cell style."""
        number = 0
        if style < len(self.styles):
            number = self.styles[style]
        return choose_code(number, self.codes.get(number))


def put_shown_numbers(sections: Sequence[Mapping[str, Any]], content: bytes) -> None:
    """Put the numbers of a workbook into its sheets as their cells show them.

    `sections` are the sheets as office_oxide represents them, and are changed in place; `content`
    is the .xls file. In a damaged file, the numbers before the damage are put in.
    """
    try:
        compound = open_compound(content)
    except ValueError:
        return
    data = next(filter(None, map(compound.read, _STREAMS)), b"")
    if not data:
        return
    with suppress(struct.error, IndexError, OverflowError):
        workbook = _read_globals(data)
        for section in sections:
            start = workbook.sheet_starts.get(section.get("title") or "")
            table = next((node for node in section["elements"] if node["type"] == "table"), None)
            if start is not None and table is not None:
                _put_numbers(
                    table["rows"],
                    data,
                    start,
                    workbook,
                )
                _add_to_texts(
                    table["rows"],
                    data,
                    start,
                    workbook,
                )


def _put_numbers(
    rows: list[Any],
    data: bytes,
    start: int,
    workbook: _WorkbookGlobals,
) -> None:
    """Put the numbers of a sheet into its `rows`; its part of `data` begins at `start`."""
    for row, column, style, value in _read_numbers(data, start):
        try:
            text = workbook.show(value, style)
        except (ValueError, ArithmeticError):
            # The value is infinite or not a number.
            continue
        if not text and not _has_cell(rows, row, column):
            continue
        # office_oxide omits rows and cells at the end if it shows nothing of them.
        while row >= len(rows):
            rows.append({"cells": []})
        cells = rows[row]["cells"]
        cells.extend([_EMPTY] * (column + 1 - len(cells)))
        paragraph = {"type": "paragraph", "content": [{"type": "text", "text": text}]}
        cells[column] = {**cells[column], "content": [paragraph]}


def _has_cell(
    rows: Sequence[Any],
    row: int,
    column: int,
) -> bool:
    """Return whether office_oxide has given a cell."""
    return row < len(rows) and column < len(rows[row]["cells"])


def _add_to_texts(
    rows: list[Any],
    data: bytes,
    start: int,
    workbook: _WorkbookGlobals,
) -> None:
    """Put what formats such as `"Art. "@` add to texts into the `rows` of a sheet.

    Its part of `data` begins at `start`.
    """
    for row, column, style in _read_texts(data, start):
        added = workbook.find_added_text(style)
        if added is None or not _has_cell(rows, row, column):
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
    """Yield the kinds and contents of the records of the part that begins at `start`.

    Parts inside this part, such as a chart on a sheet, are left out.
    """
    position = start
    depth = 0
    while position + 4 <= len(data):
        kind, size = struct.unpack_from("<HH", data, position)
        content = data[position + 4 : position + 4 + size]
        position += 4 + size
        if kind == _PART_BEGIN:
            depth += 1
        elif kind == _PART_END:
            depth -= 1
            if depth <= 0:
                return
        elif depth == 1:
            yield kind, content


def _read_globals(data: bytes) -> _WorkbookGlobals:
    """Read the first part of a workbook."""
    is_97 = struct.unpack_from("<H", data, 4)[0] >= _EXCEL_97
    workbook = _WorkbookGlobals()
    for kind, content in _read_records(data, 0):
        if kind == _SHEET:
            name = _read_text(
                content[6:],
                length_size=1,
                is_97=is_97,
            )
            (workbook.sheet_starts[name],) = struct.unpack_from("<I", content)
        elif kind == _FORMAT:
            (number,) = struct.unpack_from("<H", content)
            length_size = 2 if is_97 else 1
            workbook.codes[number] = _read_text(
                content[2:],
                length_size=length_size,
                is_97=is_97,
            )
        elif kind == _STYLE:
            workbook.styles.append(struct.unpack_from("<H", content, 2)[0])
        elif kind == _CALENDAR:
            workbook.from_1904 = content[:1] == b"\1"
    return workbook


def _read_text(
    content: bytes,
    *,
    length_size: int,
    is_97: bool,
) -> str:
    """Return the text in `content`, which begins with its length, a number of `length_size` bytes.

    Since Excel 97, a byte after the length tells whether each character has two bytes.
    """
    length = int.from_bytes(content[:length_size], "little")
    after_length = content[length_size:]
    if not is_97:
        return after_length[:length].decode("cp1252", "replace")
    if after_length[:1] and after_length[0] & 1:
        return after_length[1 : 1 + 2 * length].decode("utf-16-le", "replace")
    return after_length[1 : 1 + length].decode("latin-1")


def _read_texts(data: bytes, start: int) -> Iterator[tuple[int, int, int]]:
    """Yield (row, column, style) of each text of a sheet, including those of formulas."""
    for kind, content in _read_records(data, start):
        # The first byte of a formula's value tells a text (0) from an error.
        is_formula = kind == _FORMULA and content[12:14] == _NOT_A_NUMBER and content[6] == 0
        if is_formula or kind in _TEXTS:
            yield _CELL_HEAD.unpack_from(content)


def _read_numbers(data: bytes, start: int) -> Iterator[tuple[int, int, int, float]]:
    """Yield (row, column, style, value) of each number of a sheet, including those of formulas."""
    for kind, content in _read_records(data, start):
        if kind == _PACKED_NUMBERS:
            # Cells side by side: the place of the first, then a style and a number for each.
            row, column = struct.unpack_from("<HH", content)
            for at in range(4, len(content) - 2, 6):
                style, packed = struct.unpack_from("<HI", content, at)
                yield row, column, style, _unpack_number(packed)
                column += 1
        elif kind == _PACKED_NUMBER:
            row, column, style = _CELL_HEAD.unpack_from(content)
            (packed,) = struct.unpack_from("<I", content, 6)
            yield row, column, style, _unpack_number(packed)
        elif kind == _NUMBER or (kind == _FORMULA and content[12:14] != _NOT_A_NUMBER):
            row, column, style = _CELL_HEAD.unpack_from(content)
            (value,) = _DOUBLE.unpack_from(content, 6)
            yield row, column, style, value


def _unpack_number(packed: int) -> float:
    """Return a number that is packed into 30 bits and two flags (MS-XLS 2.5.122).

    If bit 1 is set, the 30 bits are a whole number, else the first 30 of the 64 bits of a float. If
    bit 0 is set, the number is to be divided by a hundred.
    """
    value: float
    if packed & 2:
        value = packed >> 2
        is_negative = packed & 0x8000_0000
        if is_negative:
            value -= 1 << 30
    else:
        (value,) = _DOUBLE.unpack(bytes(4) + struct.pack("<I", packed & 0xFFFF_FFFC))
    if packed & 1:
        return value / 100
    return float(value)
