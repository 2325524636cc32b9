"""Numbers in Excel sheets of before 2007 are read as the sheets show them. The workbooks are written by hand."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from fixtures.office import biff_record, compound

from engine.corpus import excel_binary
from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument, UnreadableFileError

CODES = (
    "General", "0%", "0.0%;[Red]-0.0%", '0"%"', "[h]:mm:ss", "yyyy-mm-dd;@", "h:mm", "dd.mm.yyyy hh:mm", "[mm]:ss", "[s]",
)  # fmt: skip
GENERAL, PERCENT, TENTHS, SIGN, HOURS, DAY, TIME, MOMENT, MINUTES, SECONDS = range(len(CODES))
BUILT_IN_PERCENT, BUILT_IN_TIME = len(CODES), len(CODES) + 1
BIFF5, BIFF8 = 0x500, 0x600


def text(row: int, column: int, value: str, *, version: int = BIFF8) -> bytes:
    flags = b"\0" if version == BIFF8 else b""
    return biff_record(0x0204, struct.pack("<HHHH", row, column, GENERAL, len(value)) + flags + value.encode())


def number(row: int, column: int, style: int, value: float) -> bytes:
    return biff_record(0x0203, struct.pack("<HHHd", row, column, style, value))


def short(value: float, *, hundredths: bool = False, whole: bool = False) -> int:
    if whole:
        return int(value) << 2 & 0xFFFFFFFF | 2 | hundredths
    raw: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return raw >> 32 & ~3 | hundredths


def formula(row: int, column: int, style: int, result: bytes) -> bytes:
    return biff_record(
        0x06, struct.pack("<HHH", row, column, style) + result + struct.pack("<HIH", 0, 0, 3) + b"\x1e\1\0"
    )


def workbook(
    sheets: Mapping[str, bytes],
    *,
    version: int = BIFF8,
    from_1904: bool = False,
    of_cells: bool = True,
    wide: bool = False,
) -> bytes:
    """A workbook of sheets by name, each the records of its cells. Its styles are those of CODES, 10 (0.00%) and 20 (h:mm);
    `of_cells`: not of named styles. `wide`: the texts of its formats take two bytes a character.
    """
    versions = struct.pack("<HH", version, 0x10) + bytes(12 if version == BIFF8 else 4)
    begun = biff_record(0x0809, versions)
    book = biff_record(0x0809, struct.pack("<HH", version, 5) + versions[4:])
    book += biff_record(0x42, struct.pack("<H", 1200 if version == BIFF8 else 1252)) + biff_record(
        0x22, struct.pack("<H", from_1904)
    )
    for at, code in enumerate(CODES):
        length = struct.pack("<HB", len(code), wide) if version == BIFF8 else bytes([len(code)])
        book += biff_record(
            0x041E, struct.pack("<H", 164 + at) + length + code.encode("utf-16-le" if wide else "ascii")
        )
    for format in [*range(164, 164 + len(CODES)), 10, 20]:
        flags = 0 if of_cells else 4
        book += biff_record(0xE0, struct.pack("<HHH", 0, format, flags) + bytes(14 if version == BIFF8 else 10))
    flags = b"\0" if version == BIFF8 else b""
    at = len(book) + sum(11 + len(flags) + len(name) for name in sheets) + 4
    streams = b""
    for name, cells in sheets.items():
        book += biff_record(0x85, struct.pack("<IHB", at + len(streams), 0, len(name)) + flags + name.encode())
        streams += begun + cells + biff_record(0x0A, b"")
    stream = book + biff_record(0x0A, b"") + streams
    return compound({"Workbook" if version == BIFF8 else "Book": stream.ljust(4096, b"\0")})


def rows(tmp_path: Path, content: bytes) -> list[str]:
    (tmp_path / "a.xls").write_bytes(content)
    (found,) = everything_in(tmp_path / "a.xls", "xls")
    assert isinstance(found, ReadDocument)
    return [line for line in found.text.split("\n") if line]


def cells(values: Iterable[tuple[int, float]], *, version: int = BIFF8) -> bytes:
    """A sheet, not at its corner: in each row a name, the number, and the same from a formula."""
    return b"".join(
        text(row, 2, f"v{row}", version=version)
        + number(row, 3, style, value)
        + formula(row, 4, style, struct.pack("<d", value))
        for row, (style, value) in enumerate(values, 5)
    )


@pytest.mark.parametrize("version", [BIFF5, BIFF8])
def test_numbers_are_reported_as_they_are_shown(tmp_path: Path, version: int) -> None:
    shown = [
        (PERCENT, 0.15, "15%"), (TENTHS, 0.1535, "15.4%"), (BUILT_IN_PERCENT, -0.07, "-7.00%"), (SIGN, 15, "15"),
        (HOURS, 1.5, "36:00:00"), (HOURS, -0.25, "-6:00:00"), (HOURS, 61.5, "1476:00:00"), (MINUTES, 0.0625, "90:00"),
        (SECONDS, 0.0125, "1080"), (DAY, 45292, "2024-01-01"), (TIME, 0.5208333333333333, "12:30:00"), (TIME, 0, "00:00:00"),
        (MOMENT, 45292.75, "2024-01-01 18:00:00"), (GENERAL, 0.15, "0.15"), (PERCENT, 1e300, "1" + 300 * "0"),
    ]  # fmt: skip
    book = workbook({"Berths": cells([line[:2] for line in shown], version=version)}, version=version)
    reported = [f"v{row} | {seen} | {seen}" for row, (_, _, seen) in enumerate(shown, 5)]
    assert rows(tmp_path, book) == ["Berths", *reported]


def test_numbers_in_four_bytes_are_reported_as_they_are_shown(tmp_path: Path) -> None:
    several = [
        (PERCENT, short(0.5)), (PERCENT, short(15, hundredths=True)), (PERCENT, short(15, hundredths=True, whole=True)),
        (PERCENT, short(-2, whole=True)), (GENERAL, short(0.5)), (HOURS, short(1.5)),
    ]  # fmt: skip
    packed = b"".join(struct.pack("<HI", style, raw) for style, raw in several)
    many = biff_record(0xBD, struct.pack("<HH", 7, 1) + packed + struct.pack("<H", len(several)))
    one = biff_record(0x027E, struct.pack("<HHHI", 8, 1, BUILT_IN_PERCENT, short(12.5, hundredths=True)))
    reported = ["50% | 15% | 15% | -200% | 0.5 | 36:00:00", "12.50%"]
    assert rows(tmp_path, workbook({"Berths": many + one}, wide=True)) == ["Berths", *reported]


def test_times_of_a_workbook_that_counts_from_1904_have_no_day(tmp_path: Path) -> None:
    values = [(TIME, 0.75), (BUILT_IN_TIME, 0.5208333333333333), (MOMENT, 0.75), (DAY, 1), (HOURS, 1.5), (TIME, 1.5)]
    reported = ["18:00:00", "12:30:00", "1904-01-01 18:00:00", "1904-01-02", "36:00:00", "1904-01-02 12:00:00"]
    lines = [f"v{row} | {seen} | {seen}" for row, seen in enumerate(reported, 5)]
    assert rows(tmp_path, workbook({"Berths": cells(values)}, from_1904=True)) == ["Berths", *lines]


def test_texts_errors_and_other_sheets_stay_as_they_are(tmp_path: Path) -> None:
    words = formula(0, 1, PERCENT, b"\0\0\0\0\0\0\xff\xff") + biff_record(0x0207, struct.pack("<HB", 2, 0) + b"ab")
    wrong = formula(0, 2, PERCENT, b"\1\0\1\0\0\0\xff\xff") + biff_record(
        0x0205, struct.pack("<HHHBB", 0, 3, PERCENT, 1, 0)
    )
    sheets = {"Berths": words + wrong + number(1, 1, PERCENT, 0.5), "Empty": b"", "Pilots": number(3, 9, PERCENT, 0.25)}
    assert rows(tmp_path, workbook(sheets)) == ["Berths", "ab | true | true", "50%", "Pilots", "25%"]


def test_a_workbook_without_such_styles_is_not_walked_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a sheet was walked through")

    monkeypatch.setattr(excel_binary, "read_sheet", never)
    assert rows(tmp_path, workbook({"Berths": number(0, 0, PERCENT, 0.5)}, of_cells=False)) == ["Berths", "0.5"]


def test_a_sheet_that_does_not_hold_what_is_reported_of_it_stays(tmp_path: Path) -> None:
    table = {"node_type": "table", "grid": {"cells": [{"row": 0, "col": 0, "content": "0.75"}]}}
    nodes = [{"content": {"node_type": "heading", "text": "Berths"}}, {"content": table}]
    book = workbook({"Berths": number(4, 4, PERCENT, 0.5)})
    assert excel_binary.as_sheets_show(nodes, book) == nodes
    shown = excel_binary.as_sheets_show(nodes, workbook({"Berths": number(4, 4, PERCENT, 0.75)}))
    assert shown[1]["content"]["grid"]["cells"] == [{"row": 0, "col": 0, "content": "75%"}]
    assert table["grid"] == {"cells": [{"row": 0, "col": 0, "content": "0.75"}]}
    assert excel_binary.as_sheets_show(nodes, b"no workbook") == nodes
    for reported in (None, "", "words", "2024-01-01T00:00:00Z"):
        cells = [{"row": 0, "col": 0, "content": reported}]
        other = [nodes[0], {"content": {"node_type": "table", "grid": {"cells": cells}}}]
        assert excel_binary.as_sheets_show(other, book) == other


def test_sheets_that_overlap_are_not_walked_through_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 names for one sheet would take 10,000 walks through it."""
    walks = 0
    walk = excel_binary.read_sheet

    def counted(stream: bytes, start: int, styles: Mapping[int, excel_binary.Style]) -> excel_binary.Sheet:
        nonlocal walks
        walks += 1
        return walk(stream, start, styles)

    monkeypatch.setattr(excel_binary, "read_sheet", counted)
    book = workbook({"Berths": b"".join(number(row, 0, PERCENT, 0.5) for row in range(500))})
    node = {"content": {"node_type": "table", "grid": {"cells": [{"row": 0, "col": 0, "content": "0.5"}]}}}
    shown = excel_binary.as_sheets_show([{"content": {"node_type": "heading", "text": "Berths"}}, *[node] * 50], book)
    assert len(shown) == 51
    assert shown[1]["content"]["grid"]["cells"][0]["content"] == "50%"
    assert walks == 3


def test_damaged_records_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    rng = random.Random(3)
    whole = workbook({"Berths": cells([(PERCENT, 0.15), (HOURS, 1.5), (TIME, 0.5)] * 20)})
    for _ in range(300):
        broken = bytearray(whole)
        for _ in range(rng.randrange(1, 12)):
            broken[rng.randrange(512, len(broken))] = rng.randrange(256)
        node = {"content": {"node_type": "table", "grid": {"cells": [{"row": 0, "col": 0, "content": "v5"}]}}}
        nodes = [{"content": {"node_type": "heading", "text": "Berths"}}, node]
        assert len(excel_binary.as_sheets_show(nodes, bytes(broken))) == 2
    (tmp_path / "a.xls").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UnreadableFileError):
        list(everything_in(tmp_path / "a.xls", "xls"))
