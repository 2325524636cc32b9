"""OpenDocument's XML with the characters that superscripts and symbol fonts show.

Source: ODF 1.3 part 3, 20.391 and 20.192.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from engine.core.characters import clean_line
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import FONT_NAMES, find_symbol_font, show_symbols
from engine.corpus.formats.xml_parts import parse_xml, serialise_xml

_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_FORMAT = "{urn:oasis:names:tc:opendocument:xmlns:xsl-fo-compatible:1.0}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
# `super 58%`, or a height in percent above the line.
_RAISED_POSITION = re.compile(r"super|[1-9]")
_MAY_RAISE = re.compile(rb"text-position=[\"'](?:super|[1-9])")
_FONT_NAMES = re.compile(FONT_NAMES)
# `<text:s text:c="3"/>`, three blanks.
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
_MAX_BEFORE = 20  # characters before raised text that decide how it is written
_MAX_STYLE_DEPTH = 10


@dataclass(frozen=True, slots=True)
class _Styles:
    """The symbol font of each style by the style's name, and the styles that raise their text."""

    fonts: dict[str, str]
    raised: set[str]


def write_shown_characters(content: bytes, styles: bytes = b"") -> bytes:
    """Write raised digits as superscripts and letters of symbol fonts as symbols.

    An element that stands for several blanks becomes one blank, and furigana are left out.
    `content` is the file's `content.xml`, and `styles` its `styles.xml`. Content without any of
    these is returned unchanged.
    """
    if b"<text:s" in content:
        content = _BLANKS.sub(b" ", content)
    if b"<text:ruby-text" in content:
        content = _FURIGANA.sub(b"", content)
    if b"</svg:title>" in content:
        # A longer description follows, without a blank.
        content = content.replace(b"</svg:title>", b" </svg:title>")
    has_styles = _may_change_text(styles)
    if not has_styles and not _may_change_text(content):
        return content
    root = parse_xml(content)
    # `content.xml` also defines styles.
    sheets = [root]
    if has_styles:
        sheets.append(parse_xml(styles))
    special_styles = _read_styles(sheets)
    changed = False
    for span in root.iter(f"{_TEXT}span"):
        style_name = str(span.get(f"{_TEXT}style-name"))
        if style_name in special_styles.fonts and span.text:
            span.text = show_symbols(special_styles.fonts[style_name], span.text)
            changed = True
        elif style_name in special_styles.raised:
            before = _find_text_before(span)
            # The text may be divided among the span, spans in it, and links.
            for node in span.iter(f"{_TEXT}span", f"{_TEXT}a"):
                if node.text:
                    node.text = write_superscript(node.text, before)
                    before = node.text
                    changed = True
    if changed:
        return serialise_xml(root)
    return content


def frame_shapes(content: bytes) -> bytes:
    """Put the text of drawn shapes into text boxes, and make a drawing a presentation.

    xberg reads the shapes of a slide only within a group, joins the texts of shapes in a document
    without blanks, and does not read drawings.
    """
    content = content.replace(b"<office:drawing", b"<office:presentation")
    content = content.replace(b"</office:drawing", b"</office:presentation")
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
        return serialise_xml(root)
    return content


def take_drawn_lines(content: bytes) -> tuple[bytes, list[str]]:
    """Return a workbook without the text of drawn shapes and text boxes, and the lines of that.

    xberg gives only what is drawn into a cell, and joins it to the text of the cell.
    """
    if b"<draw:text-box" not in content and not _SHAPE.search(content):
        return content, []
    root = parse_xml(content)
    lines: list[str] = []
    for shape in root.iter(*(f"{_DRAW}{name}" for name in (*_SHAPES, "text-box"))):
        for paragraph in list(shape.iter(f"{_TEXT}p")):
            lines.append(clean_line("".join(paragraph.itertext())))
            paragraph.getparent().remove(paragraph)
    if lines:
        return serialise_xml(root), lines
    return content, []


def move_text_boxes(content: bytes) -> bytes:
    """Move the paragraphs of text boxes behind the paragraphs that hold the boxes.

    Otherwise xberg returns their text twice, once without blanks between paragraphs. Captions of
    pictures are such boxes.
    """
    if b"<draw:text-box" not in content:
        return content
    root = parse_xml(content)
    # The last paragraph that was put behind each paragraph, so that boxes keep their order.
    last_behind: dict[Any, Any] = {}
    for box in list(root.iter(f"{_DRAW}text-box")):
        holders = [*box.iterancestors(f"{_TEXT}p", f"{_TEXT}h")]
        if not holders:
            continue
        outermost = holders[-1]
        for paragraph in list(box):
            insertion_point = outermost
            while insertion_point in last_behind:
                insertion_point = last_behind[insertion_point]
            insertion_point.addnext(paragraph)
            last_behind[outermost] = paragraph
    if last_behind:
        return serialise_xml(root)
    return content


def _may_change_text(sheet: bytes) -> bool:
    """Return whether a part may have styles that raise text or show symbols."""
    return _MAY_RAISE.search(sheet) is not None or _FONT_NAMES.search(sheet) is not None


def _read_styles(roots: Sequence[Any]) -> _Styles:
    """Return the styles in some parts that change how text is shown."""
    fonts: dict[str, str] = {}
    raised: set[str] = set()
    # The name of the style whose position a style takes over.
    parents: dict[str, str] = {}
    # The family of each font face that styles may name.
    families: dict[str, str] = {}
    for root in roots:
        for face in root.iter(f"{_STYLE}font-face"):
            families[face.get(f"{_STYLE}name")] = face.get(f"{_SVG}font-family")
    for style in chain.from_iterable(root.iter(f"{_STYLE}style") for root in roots):
        name = str(style.get(f"{_STYLE}name"))
        parent = style.get(f"{_STYLE}parent-style-name")
        if parent:
            parents[name] = str(parent)
        properties = style.find(f"{_STYLE}text-properties")
        if properties is None:
            continue
        position = properties.get(f"{_STYLE}text-position")
        if position is not None:
            # Its own position counts, not that of its parent.
            parents.pop(name, None)
            if _RAISED_POSITION.match(position):
                raised.add(name)
        family = properties.get(f"{_FORMAT}font-family")
        face_name = properties.get(f"{_STYLE}font-name")
        font = find_symbol_font(family or families.get(face_name) or face_name or "")
        if font:
            fonts[name] = font
    inherit = {name for name in parents if _inherits(name, parents, raised)}
    return _Styles(fonts, raised | inherit)


def _inherits(
    name: str,
    parents: Mapping[str, str],
    raised: Container[str],
) -> bool:
    """Return whether a style is based on one that raises text."""
    # Styles may be based on each other in a circle.
    for _ in range(_MAX_STYLE_DEPTH):
        name = parents.get(name, "")
        if name in raised:
            return True
    return False


def _find_text_before(span: Any) -> str:
    """Return the end of the text before a span in its paragraph."""
    previous = span.getprevious()
    if previous is not None:
        text = previous.tail or previous.text
    else:
        text = span.getparent().text
    return str(text or "")[-_MAX_BEFORE:]
