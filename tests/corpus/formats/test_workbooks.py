"""Sheets that are very long or wide: all of them is read, in memory that does not grow with what
is empty.
"""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest
from fixtures import office
from fixtures.read_files import changed, only, opened, with_parts

from engine.corpus.sandbox.outcome import Limits
from engine.corpus.sandbox.pool import Pool


@pytest.mark.parametrize(("rows", "column"), [(10_050, "C"), (100, "XFD")])
def test_sheets_that_are_very_long_or_wide_are_read_to_their_ends(
    tmp_path: Path, rows: int, column: str
) -> None:
    cells = "".join(
        f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>mast{row}</t></is></c><c'
        f' r="B{row}"><v>{row}</v></c></row>'
        for row in range(4, rows + 4)
    )
    stray = (
        f'<row r="{rows + 4}"><c r="{column}{rows + 4}"'
        ' t="inlineStr"><is><t>stray</t></is></c></row>'
    )
    path = tmp_path / "a.xlsx"
    path.write_bytes(
        changed(
            office.xlsx(), "xl/worksheets/sheet1.xml", "</sheetData>", f"{cells}{stray}</sheetData>"
        )
    )
    with closing(Pool(1, Limits(memory=512 * 2**20, seconds=600))) as reading:
        outcome = reading.read(path, "xlsx")
    (document,) = outcome.documents
    assert not outcome.left_out
    assert {*re.findall(r"mast\d+", document.text)} == {f"mast{row}" for row in range(4, rows + 4)}
    first, second = document.pages
    assert (first.name, second.name) == ("sheet Berths", "sheet Pilots")
    assert document.text.index("stray") < second.start < document.text.index("heron")
    assert "[" not in document.text


@pytest.mark.parametrize(
    "gap",
    [
        '<table:table-row><table:table-cell table:number-columns-repeated="16380"/>',
        (
            "<table:table-row"
            ' table:number-rows-repeated="1048000"><table:table-cell/></table:table-row><table:table-row>'  # noqa: E501
        ),
    ],
)
def test_no_cell_of_an_open_sheet_is_lost_if_one_lies_far_away(tmp_path: Path, gap: str) -> None:
    row = (
        "<table:table-cell"
        ' office:value-type="string"><text:p>{}</text:p></table:table-cell></table:table-row>'
    )
    more = "".join(f"<table:table-row>{row.format(f'mast{at}')}" for at in range(7_000))
    end = "</table:table><table:table "
    source = changed(
        office.ods(),
        "content.xml",
        end,
        more + gap + row.format("stray") + end,
    )
    document = only(opened(tmp_path, "a.ods", source))
    assert {"mast6999", "stray", "pelican", "heron"} <= {*re.findall(r"\w+", document.text)}


def test_comments_of_a_sheet_stand_after_it_by_their_cells(tmp_path: Path) -> None:
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    said = {
        "C3": "The tern.",
        "A1": "The gull.",
        "B2": "The eider.",
    }
    inner = "".join(
        f'<comment ref="{cell}" authorId="0"><text><t>{text}</t></text></comment>'
        for cell, text in said.items()
    )
    parts = {
        "xl/comments1.xml": (
            f'<comments xmlns="{main}"><authors><author>Ada</author></authors>'
            f"<commentList>{inner}</commentList></comments>"
        ),
        "xl/worksheets/_rels/sheet1.xml.rels": (
            "<Relationships"
            ' xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship'
            f' Id="r1" Type="{office.OFFICE}/comments" Target="../comments1.xml"/></Relationships>'
        ),
    }
    text = only(opened(tmp_path, "a.xlsx", with_parts(office.xlsx(), parts))).text
    places = [
        text.index(word) for word in ("pelican", "The gull.", "The eider.", "The tern.", "heron")
    ]
    assert places == sorted(places)


def test_a_binary_workbook_is_read(tmp_path: Path) -> None:
    document = only(opened(tmp_path, "a.xlsb", office.xlsb()))
    assert document.text == "Berths\n\nBerth | Depth\nBerth: Pelican | Depth: 9.5"
    assert [page.name for page in document.pages] == ["sheet Berths"]
