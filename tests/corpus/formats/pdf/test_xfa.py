"""Forms of Adobe LiveCycle, whose page says that the viewer cannot show them."""

from __future__ import annotations

from base64 import encodebytes
from pathlib import Path

import pytest
from fixtures import office

from engine.core.records import ReadDocument
from engine.corpus.formats.pdf import READER

_TEMPLATE = """<template xmlns="http://www.xfa.org/schema/xfa-template/3.0/"><subform name="form1">
<draw><value><exData contentType="text/html"><body xmlns="http://www.w3.org/1999/xhtml">
<p>Application for a <b>be</b>rth</p><p>Part A</p></body></exData></value></draw>
<field name="Name_1"><caption><value><text>Master:</text></value></caption>
<value><text>not filled in</text></value></field>
<field name="Boat"/><draw presence="hidden"><value><text>For the office</text></value></draw>
<subform presence="invisible"><draw><value><text>Page 2</text></value></draw></subform>
</subform></template>"""
_DATA = """<xfa:datasets xmlns:xfa="http://www.xfa.org/schema/xfa-data/1.0/"><xfa:data><form1>
<Name_1>Ada Quay</Name_1><Boat_Name>Heron &amp; Tern</Boat_Name><Empty/><!-- none -->
</form1></xfa:data></xfa:datasets>"""
_SHOWN = "Application for a berth Part A\nMaster:\nMaster: Ada Quay\nBoat Name: Heron & Tern"
_WAIT = "Please wait."


def read(*parts: str, needs_rendering: bool = True) -> str:
    """Return the text of a PDF with a form that consists of these parts."""
    entries = "".join(f"(part){100 + at} 0 R" for at in range(len(parts)))
    more = "".join(
        f"{100 + at} 0 obj\n<</Length {len(part)}>>stream\n{part}\nendstream\nendobj\n"
        for at, part in enumerate(parts)
    )
    catalog = f"/Type/Catalog/AcroForm<</Fields[]/XFA[{entries}]>>"
    if needs_rendering:
        catalog += "/NeedsRendering true"
    content = office.pdf(_WAIT).replace(b"/Type/Catalog", catalog.encode())
    (document,) = READER.read(Path("a.pdf"), content.replace(b"xref\n0", f"{more}xref\n0".encode()))
    assert isinstance(document, ReadDocument)
    assert [page.number for page in document.pages] == [1]
    return document.text


@pytest.mark.parametrize(
    "parts",
    [
        ("<xdp:xdp>", _TEMPLATE, _DATA, "</xdp:xdp>"),
        (f'<x:xdp xmlns:x="http://ns.adobe.com/xdp/">{_TEMPLATE}{_DATA}</x:xdp>',),
    ],
)
def test_a_form_is_read_instead_of_its_page(parts: tuple[str, ...]) -> None:
    assert read(*parts) == _SHOWN


def test_the_page_is_read_where_it_shows_the_form_or_the_form_is_damaged() -> None:
    assert read(_TEMPLATE, _DATA, needs_rendering=False) == _WAIT
    assert read("<template", "") == _WAIT


def test_a_picture_in_a_field_is_left_out() -> None:
    photo = f"<Photo>{encodebytes(bytes(range(256)) * 2).decode()}</Photo><Empty/>"
    assert read(_TEMPLATE, _DATA.replace("<Empty/>", photo)) == _SHOWN
