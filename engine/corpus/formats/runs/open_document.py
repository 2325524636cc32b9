"""OpenDocument's XML with the characters that superscripts and symbol fonts show.

Source: ODF 1.3 part 3, 20.391 and 20.192.
"""

from __future__ import annotations

import re
from typing import Any

from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import FONT_NAMES, find_symbol_font, show_symbols
from engine.corpus.formats.word_numbers import parse_xml

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_FORMAT = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_RAISED = re.compile(r"super|[1-9]")
_MAY_CHANGE = re.compile(rb"text-position=\"(?:super|[1-9])|" + FONT_NAMES)
_BEFORE = 20  # characters


def write_shown_characters(content: bytes) -> bytes:
    """Write raised digits as superscripts and letters of symbol fonts as symbols.

    A `content.xml` without them is returned unchanged.
    """
    if not _MAY_CHANGE.search(content):
        return content
    from lxml import etree

    root = parse_xml(content)
    fonts: dict[str, str] = {}
    raised: set[str] = set()
    faces = {
        face.get(f"{_STYLE}name"): face.get(f"{_SVG}font-family")
        for face in root.iter(f"{_STYLE}font-face")
    }
    for style in root.iter(f"{_STYLE}style"):
        properties = style.find(f"{_STYLE}text-properties")
        if properties is None:
            continue
        name = str(style.get(f"{_STYLE}name"))
        if _RAISED.match(properties.get(f"{_STYLE}text-position") or ""):
            raised.add(name)
        # The properties name a font themselves or by a face.
        family = properties.get(f"{_FORMAT}font-family")
        face = properties.get(f"{_STYLE}font-name")
        if font := find_symbol_font(family or faces.get(face) or face or ""):
            fonts[name] = font
    changed = False
    for span in root.iter(f"{_TEXT}span"):
        style_name = span.get(f"{_TEXT}style-name")
        if not span.text:
            continue
        if style_name in fonts:
            span.text = show_symbols(fonts[style_name], span.text)
            changed = True
        elif style_name in raised:
            span.text = write_superscript(span.text, _find_text_before(span))
            changed = True
    if changed:
        return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))
    return content


def _find_text_before(span: Any) -> str:
    """Return the text before a span in its paragraph."""
    before = span.getprevious()
    if before is not None:
        return str(before.tail or before.text or "")[-_BEFORE:]
    return str(span.getparent().text or "")[-_BEFORE:]
