"""Word's and PowerPoint's XML with what office_oxide leaves out, such as symbols of symbol fonts.

Its letters do not say what they show. ECMA-376 part 1: 17.3.3.30 (`w:sym`), 17.3.2.26 (`w:rFonts`),
21.1.2.3 (`a:latin`, `a:sym`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from zipfile import ZipFile

from engine.corpus.formats.runs.symbols import (
    PRIVATE_LETTER,
    find_symbol_font,
    remove_private_letters,
    show_symbols,
)
from engine.corpus.formats.word_numbers import parse_xml

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_STYLES = "word/styles.xml"
_PARTS = re.compile(
    r"word/(?:document|footnotes|endnotes|comments|header\d*|footer\d*)\.xml"
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
_LETTER_MARKS = (
    b"<w:sym",
    b"\xef\x80",
    b"\xef\x81",
    b"\xef\x82",
    b"\xef\x83",
    b"&#xF0",
    b"&#xf0",
    b"&#61",
)
_MARKS = (*_LETTER_MARKS, *_FONT_MARKS)
"""A part with symbols contains one of these."""
# The tabs of headers and footers, of which office_oxide keeps no blank.
_ALIGNMENT_TAB = re.compile(rb"<w:ptab\b[^>]*>")
# Characters with their reading above them, of which office_oxide keeps neither.
_RUBY = re.compile(rb"<w:ruby>.*?<w:rubyBase>(.*?)</w:rubyBase>\s*</w:ruby>", re.DOTALL)
# Signs before a denominator and an exponent, which it runs together with what precedes them.
_SIGNS = {b"<m:den>": b"/", b"<m:sup>": b"^"}
_RAISED_STYLE = re.compile(rb'w:vertAlign w:val="superscript"|w:position w:val="[1-9]')
_RAISED_RUN = re.compile(rb'<w:position w:val="[1-9]|\sbaseline="[1-9][\d.]*%')
_RUN_STYLE = re.compile(rb'<w:rStyle w:val="([^"]*)"')
_REFERENCES = (b"noteReference", b"CommentReference", b"Hyperlink")
_MAX_STYLE_DEPTH = 10
_MIN_LIFT = 3  # half points
_PERCENT = re.compile(r"[1-9]\d{0,3}(?:\.\d+)?%")
_FONT_KINDS = ("ascii", "hAnsi", "cs")


@dataclass(frozen=True, slots=True)
class Styles:
    """The symbol font of each style of Word by id, and the styles that raise their text.

    A part that names any of them contains one of `marks`.
    """

    fonts: Mapping[str, str] = field(default_factory=dict)
    raised: frozenset[str] = frozenset()
    marks: tuple[bytes, ...] = ()


def may_show_symbols(name: str) -> bool:
    """Tell by its name whether a part of a Word or PowerPoint file holds text that is read."""
    return _PARTS.fullmatch(name) is not None


def write_symbols(part: bytes, name: str, styles: Styles) -> bytes:
    """Write what symbol fonts show as text into a part of a Word or PowerPoint file.

    `name` is the part's name in the package. A part without symbols is returned unchanged.
    """
    part = _RUBY.sub(rb"</w:r>\1<w:r>", _ALIGNMENT_TAB.sub(b"<w:tab/>", part))
    for mark, sign in _SIGNS.items():
        part = part.replace(mark, mark + b"<m:r><m:t>%b</m:t></m:r>" % sign)
    has_marks = any(mark in part for mark in (*styles.marks, *_MARKS))
    if not has_marks and not _RAISED_RUN.search(part):
        return part
    from lxml import etree

    # One bad character must not cost all symbols.
    root = parse_xml(part, recover=True)
    if name.startswith("word/"):
        _rewrite_word(root, styles)
    else:
        _rewrite_slide(root)
    if root.tag == "none":
        return part
    return bytes(etree.tostring(root, encoding="UTF-8", xml_declaration=True, standalone=True))


def _rewrite_word(root: Any, styles: Styles) -> None:
    for run in root.iter(f"{_W}r"):
        properties = run.find(f"{_W}rPr")
        font = _find_run_font(run, properties, styles)
        for node in run:
            if node.tag == f"{_W}sym":
                _replace_sym(node)
            elif node.tag in (f"{_W}t", f"{_W}delText") and node.text:
                node.text = _show_text(font, node.text)
        if properties is None:
            continue
        if _read_value(properties, "rStyle") in styles.raised or _is_lifted(properties):
            _raise(properties)


def _replace_sym(node: Any) -> None:
    """Replace a symbol that Word inserted by text."""
    code = str(node.get(f"{_W}char") or "")
    font = find_symbol_font(str(node.get(f"{_W}font") or ""))
    node.tag = f"{_W}t"
    node.attrib.clear()
    node.set("{http://www.w3.org/XML/1998/namespace}space", "preserve")
    if not re.fullmatch(r"[0-9a-fA-F]{1,6}", code):
        return
    number = int(code, 16)
    char = ""
    if number <= 0x10FFFF:
        char = chr(number)
    text = _show_text(font, char)
    node.text = text if text.isprintable() else ""


def _show_text(font: str, text: str) -> str:
    if font:
        return show_symbols(font, text)
    return remove_private_letters(text)


def _find_run_font(run: Any, properties: Any, styles: Styles) -> str:
    """Return the symbol font of a run, from the run or its styles, empty for a font of letters."""
    if properties is not None:
        fonts = properties.find(f"{_W}rFonts")
        if fonts is not None and (names := [*_list_font_names(fonts)]):
            return _choose_symbol_font(names, run)
        style = _read_value(properties, "rStyle")
        if style in styles.fonts:
            return styles.fonts[style]
    if not styles.fonts:
        return ""
    paragraph = run.getparent()
    while paragraph is not None and paragraph.tag != f"{_W}p":
        paragraph = paragraph.getparent()
    if paragraph is None:
        return ""
    of_paragraph = paragraph.find(f"{_W}pPr")
    if of_paragraph is None:
        return ""
    return styles.fonts.get(_read_value(of_paragraph, "pStyle"), "")


def _choose_symbol_font(names: list[str], run: Any) -> str:
    """Return the symbol font of a run, from the font of its Latin letters.

    If all its letters are private ones, any font that the run names counts.
    """
    font = find_symbol_font(names[0])
    if font:
        return font
    text = "".join(node.text or "" for node in run.iter(f"{_W}t"))
    if PRIVATE_LETTER.search(text):
        return next(filter(None, map(find_symbol_font, names)), "")
    return ""


def _list_font_names(fonts: Any) -> Iterator[str]:
    for kind in (*_FONT_KINDS, "eastAsia"):
        if name := fonts.get(f"{_W}{kind}"):
            yield str(name)


def _is_lifted(properties: Any) -> bool:
    """Tell whether a run stands so many half points above its line that it is a superscript."""
    position = _read_value(properties, "position")
    return position.isdecimal() and int(position) >= _MIN_LIFT


def _raise(properties: Any) -> None:
    from lxml import etree

    alignment = properties.find(f"{_W}vertAlign")
    if alignment is None:
        alignment = etree.SubElement(properties, f"{_W}vertAlign")
    elif alignment.get(f"{_W}val") != "baseline" or not _is_lifted(properties):
        return
    alignment.set(f"{_W}val", "superscript")


def read_styles(package: ZipFile, body: bytes) -> Styles:
    """Return the styles of a Word file that are in symbol fonts or raise their text.

    Empty if its `body` uses no style.
    """
    if b"Style w:val=" not in body or _STYLES not in package.namelist():
        return Styles()
    sheet = package.read(_STYLES)
    used: list[bytes] = []
    if _RAISED_STYLE.search(sheet):
        used = _RUN_STYLE.findall(body)
    may_raise = any(not style.endswith(_REFERENCES) for style in used)
    if not may_raise and not any(mark in sheet for mark in _FONT_MARKS):
        return Styles()
    styles = {
        str(style.get(f"{_W}styleId") or ""): style
        for style in parse_xml(sheet).iterchildren(f"{_W}style")
    }
    fonts: dict[str, str] = {}
    raised: set[str] = set()
    for name in styles:
        if font := _find_style_font(name, styles):
            fonts[name] = font
        if not name.encode().endswith(_REFERENCES) and _is_raised(name, styles):
            raised.add(name)
    marks = tuple(f'="{name}"'.encode() for name in (*fonts, *raised) if name)
    return Styles(fonts, frozenset(raised), marks)


def _find_style_font(name: str, styles: Mapping[str, Any]) -> str:
    """Return the symbol font that a style names, or that of the style on which it is based."""
    for _ in range(_MAX_STYLE_DEPTH):
        style = styles.get(name)
        if style is None:
            return ""
        fonts = style.find(f"{_W}rPr/{_W}rFonts")
        if fonts is not None:
            return find_symbol_font(next(_list_font_names(fonts), ""))
        name = _read_value(style, "basedOn")
    return ""


def _is_raised(name: str, styles: Mapping[str, Any]) -> bool:
    """Tell whether a style raises its text, or the style on which it is based does."""
    for _ in range(_MAX_STYLE_DEPTH):
        style = styles.get(name)
        if style is None:
            return False
        properties = style.find(f"{_W}rPr")
        if properties is not None:
            alignment = _read_value(properties, "vertAlign")
            if alignment == "superscript" or _is_lifted(properties):
                return True
            if alignment or _read_value(properties, "position"):
                return False
        name = _read_value(style, "basedOn")
    return False


def _read_value(parent: Any, name: str) -> str:
    child = parent.find(f"{_W}{name}")
    if child is None:
        return ""
    return str(child.get(f"{_W}val") or "")


def _rewrite_slide(root: Any) -> None:
    for run in root.iter(f"{_A}r", f"{_A}fld"):
        text = run.find(f"{_A}t")
        if text is None or not text.text:
            continue
        properties = run.find(f"{_A}rPr")
        if properties is not None and _PERCENT.fullmatch(properties.get("baseline") or ""):
            # office_oxide knows only thousandths.
            percent = float(properties.get("baseline")[:-1])
            properties.set("baseline", str(round(1000 * percent)))
        letters = _read_typeface(properties, "latin")
        if font := find_symbol_font(letters):
            text.text = show_symbols(font, text.text)
            continue
        font = find_symbol_font(_read_typeface(properties, "sym"))
        # PowerPoint's arrow may be `à` in Wingdings.
        is_one_sign = len(text.text.strip()) == 1 and not text.text.isascii()
        is_symbol = is_one_sign or PRIVATE_LETTER.search(text.text) is not None
        text.text = _show_text(font if is_symbol else "", text.text)


def _read_typeface(properties: Any, kind: str) -> str:
    if properties is None:
        return ""
    font = properties.find(f"{_A}{kind}")
    if font is None:
        return ""
    return str(font.get("typeface") or "")
