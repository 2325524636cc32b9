"""Tables on slides are read as rows with the names of their columns."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from fixtures import office

from engine.corpus.opening import everything_in
from engine.corpus.readers import ReadDocument
from engine.corpus.slide_tables import with_tables

FRAME = (
    '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr id="12" name="t"/><p:cNvGraphicFramePr/><p:nvPr/></p:nvGraphicFramePr>'
    '<p:xfrm><a:off x="0" y="9000000"/><a:ext cx="1" cy="1"/></p:xfrm><a:graphic>'
    '<a:graphicData uri="http://schemas.openxmlformats.org/drawingml/2006/table">{}</a:graphicData></a:graphic></p:graphicFrame>'
)


def table(rows: Sequence[Sequence[str]], *, properties: str = ' firstRow="1"') -> str:
    """A table whose cells are the paragraphs given, with `|` between."""

    def cell(text: str) -> str:
        paragraphs = "".join(f"<a:p><a:r><a:t>{one}</a:t></a:r></a:p>" if one else "<a:p/>" for one in text.split("|"))
        return f"<a:tc><a:txBody><a:bodyPr/>{paragraphs}</a:txBody><a:tcPr/></a:tc>"

    reported = "".join(f'<a:tr h="1">{"".join(map(cell, row))}</a:tr>' for row in rows)
    return FRAME.format(f"<a:tbl><a:tblPr{properties}/>{reported}</a:tbl>")


def slides(*tables: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(office.pptx())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    part = files["ppt/slides/slide1.xml"]
    files["ppt/slides/slide1.xml"] = part.replace(b"</p:spTree>", "".join(tables).encode() + b"</p:spTree>")
    assert files["ppt/slides/slide1.xml"] != part
    return office.zipped(files)


def first_slide(tmp_path: Path, *tables: str) -> str:
    (tmp_path / "a.pptx").write_bytes(slides(*tables))
    (document,) = everything_in(tmp_path / "a.pptx", "pptx")
    assert isinstance(document, ReadDocument)
    reported = document.text[
        : document.pages[1].start
    ].strip()  # kreuzberg does not know where tables stand: they come first
    return reported.removeprefix("Pilots\n\n").removesuffix("\n\nThe pelican boards at dawn.")


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([["Berth", "Depth"], ["North", "12 m"]], "Berth | Depth\nBerth: North | Depth: 12 m"),
        ([["Berth", "Depth|in m"], [" No|rth ", "12"]], "Berth | Depth in m\nBerth: No rth | Depth in m: 12"),
        ([["Berth", "Depth"], ["", ""], ["", "12"], ["North", ""]], "Berth | Depth\nDepth: 12\nBerth: North"),
        ([["Berth"], ["North"]], "Berth\n\nNorth"),  # one column is no table
        ([["a &lt; b", "tab&#9;in"], ["c", "d"]], "a < b | tab in\na < b: c | tab in: d"),
    ],
)
def test_rows_carry_the_names_of_their_columns(tmp_path: Path, rows: list[list[str]], text: str) -> None:
    assert first_slide(tmp_path, table(rows)) == text


def test_a_table_that_marks_no_first_row_has_none_unless_it_looks_so(tmp_path: Path) -> None:
    words = table([["Ada", "Quay"], ["Bo", "Pier"]], properties="")
    assert first_slide(tmp_path, words) == "Ada | Quay\nBo | Pier"
    numbers = table([["Berth", "Depth"], ["North", "12"], ["South", "9"]], properties="")
    assert first_slide(tmp_path, numbers).endswith("Berth: South | Depth: 9")


def test_tables_that_begin_alike_are_distinguished(tmp_path: Path) -> None:
    one, other = (
        table([["Berth", "Depth"], ["North", "12"]]),
        table([["Berth", "Depth"], ["South", "9"], ["West", "7"]]),
    )
    assert first_slide(tmp_path, one, other, one) == (
        "Berth | Depth\nBerth: North | Depth: 12\n\nBerth | Depth\nBerth: South | Depth: 9\nBerth: West | Depth: 7\n\n"
        "Berth | Depth\nBerth: North | Depth: 12"
    )


def test_texts_with_tabs_and_damaged_slides_stay_as_they_are() -> None:
    reported = {1: "Agenda\n\n09:00\tWelcome\n\n10:00\tPilots", 2: "No tab"}
    assert with_tables(reported, slides(table([["Berth", "Depth"], ["North", "12"]]))) == reported
    assert with_tables(reported, slides(table([["Berth", "Depth"]]).replace("</a:tbl>", ""))) == reported
    assert with_tables(reported, b"no package") == reported
