"""What is drawn on sheets: text boxes and shapes, and check boxes in cells or upon them."""

from __future__ import annotations

from pathlib import Path

import pytest
from fixtures import office
from fixtures.read_files import changed, only, opened, with_parts

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
BAG = "http://schemas.microsoft.com/office/spreadsheetml/2022/featurepropertybag"
SHEETS = (
    "Berths\n\nBerth | Depth\nBerth: South pelican | Depth: 9 m\n\n"
    "Pilots\n\nPilot | Boat\nAda | The heron"
)
TABLE = ' table:name="Berths">'
CELL = "<text:p>9 m</text:p>"


def box(text: str) -> str:
    return f"<draw:frame><draw:text-box>{text}</draw:text-box></draw:frame>"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            TABLE,
            f"{TABLE}<table:shapes>{box('<text:p>Ask <text:span>Ida</text:span></text:p>')}<draw:g>"
            f"{box('<text:p/><text:p>at the<text:s/>wharf</text:p>')}</draw:g></table:shapes>",
            "\n\nAsk Ida\nat the wharf",
        ),
        (
            CELL,
            box("<text:list><text:list-item><text:p>Dues</text:p></text:list-item></text:list>")
            + CELL,
            "\n\nDues",
        ),
        (
            f"{CELL}</table:table-cell>",
            f"{CELL}</table:table-cell><table:table-cell><draw:custom-shape><text:p>Closed</text:p>"
            "</draw:custom-shape></table:table-cell>",
            "\n\nClosed",
        ),
        (TABLE, f"{TABLE}<table:shapes>{box('<text:p/>')}</table:shapes>", ""),
    ],
)
def test_text_boxes_of_open_sheets_follow_the_cells(
    tmp_path: Path, old: str, new: str, text: str
) -> None:
    content = changed(
        office.ods(),
        "content.xml",
        old,
        new,
    )
    assert only(opened(tmp_path, "a.ods", content)).text == f"{SHEETS}{text}"


def test_a_cell_with_a_check_box_shows_it(tmp_path: Path) -> None:
    rows = "".join(
        f'<row r="{row}"><c r="A{row}" t="inlineStr"><is><t>{name}</t></is></c>'
        f'<c r="B{row}" s="{style}" t="b">{formula}<v>{value}</v></c></row>'
        for row, (name, style, formula, value) in enumerate(
            [
                ("moored", 1, "", 1),
                ("paid", 1, "", 0),
                ("left", 1, "<f>NOT(B2)</f>", 1),
                ("plain", 0, "", 1),
            ],
            1,
        )
    )
    box_style = (
        f'<xf numFmtId="0"><extLst><ext xmlns:xfpb="{BAG}"><xfpb:xfComplement i="0"/></ext>'
        "</extLst></xf>"
    )
    relation = f'<Relationship Id="r8" Type="{office.OFFICE}/styles" Target="styles.xml"/>'
    book = changed(
        office.xlsx(),
        "xl/_rels/workbook.xml.rels",
        "</Relationships>",
        f"{relation}</Relationships>",
    )
    book = with_parts(
        book,
        {
            "xl/worksheets/sheet1.xml": (
                f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
            ),
            "xl/styles.xml": (
                f'<styleSheet xmlns="{MAIN}"><cellXfs><xf numFmtId="0"/>{box_style}</cellXfs>'
                "</styleSheet>"
            ),
        },
    )
    lines = only(opened(tmp_path, "a.xlsx", book)).text.split("\n")
    assert lines[2:6] == ["moored | \u2611", "paid | \u2610", "left | \u2611", "plain | TRUE"]


def test_a_ticked_box_upon_a_sheet_is_read_with_its_label(tmp_path: Path) -> None:
    shapes = "".join(
        f'<v:shape><v:textbox style="x"><div><font face="Segoe UI">{label}</font></div></v:textbox>'
        f'<x:ClientData ObjectType="{kind}"><x:Anchor>1</x:Anchor>{state}</x:ClientData></v:shape>'
        for kind, label, state in [
            ("Note", "", "<x:Checked>1</x:Checked>"),
            ("Checkbox", "South pelican", "<x:Checked>1</x:Checked>"),
            ("Checkbox", "Dues &amp; tolls", ""),
            ("Radio", "Night watch", "<x:Checked>1</x:Checked>"),
            ("Checkbox", "", "<x:Checked>1</x:Checked>"),
        ]
    )
    drawn = "".join(
        f"<a:p><a:r><a:t>{label}</a:t></a:r></a:p>"
        for label in ("South pelican", "Dues &amp; tolls", "Ring twice")
    )
    parts = {
        "xl/drawings/drawing1.xml": f"<xdr:wsDr>{drawn}</xdr:wsDr>",
        "xl/drawings/vmlDrawing1.vml": f"<xml>{shapes}</xml>",
    }
    text = only(opened(tmp_path, "a.xlsx", with_parts(office.xlsx(), parts))).text
    added = ["\u2611 South pelican", "Dues & tolls", "\u2611 Night watch", "Ring twice"]
    assert text.endswith("\n".join(["", *added]))
    assert text.count("South pelican") == 2
