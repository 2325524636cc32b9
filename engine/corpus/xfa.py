"""Forms of Adobe LiveCycle in PDF (XFA): what they say and what was filled in stand in XML, and their one page asks for another
viewer.

XML Forms Architecture 3.3, part 1, chapter 2 (templates), chapter 4 (data).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ctypes import byref, c_ulong, create_string_buffer
from typing import Any

from engine.corpus.readers import clean

_MAX_SIZE = 2**26  # bytes of all
_MAX_DEPTH = 100
_UNSEEN = ("hidden", "invisible", "inactive")
_SPEAKING = ("draw", "caption")


def form_text(document: Any) -> str:
    """The lines of a form that PDFium does not show, of a document as pypdfium2 has it: its words, then what was filled in as
    `name: value`. Empty for every other document, and for a form that is no sound XML.
    """
    from lxml import etree
    from pypdfium2.raw import FORMTYPE_XFA_FULL

    if document.get_formtype() != FORMTYPE_XFA_FULL:
        return ""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False, load_dtd=False)
    try:
        root = etree.fromstring(b"".join(_packets(document)), parser)
    except (etree.XMLSyntaxError, ValueError):
        return ""
    secret = {node.getparent().getparent().get("name") for node in root.iterfind(".//{*}field/{*}ui/{*}passwordEdit")}
    lines = [
        *(line for form in root.iter("{*}template") for line in _said(form)),
        *(line for data in root.iter("{*}data") for line in _filled(data, secret)),
    ]
    return "\n".join(dict.fromkeys(filter(None, lines)))


def _packets(document: Any) -> Iterator[bytes]:
    """The parts of the XML, in order: together they are one document."""
    from pypdfium2 import raw

    left = _MAX_SIZE
    for index in range(raw.FPDF_GetXFAPacketCount(document)):
        size = c_ulong()
        raw.FPDF_GetXFAPacketContent(document, index, None, 0, byref(size))
        left -= size.value
        if left < 0:
            return
        packet = create_string_buffer(size.value)
        raw.FPDF_GetXFAPacketContent(document, index, packet, size.value, byref(size))
        yield packet.raw


def _said(form: Any, depth: int = 0) -> Iterator[str]:
    for node in form:
        if not isinstance(node.tag, str) or node.get("presence") in _UNSEEN or depth > _MAX_DEPTH:
            continue
        if node.tag.rpartition("}")[2] in _SPEAKING:
            yield from (_line(value) for value in node.iterfind("{*}value"))
        else:
            yield from _said(node, depth + 1)


def _filled(data: Any, secret: Collection[str]) -> Iterator[str]:
    for node in data.iter("*"):
        name = node.tag.rpartition("}")[2]
        if not len(node) and name not in secret and (value := _line(node)):
            yield f"{name.replace('_', ' ')}: {value}"


def _line(node: Any) -> str:
    return " ".join(clean(" ".join(node.itertext())).split())
