"""Forms of Adobe LiveCycle, whose words and values stand in XML."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from fixtures import office

from engine.corpus.pdf import PdfReader
from engine.corpus.readers import ReadDocument

TEMPLATE = b"""<template xmlns="http://www.xfa.org/schema/xfa-template/3.3/"><subform name="form">
<draw><value><text>Application for a berth</text></value></draw>
<draw presence="hidden"><value><text>Never shown</text></value></draw>
<subform presence="invisible"><draw><value><text>Nor this</text></value></draw></subform>
<field name="Pilot"><caption><value><exData contentType="text/html"><body xmlns="http://www.w3.org/1999/xhtml">
<p>Name of</p><p>the pilot</p></body></exData></value></caption><items><text>A choice</text></items>
<event><script>app.alert('code')</script></event></field><field name="Code"><ui><passwordEdit/></ui></field></subform></template>"""
DATASETS = b"""<xfa:datasets xmlns:xfa="http://www.xfa.org/schema/xfa-data/1.0/"><xfa:data><form><Pilot>Ada Quay</Pilot>
<Berth_code>PHX-121</Berth_code><Empty/><Code>hunter2</Code></form></xfa:data></xfa:datasets>"""
PREAMBLE, END = b'<xdp:xdp xmlns:xdp="http://ns.adobe.com/xdp/">', b"</xdp:xdp>"


def form(*packets: bytes, dynamic: bool = True) -> bytes:
    """A form whose XML lies in several streams."""
    content = office.pdf("Please wait ...")
    names = b"".join(b"(packet)%d 0 R" % number for number in range(20, 20 + len(packets)))
    reported = b"/NeedsRendering true" if dynamic else b""
    content = content.replace(b"/Type/Catalog", b"/Type/Catalog%s/AcroForm<</Fields[]/XFA[%s]>>" % (reported, names))
    streams = b"".join(
        b"%d 0 obj\n<</Length %d>>stream\n%s\nendstream\nendobj\n" % (number, len(packet), packet)
        for number, packet in enumerate(packets, 20)
    )
    return content.replace(b"xref\n", streams + b"xref\n", 1)


def text_of(content: bytes) -> str:
    (document,) = PdfReader().read(Path("a.pdf"), content)
    assert isinstance(document, ReadDocument)
    return document.text


def test_the_labels_of_a_form_and_what_was_filled_in() -> None:
    assert text_of(form(PREAMBLE, TEMPLATE, DATASETS, END)) == (
        "Please wait ...\n\nApplication for a berth\nName of the pilot\nPilot: Ada Quay\nBerth code: PHX-121"
    )


@pytest.mark.parametrize(
    "content",
    [
        form(PREAMBLE, TEMPLATE, DATASETS, END, dynamic=False),  # its pages show it all
        form(PREAMBLE, TEMPLATE),
        form(b""),
        form(),
    ],
)
def test_other_forms_are_reported_by_their_pages(content: bytes) -> None:
    assert text_of(content) == "Please wait ..."


def test_entities_and_deep_forms_do_no_harm() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY b "%s"><!ENTITY c "%s">]>' % (b"x" * 10_000, b"&b;" * 10_000)
    deep = b"<template>" + b"<subform>" * 200 + b"<draw><value><text>deep</text></value></draw>" + b"</subform>" * 200
    started = time.process_time()
    assert text_of(form(bomb + PREAMBLE, deep + b"</template>", b"<data><a>&c;</a></data>", END)) == "Please wait ..."
    assert time.process_time() - started < 2
