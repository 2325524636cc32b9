"""Forms of Adobe LiveCycle (XFA), whose pages only say that the viewer cannot show them.

What Acrobat shows instead is stored as XML: a template with the texts and captions of the form, and
data sets with the values that somebody filled in (source: XFA 3.3, chapters 2 and 17).
"""

from __future__ import annotations

from collections.abc import Iterator
from ctypes import byref, c_ulong, create_string_buffer
from typing import Any

from engine.corpus.formats.html import render_text
from engine.corpus.formats.plain import drop_packed_files
from engine.corpus.formats.xml_parts import parse_xml, serialise_xml

# Maximum size of one part of a form in bytes.
_MAX_PART = 2**26
# Elements of a template that nobody sees.
_NOT_SHOWN = ("hidden", "invisible", "inactive")


def read_dynamic_form(document: Any) -> str:
    """Return the text of a form that replaces the pages of a document of pypdfium2.

    Its captions and texts come first, then a line `caption: value` for each filled field. Empty if
    the document has no such form.
    """
    from pypdfium2 import raw

    if document.get_formtype() != raw.FORMTYPE_XFA_FULL:
        return ""
    captions: dict[str, str] = {}
    shown: list[str] = []
    values: list[tuple[str, str]] = []
    for index in range(raw.FPDF_GetXFAPacketCount(document)):
        # A form may be in one part, or in one for each kind of content; the first and the last of
        # them are no XML of their own.
        root = parse_xml(_read_part(document, index), recover=True)
        for template in root.iter("{*}template"):
            for name, text in _read_template(template):
                shown.append(text)
                captions.setdefault(name, text)
        for data in root.iter("{http://www.xfa.org/schema/xfa-data/1.0/}data"):
            values += _read_values(data)
    lines = list(filter(None, shown))
    for name, value in values:
        caption = captions.get(name) or name.replace("_", " ")
        lines.append(f"{caption.rstrip(' :')}: {value}")
    return "\n".join(lines)


def _read_part(document: Any, index: int) -> bytes:
    """Return a part of the form of a document of pypdfium2 by its index."""
    from pypdfium2 import raw

    size = c_ulong()
    raw.FPDF_GetXFAPacketContent(
        document,
        index,
        None,
        0,
        byref(size),
    )
    if not 0 < size.value <= _MAX_PART:
        return b""
    content = create_string_buffer(size.value)
    raw.FPDF_GetXFAPacketContent(
        document,
        index,
        content,
        size.value,
        byref(size),
    )
    return content.raw


def _read_template(template: Any) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each text and each caption of a field that a template shows."""
    for element in template.iter("{*}draw", "{*}field", "{*}exclGroup"):
        around = [element, *element.iterancestors()]
        if any(outer.get("presence") in _NOT_SHOWN for outer in around):
            continue
        value = element.find("{*}value")
        if not element.tag.endswith("}draw"):
            value = element.find("{*}caption/{*}value")
        if value is not None:
            yield element.get("name") or "", _read_value(value)


def _read_value(value: Any) -> str:
    """Return the text in an element `value` on one line; it is plain, or a piece of a page."""
    page = value.find("{*}exData")
    if page is None:
        return " ".join("".join(value.itertext()).split())
    bodies = [render_text(serialise_xml(body).decode()) for body in page]
    return " ".join(" ".join([page.text or "", *bodies]).split())


def _read_values(data: Any) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of each filled field in the data of a form, but no pictures."""
    for element in data.iter("{*}*"):
        value = drop_packed_files(" ".join((element.text or "").split())).strip()
        if value:
            yield element.tag.rpartition("}")[2], value
