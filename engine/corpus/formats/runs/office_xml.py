"""Word's and PowerPoint's XML with what office_oxide leaves out, such as symbols of symbol fonts.

The letters of such fonts do not say what they show. ECMA-376 part 1: 17.3.3.30 (`w:sym`), 17.3.2.26
(`w:rFonts`), 21.1.2.3 (`a:latin`, `a:sym`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zipfile import ZipFile

from engine.corpus.formats.containers import find_part
from engine.corpus.formats.runs.symbols import (
    PRIVATE_LETTER,
    find_symbol_font,
    remove_private_letters,
    show_symbols,
)
from engine.corpus.formats.xml_parts import (
    SPACE,
    W,
    index_styles,
    parse_xml,
    read_attribute,
    read_value,
    serialise_xml,
)

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_STYLES = "word/styles"
_TEXT_PARTS = re.compile(
    r"word/(?:document|footnotes|endnotes|comments|header|footer)\d*\.xml"
    r"|ppt/(?:slides/slide|notesSlides/notesSlide|comments/comment)\d+\.xml"
)
_FONT_MARKS = (
    b'"Symbol',
    b'"Wingdings',
    b'"Webdings',
    b"Dingbats",
    b'"Monotype Sorts',
    b'"MT Extra',
    b'"Marlett',
)
"""A part that names a symbol font contains one of these."""
_SYMBOL_MARKS = (
    b"<w:sym",
    # Private letters in UTF-8, and as references.
    b"\xef\x80",
    b"\xef\x81",
    b"\xef\x82",
    b"\xef\x83",
    b"&#xF0",
    b"&#xf0",
    b"&#61",
    *_FONT_MARKS,
)
"""A part with symbols contains one of these."""
# Tabs of headers and footers, which office_oxide drops without leaving a blank.
_ALIGNMENT_TAB = re.compile(rb"<w:ptab\b[^>]*>")
# Characters with their pronunciation above them (ruby); office_oxide drops both.
_RUBY = re.compile(rb"<w:ruby>.*?<w:rubyBase>(.*?)</w:rubyBase>\s*</w:ruby>", re.DOTALL)
# Signs to put before denominators and exponents: office_oxide writes 1/2 as 12, and x^2 as x2.
_FORMULA_SIGNS = {b"<m:den>": b"/", b"<m:sup>": b"^"}
_RAISED_STYLE = re.compile(rb'w:vertAlign w:val="superscript"|w:position w:val="[1-9]')
_RAISED_RUN = re.compile(rb'<w:position w:val="[1-9]|\sbaseline="[1-9][\d.]*%')
_RUN_STYLE = re.compile(rb'<w:rStyle w:val="([^"]*)"')
# Ends of the ids of styles that raise only marks of notes, or nothing.
_REFERENCE_STYLES = ("noteReference", "CommentReference", "Hyperlink")
_MAX_STYLE_DEPTH = 10
_MIN_LIFT = 3  # half points
_PERCENT = re.compile(r"[1-9]\d{0,3}(?:\.\d+)?%")
# The attributes that name a run's fonts for kinds of letters; the first two are for Latin ones.
_FONT_KINDS = ("ascii", "hAnsi", "cs", "eastAsia")


@dataclass(frozen=True, slots=True)
class Styles:
    """The styles of a Word file that change what its text shows."""

    # The symbol font of a style, by the id of the style.
    fonts: Mapping[str, str] = field(default_factory=dict)
    # The ids of the styles that raise their text.
    raised: frozenset[str] = frozenset()
    # A part of the file that uses any of these styles contains one of these.
    marks: tuple[bytes, ...] = ()


def may_show_symbols(name: str) -> bool:
    """Tell by its name whether a part of a Word or PowerPoint file holds text that is read."""
    return _TEXT_PARTS.fullmatch(name) is not None


def write_symbols(
    part: bytes,
    name: str,
    styles: Styles,
) -> bytes:
    """Write what office_oxide leaves out as text into a part of a Word or PowerPoint file.

    These are what symbol fonts show, raised text, tabs of headers, characters with their reading,
    and signs of formulas. `name` is the part's name in the package. A part without any of these is
    returned unchanged.
    """
    part = _ALIGNMENT_TAB.sub(b"<w:tab/>", part)
    part = _RUBY.sub(rb"</w:r>\1<w:r>", part)
    for element, sign in _FORMULA_SIGNS.items():
        part = part.replace(element, element + b"<m:r><m:t>%b</m:t></m:r>" % sign)
    has_marks = any(mark in part for mark in (*styles.marks, *_SYMBOL_MARKS))
    if not has_marks and not _RAISED_RUN.search(part):
        return part
    # One bad character must not cost all symbols.
    root = parse_xml(part, recover=True)
    if name.startswith("word/"):
        _rewrite_word(root, styles)
    else:
        _rewrite_slide(root)
    if root.tag == "none":
        return part
    return serialise_xml(root)


def _rewrite_word(root: Any, styles: Styles) -> None:
    """Write symbols as text and raised runs as superscripts into a part of Word."""
    for run in root.iter(f"{W}r"):
        properties = run.find(f"{W}rPr")
        font = _find_run_font(run, properties, styles)
        for node in run:
            if node.tag == f"{W}sym":
                _replace_sym(node)
            elif node.tag in (f"{W}t", f"{W}delText") and node.text:
                node.text = _show_text(font, node.text)
        if properties is None:
            continue
        if read_value(properties, "rStyle") in styles.raised or _is_lifted(properties):
            _make_superscript(properties)


def _replace_sym(node: Any) -> None:
    """Replace a symbol that Word inserted, `<w:sym w:font="…" w:char="F0FE"/>`, by text."""
    code = read_attribute(node, "char")
    font = find_symbol_font(read_attribute(node, "font"))
    node.tag = f"{W}t"
    node.attrib.clear()
    node.set(SPACE, "preserve")
    if not re.fullmatch(r"[0-9a-fA-F]{1,6}", code):
        return
    number = int(code, 16)
    if number > 0x10FFFF:
        return
    text = _show_text(font, chr(number))
    if text.isprintable():
        node.text = text


def _show_text(font: str, text: str) -> str:
    """Return a text as `font` shows it: a symbol font, or if empty, a font of letters."""
    if font:
        return show_symbols(font, text)
    return remove_private_letters(text)


def _find_run_font(
    run: Any,
    properties: Any,
    styles: Styles,
) -> str:
    """Return the symbol font of a run, from the run or its styles, empty for a font of letters."""
    if properties is not None:
        names = _list_font_names(properties)
        if names:
            return _choose_symbol_font(names, run)
        style = read_value(properties, "rStyle")
        if style in styles.fonts:
            return styles.fonts[style]
    if not styles.fonts:
        return ""
    paragraph = next(run.iterancestors(f"{W}p"), None)
    if paragraph is None:
        return ""
    paragraph_properties = paragraph.find(f"{W}pPr")
    if paragraph_properties is None:
        return ""
    return styles.fonts.get(read_value(paragraph_properties, "pStyle"), "")


def _choose_symbol_font(names: list[str], run: Any) -> str:
    """Return the symbol font of a run, empty if it has none.

    `names` are the fonts that the run names, that of its Latin letters first. This first font
    decides, except for private letters, which any of the fonts may show.
    """
    font = find_symbol_font(names[0])
    if font:
        return font
    text = "".join(node.text or "" for node in run.iter(f"{W}t"))
    if PRIVATE_LETTER.search(text):
        return next(filter(None, map(find_symbol_font, names)), "")
    return ""


def _list_font_names(properties: Any) -> list[str]:
    """Return the names of the fonts in the properties of a run, that of Latin letters first."""
    fonts = properties.find(f"{W}rFonts")
    if fonts is None:
        return []
    names = [fonts.get(f"{W}{kind}") for kind in _FONT_KINDS]
    return [str(name) for name in names if name]


def _is_lifted(properties: Any) -> bool:
    """Return whether a run is raised by at least `_MIN_LIFT` half points, like a superscript."""
    position = read_value(properties, "position")
    return position.isdecimal() and int(position) >= _MIN_LIFT


def _make_superscript(properties: Any) -> None:
    """Align a run that is raised in another way as a superscript, which office_oxide reads."""
    from lxml import etree

    alignment = properties.find(f"{W}vertAlign")
    if alignment is None:
        alignment = etree.SubElement(properties, f"{W}vertAlign")
    elif alignment.get(f"{W}val") != "baseline" or not _is_lifted(properties):
        return
    alignment.set(f"{W}val", "superscript")


def read_styles(package: ZipFile, body: bytes) -> Styles:
    """Return the styles of a Word file that are in symbol fonts or raise their text.

    Empty if its `body` uses no style.
    """
    name = find_part(package, _STYLES)
    if b"Style w:val=" not in body or not name:
        return Styles()
    sheet = package.read(name)
    may_raise = _RAISED_STYLE.search(sheet) is not None and any(
        not style.decode("utf-8", "replace").endswith(_REFERENCE_STYLES)
        for style in _RUN_STYLE.findall(body)
    )
    if not may_raise and not any(mark in sheet for mark in _FONT_MARKS):
        return Styles()
    styles = index_styles(sheet)
    fonts: dict[str, str] = {}
    raised: set[str] = set()
    for name in styles:
        font = _find_style_font(name, styles)
        if font:
            fonts[name] = font
        if not name.endswith(_REFERENCE_STYLES) and _is_raised(name, styles):
            raised.add(name)
    marks = tuple(f'="{name}"'.encode() for name in (*fonts, *raised) if name)
    return Styles(
        fonts,
        frozenset(raised),
        marks,
    )


def _list_bases(name: str, styles: Mapping[str, Any]) -> Iterator[Any]:
    """Yield a style and the styles on which it is based, nearest first."""
    # Styles may be based on each other in a circle.
    for _ in range(_MAX_STYLE_DEPTH):
        style = styles.get(name)
        if style is None:
            return
        yield style
        name = read_value(style, "basedOn")


def _find_style_font(name: str, styles: Mapping[str, Any]) -> str:
    """Return the symbol font that a style names, or that of the style on which it is based."""
    for style in _list_bases(name, styles):
        properties = style.find(f"{W}rPr")
        if properties is not None and properties.find(f"{W}rFonts") is not None:
            names = _list_font_names(properties)
            return find_symbol_font(names[0]) if names else ""
    return ""


def _is_raised(name: str, styles: Mapping[str, Any]) -> bool:
    """Return whether a style raises its text, or the style on which it is based does."""
    for style in _list_bases(name, styles):
        properties = style.find(f"{W}rPr")
        if properties is None:
            continue
        alignment = read_value(properties, "vertAlign")
        if alignment == "superscript" or _is_lifted(properties):
            return True
        if alignment or read_value(properties, "position"):
            return False
    return False


def _rewrite_slide(root: Any) -> None:
    """Write symbols as text, and heights in percent in another unit, into a part of PowerPoint."""
    for run in root.iter(f"{_A}r", f"{_A}fld"):
        text = run.find(f"{_A}t")
        if text is None or not text.text:
            continue
        properties = run.find(f"{_A}rPr")
        if properties is not None and _PERCENT.fullmatch(properties.get("baseline") or ""):
            # office_oxide knows only thousandths of a percent.
            percent = float(properties.get("baseline")[:-1])
            properties.set("baseline", str(round(1000 * percent)))
        font = _find_typeface(properties, "latin")
        if not font:
            # PowerPoint's arrow may be `à` in Wingdings.
            is_one_sign = len(text.text.strip()) == 1 and not text.text.isascii()
            if is_one_sign or PRIVATE_LETTER.search(text.text):
                font = _find_typeface(properties, "sym")
        text.text = _show_text(font, text.text)


def _find_typeface(properties: Any, kind: str) -> str:
    """Return the symbol font of a run for a kind of letters, `latin` or `sym`, else empty."""
    if properties is None:
        return ""
    font = properties.find(f"{_A}{kind}")
    if font is None:
        return ""
    return find_symbol_font(str(font.get("typeface") or ""))
