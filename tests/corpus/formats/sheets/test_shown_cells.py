"""Cells of .xlsx, .xls and .ods files, read as a user's are: the text is what their program
shows.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import pytest
from fixtures import office
from fixtures.read_files import changed, only, opened, with_parts

from engine.core.records import ReadDocument
from engine.corpus.formats.opening import read_everything
from engine.corpus.formats.sheets.cells import unescape_characters

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
FAULTS = Path(__file__).resolve().parents[5] / "shared" / "data" / "faults"
CELLS = [  # format, number, text
    ("0.##", 7.25, "7.25"),
    ("#,##0.##", 1234.56, "1,234.56"),
    ("00000", 1067, "01067"),
    ('"PN-"00000', 42, "PN-00042"),
    ("000-00-0000", 12345678, "012-34-5678"),
    ("(###) ###-####", 5551234567, "(555) 123-4567"),
    ('General" kg"', 72.5, "72.5 kg"),
    ('@" pcs"', 12, "12 pcs"),
    ("# ?/?", 0.75, "3/4"),
    ("0.0%", 0.0745, "7.5%"),
    ("0.0", 0.25, "0.3"),
    ("dd.mm.yyyy", 47985, "17.05.2031"),
    ("[h]:mm", 1.5, "36:00"),
    ('"<&>"0', 3, "<&>3"),
    ("General", 0.1 + 0.2, "0.3"),
]
CLEAN = [
    "7.25",
    "1,234.56",
    "01067",
    "PN-00042",
    "012-34-5678",
    "(555) 123-4567",
    "72.5 kg",
    "12 pcs",
    "3/4",
    "7.5%",
    "0.3",
]


def styles(codes: Sequence[str]) -> str:
    formats = "".join(
        f'<numFmt numFmtId="{164 + at}" formatCode={quoteattr(code)}/>'
        for at, code in enumerate(codes)
    )
    cells = "".join(f'<xf numFmtId="{164 + at}"/>' for at in range(len(codes)))
    return (
        f'<styleSheet xmlns="{MAIN}"><numFmts>{formats}</numFmts><cellXfs><xf'
        f' numFmtId="0"/>{cells}</cellXfs></styleSheet>'
    )


def workbook(
    rows: str,
    codes: Sequence[str] = (),
    strings: str = "",
) -> bytes:
    """A workbook whose first sheet has these rows; cell style n + 1 has code n, style 0 the
    format General.
    """
    parts = {
        "xl/worksheets/sheet1.xml": (
            f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
        )
    }
    relations = f'<Relationship Id="r8" Type="{office.OFFICE}/styles" Target="styles.xml"/>'
    parts["xl/styles.xml"] = styles(codes)
    if strings:
        parts["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}">{strings}</sst>'
        relations += (
            f'<Relationship Id="r9" Type="{office.OFFICE}/sharedStrings"'
            ' Target="sharedStrings.xml"/>'
        )
    made = with_parts(office.xlsx(), parts)
    return changed(
        made, "xl/_rels/workbook.xml.rels", "</Relationships>", f"{relations}</Relationships>"
    )


def first_sheet(document: ReadDocument) -> list[str]:
    return document.text.partition("\n\nPilots")[0].split("\n")[2:]


def numbered_rows(start: int = 1) -> str:
    return "".join(
        f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>v{at}</t></is></c>'
        f'<c r="B{row}" s="{at + 1}" t="n"><f>A1</f><v>{number!r}</v></c></row>'
        for at, (_, number, _) in enumerate(CELLS)
        for row in [start + at]
    )


def test_numbers_of_a_workbook_are_shown_by_their_formats(tmp_path: Path) -> None:
    content = workbook(numbered_rows(), [code for code, _, _ in CELLS])
    shown = [f"v{at} | {text}" for at, (_, _, text) in enumerate(CELLS)]
    assert first_sheet(only(opened(tmp_path, "a.xlsx", content))) == shown


def test_numbers_of_a_long_workbook_are_shown_by_their_formats(tmp_path: Path) -> None:
    more = "".join(
        f'<row r="{row}"><c r="A{row}"><v>{row}</v></c></row>' for row in range(100, 10_200)
    )
    content = workbook(numbered_rows() + more, [code for code, _, _ in CELLS])
    lines = first_sheet(only(opened(tmp_path, "a.xlsx", content)))
    assert lines[: len(CELLS)] == [f"v{at} | {text}" for at, (_, _, text) in enumerate(CELLS)]
    assert lines[-1] == "10199"


def test_cells_with_other_names_and_attributes_are_shown_too(tmp_path: Path) -> None:
    sheet = (
        f"<x:worksheet xmlns:x=\"{MAIN}\"><x:sheetData><x:row r='1'><x:c s='1'"
        ' r=\'A1\'><x:f/><x:v>\n7</x:v></x:c><x:c t = "n" s = "1" r="B1"><x:v>8</x:v></x:c><x:c'
        ' r="C1" s="1"/><x:c r="D1" t="s" s="1"><x:v>0</x:v></x:c><x:c r="E1"'
        ' t="b"><x:v>1</x:v></x:c></x:row></x:sheetData></x:worksheet>'
    )
    content = workbook(
        "",
        ["000"],
        strings="<si><t>word</t></si>",
    )
    content = with_parts(content, {"xl/worksheets/sheet1.xml": sheet})
    assert first_sheet(only(opened(tmp_path, "a.xlsx", content))) == ["007 | 008 | word | TRUE"]


def test_texts_are_shown_with_what_their_formats_add(tmp_path: Path) -> None:
    strings = "<si><t>12</t></si><si><r><t>4</t></r><r><t>7_x0031_</t></r></si>"
    cells = "".join(
        f'<c r="{column}1" s="{style}" t="s"><v>{text}</v></c>'
        for column, style, text in ("A10", "B11", "C21", "D20")
    )
    content = workbook(
        f'<row r="1">{cells}</row>',
        ['@" pcs"', '0;0;0;"<No> "@'],
        strings,
    )
    assert first_sheet(only(opened(tmp_path, "a.xlsx", content))) == [
        "12 pcs | 471 pcs | <No> 471 | <No> 12"
    ]


def test_a_shortened_number_is_followed_by_all_its_digits(tmp_path: Path) -> None:
    def row(
        number: int,
        name: str,
        value: str,
    ) -> str:
        if name.startswith("<"):
            name = name
        else:
            name = f"<is><t>{name}</t></is>"
        return (
            f'<row r="{number}"><c r="A{number}" t="inlineStr">{name}</c><c'
            f' r="B{number}">{value}</c></row>'
        )

    rows = row(1, "Pen", "<v>4006381333931</v>") + row(2, "Ink", "<v>21</v>")
    head = (
        '<row r="0"><c r="A0" t="inlineStr"><is><t>Item</t></is></c><c r="B0"'
        ' t="inlineStr"><is><t>EAN</t></is></c></row>'
    )
    text = first_sheet(only(opened(tmp_path, "a.xlsx", workbook(head + rows))))
    assert text == [
        "Item | EAN",
        "Item: Pen | EAN: 4.00638E+12",
        "EAN: 4006381333931",
        "Item: Ink | EAN: 21",
    ]


def test_characters_that_a_workbook_escapes_are_read(tmp_path: Path) -> None:
    strings = (
        "<si><t>Line one_x000D_\nline"
        " two</t></si><si><t>Under_x005F_score</t></si><si><t>_x005F_x000D_</t></si><si><t>tab_x0009_and_x0026_"  # noqa: E501
        " &amp;_xD83D__xDE00_</t></si><si><t>_x00_ _xGGGG_ a_x000Db</t></si>"
    )
    rows = "".join(
        f'<row r="{at + 1}"><c r="A{at + 1}" t="s"><v>{at}</v></c></row>' for at in range(5)
    )
    inline = '<row r="9"><c r="A9" t="inlineStr"><is><t>in_x000a_line</t></is></c></row>'
    found = first_sheet(only(opened(tmp_path, "a.xlsx", workbook(rows + inline, strings=strings))))
    assert list(filter(None, found)) == [
        "Line one line two",
        "Under_score",
        "_x000D_",
        "tab and& &😀",
        "_x00_ _xGGGG_ a_x000Db",
        "in line",
    ]


def test_escapes_are_those_of_the_standard() -> None:
    assert (
        unescape_characters("a_x000D_b_x005F_x0041_ _x0041__x0042_ _x41_") == "a b_x0041_ AB _x41_"
    )


def test_slides_and_titles_are_read_without_escapes(tmp_path: Path) -> None:
    old = "The pelican boards at dawn."
    slide = changed(
        office.pptx(), "ppt/slides/slide1.xml", old, "The pelican_x000B_boards_x005F_now."
    )
    assert "The pelican boards_now." in only(opened(tmp_path, "a.pptx", slide)).text
    named = changed(
        office.xlsx(),
        "docProps/core.xml",
        "Harbour plan",
        "Harbour_x000D_\nplan",
    )
    assert only(opened(tmp_path, "a.xlsx", named)).title.split() == ["Harbour", "plan"]


def biff_number(
    row: int,
    column: int,
    style: int,
    number: float,
) -> bytes:
    return office.biff_record(0x0203, struct.pack("<HHHd", row, column, style, number))


def biff_label(
    row: int,
    column: int,
    text: str,
) -> bytes:
    return office.biff_record(
        0x0204, struct.pack("<HHHHB", row, column, 0, len(text), 0) + text.encode("ascii")
    )


def old_workbook(
    cells: bytes,
    codes: Sequence[str],
    *,
    from_1904: bool = False,
) -> bytes:
    """An Excel 97 workbook of one sheet; cell style n + 1 has code n, style 0 the format
    General.
    """
    begin = office.biff_record(0x0809, struct.pack("<HHHHII", 0x600, 5, 0, 0, 0, 0))
    begin += office.biff_record(0x22, struct.pack("<H", from_1904))
    for at, code in enumerate(codes):
        wide = not code.isascii()
        text = code.encode("utf-16-le" if wide else "ascii")
        begin += office.biff_record(0x041E, struct.pack("<HHB", 164 + at, len(code), wide) + text)
    for number in (0, *(164 + at for at in range(len(codes)))):
        begin += office.biff_record(0xE0, struct.pack("<HH", 0, number) + bytes(16))
    name = b"Berths"
    start = len(begin) + 4 + 8 + len(name) + 4
    listed = office.biff_record(0x85, struct.pack("<IBBBB", start, 0, 0, len(name), 0) + name)
    sheet = (
        office.biff_record(0x0809, struct.pack("<HHHHII", 0x600, 0x10, 0, 0, 0, 0))
        + cells
        + office.biff_record(0x0A, b"")
    )
    return office.compound_file(
        {"Workbook": (begin + listed + office.biff_record(0x0A, b"") + sheet).ljust(4096, b"\0")}
    )


def test_numbers_of_an_old_workbook_are_shown_by_their_formats(tmp_path: Path) -> None:
    cells = b"".join(
        biff_label(at, 0, f"v{at}") + biff_number(at, 1, at + 1, number)
        for at, (_, number, _) in enumerate(CELLS)
    )
    content = old_workbook(cells, [code for code, _, _ in CELLS])
    document = only(opened(tmp_path, "a.xls", content))
    assert document.text.split("\n")[2:] == [
        f"v{at} | {text}" for at, (_, _, text) in enumerate(CELLS)
    ]


def test_packed_numbers_and_those_of_formulas_are_shown_by_their_formats(tmp_path: Path) -> None:
    def packed(number: int, *, hundredths: bool = False) -> int:
        return (number << 2 & 0xFFFF_FFFF) | 2 | hundredths

    half = struct.unpack("<I", struct.pack("<d", 0.5)[4:])[0] & 0xFFFF_FFFC
    record = office.biff_record
    cells = (
        record(0x027E, struct.pack("<HHHI", 0, 0, 1, packed(-5)))
        + record(0x027E, struct.pack("<HHHI", 0, 1, 1, packed(725, hundredths=True)))
        + record(0x027E, struct.pack("<HHHI", 0, 2, 1, half))
        + record(0xBD, struct.pack("<HHHIHIH", 1, 1, 1, packed(3), 1, packed(4), 2))
        + record(0x06, struct.pack("<HHHdHIH", 2, 0, 1, 6.125, 0, 0, 0))
        + record(0x0809, struct.pack("<HHHHII", 0x600, 0x20, 0, 0, 0, 0))
        + biff_number(2, 0, 1, 99)  # of a chart on the sheet
        + record(0x0A, b"")
        + biff_number(4, 3, 1, 8)
    )
    text = only(opened(tmp_path, "a.xls", old_workbook(cells, ["000.00"]))).text
    assert text.split("\n")[2:] == [
        "-005.00 | 007.25 | 000.50",
        "003.00 | 004.00",
        "006.13",
        "008.00",
    ]


ADDED = [  # format, text of the cell, what is shown
    ('"Art. "@', "XK7", "Art. XK7"),
    ('@" units"', "ten", "ten units"),
    ('0;-0;0;"Nr. "@" <a>"', "7b", "Nr. 7b <a>"),
    ("@", "as it is", "as it is"),
    ("0.00", "no number", "no number"),
]


def test_formats_add_to_inline_texts_and_those_of_formulas(tmp_path: Path) -> None:
    rows = ""
    for at, (_, text, _) in enumerate(ADDED):
        row = at + 1
        rows += (
            f'<row r="{row}"><c r="A{row}" s="{row}" t="inlineStr"><is><t>{text}</t></is></c>'
            f'<c r="B{row}" s="{row}" t="str"><f>A{row}</f><v>{text}</v></c></row>'
        )
    content = workbook(rows, [code for code, _, _ in ADDED])
    assert first_sheet(only(opened(tmp_path, "a.xlsx", content))) == [
        f"{shown} | {shown}" for _, _, shown in ADDED
    ]


def test_formats_add_to_texts_of_old_workbooks(tmp_path: Path) -> None:
    cells = b""
    for at, (_, text, _) in enumerate(ADDED):
        cells += office.biff_record(
            0x0204, struct.pack("<HHHHB", at, 0, at + 1, len(text), 0) + text.encode()
        )
    content = old_workbook(cells, [code for code, _, _ in ADDED])
    shown = only(opened(tmp_path, "a.xls", content)).text.split("\n")[2:]
    assert shown == [shown for _, _, shown in ADDED]


def test_old_workbooks_may_be_long_and_count_from_1904(tmp_path: Path) -> None:
    cells = b"".join(biff_number(row, 0, 1 + (row == 10_500), row) for row in range(10_501))
    text = only(
        opened(tmp_path, "a.xls", old_workbook(cells, ["00000", "d.m.yyyy €"], from_1904=True))
    ).text
    assert text.split("\n")[-2:] == ["10499", "30.9.1932 €"]


def test_an_old_workbook_of_damaged_records_keeps_its_words(tmp_path: Path) -> None:
    cells = (
        biff_label(0, 0, "pelican") + office.biff_record(0x0203, b"\0") + biff_label(1, 0, "heron")
    )
    assert "pelican" in only(opened(tmp_path, "a.xls", old_workbook(cells, ["0"]))).text


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ('float" office:value="1067', "01067"),
        ('percentage" office:value="0.0745', "7.5 %"),
        ('currency" office:currency="EUR" office:value="42.5', "42,50 €"),
        ('date" office:date-value="2031-05-17', "17.05.31"),
        ('time" office:time-value="PT14H30M00S', "14:30"),
        ('boolean" office:boolean-value="true', "WAHR"),
    ],
)
def test_cells_of_open_sheets_say_what_they_show(
    tmp_path: Path,
    kind: str,
    shown: str,
) -> None:
    old = '<table:table-cell office:value-type="string"><text:p>9 m</text:p>'
    new = (
        f'<table:table-cell office:value-type="{kind}"'
        f' calcext:value-type="x"><text:p>{shown}</text:p>'
    )
    text = only(opened(tmp_path, "a.ods", changed(office.ods(), "content.xml", old, new))).text
    assert "South pelican" in text
    assert text.partition("\n\nPilots")[0].endswith(f" {escape(shown)}")


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("<text:p>9 m</text:p>", "9 m Checked by Ida. Twice."),
        (
            "<text:p>9<text:tab/>m</text:p><text:p>or 10</text:p>",
            "9 m or 10 Checked by Ida. Twice.",
        ),
        ("", "Checked by Ida. Twice."),
        ("<text:p/>", "Checked by Ida. Twice."),
    ],
)
def test_comments_of_open_sheets_stand_below_their_cells(
    tmp_path: Path, cell: str, shown: str
) -> None:
    comment = (
        "<office:annotation><dc:creator>Ida</dc:creator><text:p>Checked by"
        "<text:s/><text:span>Ida.</text:span></text:p><text:p>Twice.</text:p></office:annotation>"
    )
    content = changed(
        office.ods(),
        "content.xml",
        "<text:p>9 m</text:p>",
        f"{comment}{cell}",
    )
    text = only(opened(tmp_path, "a.ods", content)).text
    assert text.partition("\n\nPilots")[0].endswith(f" {shown}")


def test_the_last_numbers_of_a_row_are_shown_whatever_the_library_shows(tmp_path: Path) -> None:
    """office_oxide shows nothing of `#.##`, and leaves such cells out at the end of a row."""
    cells = biff_label(0, 0, "v0") + biff_number(0, 1, 1, 0.25)
    cells += biff_label(1, 0, "v1") + biff_number(1, 1, 2, 7) + biff_number(1, 2, 1, 0.5)
    document = only(opened(tmp_path, "a.xls", old_workbook(cells, ["#.##", "0"])))
    assert document.text.split("\n")[2:] == ["v0 | .25", "v1 | 7 | .5"]


SYMBOLS = (
    '<fonts><font><name val="Arial"/></font><font><name val="Wingdings"/></font>'
    '<font><name val="Symbol"/></font></fonts>'
)


def test_texts_in_symbol_fonts_are_what_they_show(tmp_path: Path) -> None:
    strings = (
        "<si><t>þ</t></si><si><t>W</t></si><si><r><t>220 k</t></r><r><rPr>"
        '<rFont val="Symbol"/></rPr><t>W</t></r>'
        '<r><rPr><rFont val="Arial"/></rPr><t> W</t></r></si>'
    )
    cells = "".join(
        f'<c r="{column}1" s="{style}" t="s"><v>{text}</v></c>'
        for column, style, text in (("A", 1, 0), ("B", 2, 1), ("C", 0, 1), ("D", 0, 2))
    )
    cells += '<c r="E1" s="2" t="inlineStr"><is><t>&#163;</t></is></c><c r="F1" s="2"><v>7</v></c>'
    content = workbook(
        f'<row r="1">{cells}</row>',
        ["General", "General"],
        strings,
    )
    style = changed(
        content,
        "xl/styles.xml",
        "<cellXfs>",
        f"{SYMBOLS}<cellXfs>",
    )
    style = changed(
        style,
        "xl/styles.xml",
        '<xf numFmtId="164"/>',
        '<xf numFmtId="0" fontId="1"/>',
    )
    style = changed(
        style,
        "xl/styles.xml",
        '<xf numFmtId="165"/>',
        '<xf numFmtId="0" fontId="2"/>',
    )
    assert first_sheet(only(opened(tmp_path, "a.xlsx", style))) == ["☑ | Ω | W | 220 kΩ W | ≤ | 7"]


@pytest.mark.shared
@pytest.mark.skipif(not FAULTS.is_dir(), reason="the shared data sets are missing")
@pytest.mark.parametrize("name", ["clean.xlsx", "clean_old.xls"])
def test_cells_of_real_workbooks_read_as_excel_shows_them(name: str) -> None:
    (document,) = read_everything(
        FAULTS / "01-xlsx-number-formats" / "docs" / name, name.partition(".")[2]
    )
    assert isinstance(document, ReadDocument)
    assert [line.partition(" | Value: ")[2] for line in document.text.split("\n")[3:]] == CLEAN


@pytest.mark.shared
@pytest.mark.skipif(not FAULTS.is_dir(), reason="the shared data sets are missing")
def test_fifty_formats_read_as_excel_shows_them() -> None:
    (document,) = read_everything(
        FAULTS / "01-xlsx-number-formats" / "with_answers" / "small.xlsx", "xlsx"
    )
    assert isinstance(document, ReadDocument)
    lines = [line for line in document.text.split("\n") if " expect" in line]
    pairs = [line.partition(" expect")[2].partition(" | Stored: ") for line in lines]
    assert [shown for _, _, shown in pairs] == [wanted.strip() for wanted, _, _ in pairs]
    assert len(pairs) == 50


@pytest.mark.shared
@pytest.mark.skipif(not FAULTS.is_dir(), reason="the shared data sets are missing")
def test_escapes_of_a_real_workbook_are_read() -> None:
    (document,) = read_everything(FAULTS / "15-xlsx-escapes" / "docs" / "cells.xlsx", "xlsx")
    assert isinstance(document, ReadDocument)
    assert "Line one line two | Under_score" in document.text
    assert "_x0" not in document.text
