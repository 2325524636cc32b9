"""Drawings of Visio."""

from __future__ import annotations

from pathlib import Path

from fixtures import office
from fixtures.errors import unreadable
from fixtures.read_files import only, opened

from engine.core.records import ReadDocument
from engine.corpus.formats import LeftOut

_NAMES = f'xmlns="http://schemas.microsoft.com/office/visio/2012/main" xmlns:r="{office.OFFICE}"'
_RELATION = "http://schemas.microsoft.com/visio/2010/relationships/page"


def drawing(**parts: str) -> bytes:
    """Return a drawing of two pages; `parts` replaces parts by the stems of their names."""
    files = {
        "visio/pages/pages.xml": f'<Pages {_NAMES}><Page ID="0" Name="Site plan"><Rel'
        ' r:id="r1"/></Page><Page ID="4" Name="Page-2"><Rel r:id="r2"/></Page></Pages>',
        "visio/pages/_rels/pages.xml.rels": '<Relationships xmlns="urn:r">'
        f'<Relationship Id="r1" Type="{_RELATION}" Target="page2.xml"/>'
        f'<Relationship Id="r2" Type="{_RELATION}" Target="/visio/pages/page1.xml"/>'
        "</Relationships>",
        "visio/pages/page1.xml": f"<PageContents {_NAMES}><Shapes><Shape><Text>Valve</Text>"
        "</Shape></Shapes></PageContents>",
        "visio/pages/page2.xml": f"<PageContents {_NAMES}><Shapes><Shape>"
        '<Section N="Property"><Row N="Row_1"><Cell N="Value" V="P-101"/><Cell N="Label" V="Tag:"/>'
        '</Row><Row N="Size"><Cell N="Value" V="12 m"/></Row><Row N="Empty"><Cell N="Value"/></Row>'
        '</Section><Text><cp IX="0"/>Bilge<pp IX="0"/>pump\nHall <fld IX="0">4</fld></Text></Shape>'
        "<Shape Type='Group'><Shapes><Shape><Text>Pelican</Text></Shape></Shapes></Shape></Shapes>"
        "</PageContents>",
        "visio/comments.xml": f"<Comments {_NAMES}><CommentList><CommentEntry>Check it."
        "</CommentEntry></CommentList></Comments>",
        "docProps/core.xml": '<p xmlns:dc="urn:dc"><dc:title>Harbour plan</dc:title><dc:creator>Ada'
        " Quay</dc:creator></p>",
    }
    for stem, part in parts.items():
        (name,) = (name for name in files if name.endswith(f"/{stem}.xml"))
        files[name] = part
    return office.zipped({"[Content_Types].xml": "<Types/>", **files})


def test_texts_data_and_comments_of_shapes(tmp_path: Path) -> None:
    document = only(opened(tmp_path, "a.vsdx", drawing()))
    assert document.text == (
        "Site plan\n\nBilgepump\nHall 4\n\nTag: P-101\nSize: 12 m\n\nPelican\n\nPage-2\n\nValve"
        "\n\nCheck it."
    )
    assert (document.title, document.author) == ("Harbour plan", "Ada Quay")
    pages = [(page.name, document.text[page.start :][:4]) for page in document.pages]
    assert pages == [("page 1", "Site"), ("page 2", "Page")]
    assert [heading.title for heading in document.headings] == ["Site plan", "Page-2"]


def test_a_drawing_is_known_by_its_content(tmp_path: Path) -> None:
    assert only(opened(tmp_path, "a.docx", drawing())).format == "vsdx"


def test_a_damaged_page_is_listed_and_an_empty_drawing_has_a_reason(tmp_path: Path) -> None:
    document, left = opened(
        tmp_path,
        "a.vsdx",
        drawing(page1="<Page"),
    )
    assert isinstance(document, ReadDocument)
    assert "Bilgepump" in document.text
    assert isinstance(left, LeftOut)
    assert (left.member, left.kind) == ("visio/pages/page1.xml", "damaged")
    empty = drawing(pages=f"<Pages {_NAMES}/>", comments=f"<Comments {_NAMES}/>")
    with unreadable("empty"):
        opened(tmp_path, "b.vsdx", empty)


def test_a_damaged_list_of_pages_is_listed(tmp_path: Path) -> None:
    document, left = opened(
        tmp_path,
        "a.vsdx",
        drawing(pages="<Pages"),
    )
    assert isinstance(document, ReadDocument)
    assert document.text == "Check it."
    assert isinstance(left, LeftOut)
    assert (left.member, left.kind) == ("visio/pages/pages.xml", "damaged")
