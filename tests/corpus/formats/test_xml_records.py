"""XML files: values with the names of their elements, paragraphs, and tables."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from fixtures import office
from fixtures.errors import unreadable
from fixtures.read_files import only, opened

from engine.core.records import Kind

INVOICE = """<?xml version="1.0" encoding="ISO-8859-1"?>
<ubl:Invoice xmlns:ubl="urn:ubl" xmlns:cbc="urn:cbc"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="a b">
 <!-- a comment --><cbc:ID>RE-2031-0815</cbc:ID>
 <Supplier><Name>Müller &amp; Söhne</Name><Amount currencyID="EUR">12750.50</Amount></Supplier>
 <Line><Note>The <b>inter</b>lock of crane 4</Note><File>{packed}</File></Line>
</ubl:Invoice>"""
SHEET = """<?xml version="1.0"?><?mso-application progid="Excel.Sheet"?>
<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet"
 xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"><Styles><Style ss:ID="Bold"/></Styles>
 <Worksheet ss:Name="Berths"><Table><Row><Cell><Data>Berth</Data></Cell><Cell><Data>State</Data>
 </Cell><Cell><Data>Depth</Data></Cell></Row><Row><Cell><Data>North</Data></Cell>
 <Cell ss:Index="3"><Data ss:Type="Number">12.5</Data></Cell></Row></Table></Worksheet>
</Workbook>"""


def test_values_of_an_invoice_have_the_names_of_their_elements(tmp_path: Path) -> None:
    packed = base64.b64encode(b"a file within " * 50).decode()
    source = INVOICE.format(packed=packed).encode("latin-1")
    document = only(opened(tmp_path, "rechnung.xml", source))
    assert document.text == (
        "ID: RE-2031-0815\n\n"
        "Supplier.Name: Müller & Söhne\n"
        "Supplier.Amount: 12750.50\n"
        "Supplier.Amount.currencyID: EUR\n\n"
        "The interlock of crane 4"
    )
    assert (document.title, document.format) == ("Rechnung", "xml")


def test_a_value_that_is_written_as_a_page_is_read_as_one(tmp_path: Path) -> None:
    feed = (
        b"<rss><channel><item><title>Quay</title><description>&lt;p&gt;The &lt;b&gt;inter&lt;/b&gt;"
        b"lock&amp;nbsp;holds&lt;/p&gt;</description><note><![CDATA[a < b]]></note></item>"
        b"<item/></channel></rss>"
    )
    assert only(opened(tmp_path, "feed.xml", feed)).text.split("\n") == [
        "item.title: Quay",
        "item.description: The interlock holds",
        "item.note: a < b",
    ]


@pytest.mark.parametrize("name", ["berths.xls", "berths.xml"])
def test_a_sheet_of_excel_2003_has_rows(tmp_path: Path, name: str) -> None:
    lines = only(opened(tmp_path, name, SHEET.encode())).text.split("\n")
    assert lines[0] == "Worksheet.Name: Berths"
    assert lines[-1] == "Berth: North | Depth: 12.5"


@pytest.mark.parametrize("name", ["plan.doc", "plan.xml"])
def test_paragraphs_of_word_2003_are_read(tmp_path: Path, name: str) -> None:
    document = only(opened(tmp_path, name, office.WORDML))
    assert document.title == "Harbour plan"
    assert "Pilots\n\nThe pelican & Co boards.\n\nBerth\n\nDepth" in document.text


def test_entities_are_never_expanded(tmp_path: Path) -> None:
    source = b'<!DOCTYPE a [<!ENTITY e "pelican">]><a><b>The &e; boards</b></a>'
    assert "pelican" not in only(opened(tmp_path, "a.xml", source)).text


@pytest.mark.parametrize(
    ("content", "kind"), [(b"no xml at all", "damaged"), (b"<a><b/></a>", "empty")]
)
def test_what_holds_no_text_has_a_reason(
    tmp_path: Path,
    content: bytes,
    kind: Kind,
) -> None:
    with unreadable(kind):
        opened(tmp_path, "a.xml", content)


def test_deep_nesting_is_read(tmp_path: Path) -> None:
    source = b"<a>" * 200 + b"pelican" + b"</a>" * 200
    assert "pelican" in only(opened(tmp_path, "a.xml", source)).text


def test_a_file_within_is_left_out_though_its_lines_are_divided(tmp_path: Path) -> None:
    packed = base64.encodebytes(b"a file within " * 50).decode()
    source = f"<Invoice><ID>4711</ID><File>\n{packed}</File></Invoice>"
    assert only(opened(tmp_path, "a.xml", source.encode())).text == "ID: 4711"


def test_what_follows_a_large_file_within_is_read(tmp_path: Path) -> None:
    packed = b"A" * 10_000_100
    source = b"<Invoice><File>%s</File><Note>The pelican</Note></Invoice>" % packed
    assert only(opened(tmp_path, "a.xml", source)).text == "Note: The pelican"


def test_entities_of_a_large_file_do_not_grow(tmp_path: Path) -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY a "%s"><!ENTITY b "%s">]>' % (b"x" * 10_000, b"&a;" * 10_000)
    source = b'%s<a><File>%s</File><b c="&b;"/><Note>x</Note></a>' % (bomb, b"A" * 10_000_100)
    with unreadable("empty"):
        opened(tmp_path, "a.xml", source)
