"""OpenDocument's XML with the characters that superscripts and symbol fonts show.

Source: ODF 1.3 part 3, 20.391 and 20.192.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import FONT_NAMES, find_symbol_font, show_symbols
from engine.corpus.formats.word_numbers import parse_xml

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_FORMAT = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_RAISED = re.compile(r"super|[1-9]")
_MAY_RAISE = re.compile(rb"text-position=[\"'](?:super|[1-9])")
_FONT_NAMES = re.compile(FONT_NAMES)
_BLANKS = re.compile(rb"\s?(?:<text:s\b[^<>]*(?:/>|></text:s>))+")
_FURIGANA = re.compile(rb"<text:ruby-text\b[^<>]*>[^<]*</text:ruby-text>")
_SHAPES = (
    "custom-shape",
    "rect",
    "ellipse",
    "circle",
    "polygon",
    "regular-polygon",
    "path",
    "line",
    "polyline",
    "connector",
    "measure",
    "caption",
)
_SHAPE = re.compile(rf"<draw:(?:{'|'.join(_SHAPES)})\b[^<>]*(?<!/)>".encode())
_BEFORE = 20  # characters
_MAX_STYLE_DEPTH = 10


@dataclass(frozen=True, slots=True)
class _Styles:
    """The symbol font of each style by name, and the styles that raise their text."""

    fonts: dict[str, str]
    raised: set[str]


def write_shown_characters(content: bytes, styles: bytes = b"") -> bytes:
    """Write raised digits as superscripts and letters of symbol fonts as symbols.

    Blanks that have an element of their own become plain ones, and furigana are left out. `styles`
    is the `styles.xml` beside a `content.xml`. Content without any of these is returned unchanged.
    """
    if b"<text:s" in content:
        content = _BLANKS.sub(b" ", content)
    if b"<text:ruby-text" in content:
        content = _FURIGANA.sub(b"", content)
    if b"</svg:title>" in content:
        # A longer description follows, without a blank.
        content = content.replace(b"</svg:title>", b" </svg:title>")
    sheets = [sheet for sheet in (content, styles) if _may_change(sheet)]
    if not sheets:
        return content
    from lxml import etree

    root = parse_xml(content)
    known = _read_styles([root, *map(parse_xml, sheets[sheets[0] is content :])])
    changed = False
    for span in root.iter(f"{_TEXT}span"):
        style_name = str(span.get(f"{_TEXT}style-name"))
        if style_name in known.fonts and span.text:
            span.text = show_symbols(known.fonts[style_name], span.text)
            changed = True
        elif style_name in known.raised:
            before = _find_text_before(span)
            for node in span.iter(f"{_TEXT}span", f"{_TEXT}a"):
                if node.text:
                    node.text = write_superscript(node.text, before)
                    before = node.text
                    changed = True
    if changed:
        return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))
    return content


def frame_shapes(content: bytes) -> bytes:
    """Put the text of drawn shapes into text boxes.

    xberg reads the shapes of a slide only within a group, and runs those of a text together. It
    reads no drawings, so their pages become slides.
    """
    for tag in (b"<office:drawing", b"</office:drawing"):
        content = content.replace(tag, tag.replace(b"drawing", b"presentation"))
    if not _SHAPE.search(content):
        return content
    from lxml import etree

    root = parse_xml(content)
    changed = False
    for shape in list(root.iter(*(f"{_DRAW}{name}" for name in _SHAPES))):
        blocks = [*shape.iterchildren(f"{_TEXT}p", f"{_TEXT}list")]
        if not any("".join(block.itertext()).strip() for block in blocks):
            continue
        shape.tag = f"{_DRAW}frame"
        etree.SubElement(shape, f"{_DRAW}text-box").extend(blocks)
        changed = True
    if changed:
        return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))
    return content


def part_text_boxes(content: bytes) -> bytes:
    """Move the paragraphs of text boxes behind the paragraphs that hold these.

    xberg gives them twice otherwise, once run together. Captions of pictures are such boxes.
    """
    if b"<draw:text-box" not in content:
        return content
    from lxml import etree

    root = parse_xml(content)
    # The last paragraph that was put behind each paragraph, so that boxes keep their order.
    last_behind: dict[Any, Any] = {}
    for box in list(root.iter(f"{_DRAW}text-box")):
        holders = [*box.iterancestors(f"{_TEXT}p", f"{_TEXT}h")]
        if not holders:
            continue
        for paragraph in list(box):
            end = holders[-1]
            while end in last_behind:
                end = last_behind[end]
            end.addnext(paragraph)
            last_behind[holders[-1]] = paragraph
    if last_behind:
        return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True))
    return content


def _may_change(sheet: bytes) -> bool:
    return _MAY_RAISE.search(sheet) is not None or _FONT_NAMES.search(sheet) is not None


def _read_styles(roots: Sequence[Any]) -> _Styles:
    """Return the styles of some parts that change how text is shown."""
    fonts: dict[str, str] = {}
    raised: set[str] = set()
    parents: dict[str, str] = {}
    faces: dict[str, str] = {}
    sheets: list[Any] = []
    for root in roots:
        for face in root.iter(f"{_STYLE}font-face"):
            faces[face.get(f"{_STYLE}name")] = face.get(f"{_SVG}font-family")
        sheets += root.iter(f"{_STYLE}style")
    for style in sheets:
        name = str(style.get(f"{_STYLE}name"))
        if parent := style.get(f"{_STYLE}parent-style-name"):
            parents[name] = str(parent)
        properties = style.find(f"{_STYLE}text-properties")
        if properties is None:
            continue
        position = properties.get(f"{_STYLE}text-position")
        if position is not None:
            # Its own position counts, not that of its parent.
            parents.pop(name, None)
        if _RAISED.match(position or ""):
            raised.add(name)
        # The properties name a font themselves or by a face.
        family = properties.get(f"{_FORMAT}font-family")
        face = properties.get(f"{_STYLE}font-name")
        if font := find_symbol_font(family or faces.get(face) or face or ""):
            fonts[name] = font
    inherit = {name for name in parents if _inherits(name, parents, raised)}
    return _Styles(fonts, raised | inherit)


def _inherits(name: str, parents: Mapping[str, str], raised: Container[str]) -> bool:
    """Tell whether a style is based on one that raises text."""
    for _ in range(_MAX_STYLE_DEPTH):
        name = parents.get(name, "")
        if name in raised:
            return True
    return False


def _find_text_before(span: Any) -> str:
    """Return the text before a span in its paragraph."""
    before = span.getprevious()
    if before is not None:
        return str(before.tail or before.text or "")[-_BEFORE:]
    return str(span.getparent().text or "")[-_BEFORE:]
