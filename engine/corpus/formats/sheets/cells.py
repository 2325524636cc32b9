"""Workbooks of Excel 2007 and later, whose XML is rewritten so that each cell is a text as shown.

This happens before anything else reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any
from xml.sax.saxutils import escape
from zipfile import ZipFile

from engine.corpus.formats.containers import DAMAGED, open_package, replace_parts
from engine.corpus.formats.sheets.number_formats import GENERAL, choose_code
from engine.corpus.formats.sheets.shown import find_added_text, find_hidden_digits, show_number
from engine.corpus.formats.sheets.symbol_cells import (
    find_symbol_styles,
    show_runs,
    show_text,
)

ALL_DIGITS = "\ufdd0"
"""Separates what a cell shows, such as `1.23E+15`, from all digits of its number.

It is a noncharacter, which no text contains.
"""
SHEET = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
_STRINGS = re.compile(r"xl/sharedStrings\.xml", re.IGNORECASE)
_COMMENTS = re.compile(r"xl/(?:comments|threadedComments/)[^/]*\.xml", re.IGNORECASE)
_STYLES = re.compile(r"xl/styles\d*\.xml", re.IGNORECASE)
_BOOK = re.compile(r"xl/workbook\d*\.xml", re.IGNORECASE)
# A cell with a number, and perhaps a formula: `<c r="B2" s="4"><f>A1*2</f><v>1234.5</v>`. Its type
# is missing or `n`.
_NUMBER_CELL = re.compile(
    rb"<((?:\w+:)?)c\b((?![^>]*\bt\s*=\s*[\"'](?!n[\"']))[^>]*)>"
    rb"(?:\s*<(?:\w+:)?f\b[^>]*(?:/>|>[^<]*</(?:\w+:)?f>))?\s*<(?:\w+:)?v\b[^>]*>\s*([^<]*?)\s*</(?:\w+:)?v>"
)
_NUMBER_TYPE = re.compile(rb"\bt\s*=\s*[\"']n[\"']")
# A cell with the number of a shared text: `<c r="B2" s="4" t="s"><v>17</v>`.
_SHARED_TEXT_CELL = re.compile(rb"<c\b([^>]*\bt=\"s\"[^>]*)>\s*<v>\s*(\d{1,9})\s*</v>")
_SHARED_TEXT_TYPE = re.compile(rb"\bt=\"s\"")
# A cell with a text of its own: `<c r="B2" t="inlineStr"><is><t>Pier</t>`.
_INLINE_CELL = re.compile(
    rb"<c\b([^>]*\bt=\"inlineStr\"[^>]*)>\s*<is>\s*(<t\b[^>]*>[^<]*</t>)\s*(?=</is>)"
)
# A cell whose formula gives a text: `<c r="B2" t="str"><f>A1&"x"</f><v>Pier`.
_FORMULA_TEXT = re.compile(
    rb"(<c\b([^>]*\bt=\"str\"[^>]*)>(?:\s*<f\b[^>]*(?:/>|>[^<]*</f>))?\s*<v\b[^>]*>)([^<]*)(?=</v>)"
)
# A cell with a truth value: `<c r="B2" s="4" t="b"><v>1</v>`.
_BOOLEAN_CELL = re.compile(
    rb"<c\b([^>]*\bt=\"b\"[^>]*)>(?:\s*<f\b[^>]*(?:/>|>[^<]*</f>))?\s*<v>\s*([01])\s*</v>"
)
_BOOLEAN_TYPE = re.compile(rb"\bt=\"b\"")
_CHECK_BOXES = {b"0": "\u2610", b"1": "\u2611"}
# A shared text: `<si><t>Pier</t></si>`, or an empty one.
_SHARED_TEXT = re.compile(rb"<si\b[^>]*?(?:/>|>(.*?)</si>)", re.DOTALL)
_STYLE = re.compile(rb"\bs\s*=\s*[\"'](\d+)[\"']")
# A number that the format General shows as it is stored: it has up to eleven characters, and a zero
# does not end its decimals.
_SHOWN_AS_STORED = re.compile(rb"-?\d{1,11}|-?(?=[\d.]{3,11}$)(?:0|[1-9]\d*)\.\d*[1-9]")
_ESCAPES = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")
_ESCAPES_IN_PART = re.compile(_ESCAPES.pattern.encode())
_INVISIBLE = re.compile("[\x00-\x1f\ufffe\uffff]")
_BLANKS = bytes.maketrans(b"\t\r\n", b"   ")
# Blanks, tabs and line ends: as they are, as references such as `&#10;`, or as escapes such as
# `_x000D_`. What follows `_x005F_`, an underscore, is no escape.
_BREAKS = re.compile(rb"(?: |&#(?:9|10|13|x0*[9aAdD]);|(?<!_x005[Ff])_x00(?:09|0[aA]|0[dD])_)+")
# Beginnings of the names of parts that hold no text of cells.
_UNREAD = (
    "xl/media/",
    "xl/embeddings/",
    "xl/printerSettings/",
    "xl/theme/",
    "docProps/thumbnail",
)
# Maximum number of remembered texts of numbers with their formats.
_MAX_REMEMBERED = 65_536


def write_shown_cells(content: bytes) -> bytes:
    """Return a workbook with its numbers as the texts that Excel shows, and with escapes resolved.

    The escapes are those of ECMA-376 part 1, 22.9.2.19. If a cell shows fewer digits than its
    number has, all digits follow after `ALL_DIGITS`. Damaged parts are returned unchanged.
    """
    changed: dict[str, bytes] = {}
    try:
        package = open_package(content)
        writer = _CellWriter(package)
        for name in package.namelist():
            is_sheet = SHEET.fullmatch(name) is not None
            has_cells = is_sheet or _STRINGS.fullmatch(name) is not None
            if not has_cells and not _COMMENTS.fullmatch(name):
                continue
            with suppress(*DAMAGED):
                part = package.read(name)
                rewritten = _resolve_escapes(_join_lines(part) if has_cells else part)
                if is_sheet:
                    rewritten = writer.rewrite(rewritten)
                if rewritten != part:
                    changed[name] = rewritten
        if changed:
            return replace_parts(package, changed, without=_UNREAD)
        return content
    except (*DAMAGED, KeyError):
        return content


def _resolve_escapes(part: bytes) -> bytes:
    """Return a part with the characters that escapes, raised runs and symbol fonts stand for."""
    if b"_x" in part:
        part = _ESCAPES_IN_PART.sub(_unescape_match, part)
    return show_runs(part)


def _join_lines(part: bytes) -> bytes:
    """Replace line ends in the XML of cells with blanks, since a cell is one line."""
    part = part.translate(_BLANKS)
    if b"&#" in part or b"_x00" in part:
        return _BREAKS.sub(b" ", part)
    return part


def unescape_characters(text: str) -> str:
    """Replace each `_x000D_` or the like in a text of an office file by the character it names."""
    if "_x" in text:
        return _ESCAPES.sub(lambda match: _unescape(match[0]), text)
    return text


def split_rows(rows: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield the rows of a sheet; after a row with shortened numbers, a row with all their digits.

    The digits stand in the columns of the numbers, and all other cells of that row are empty.
    """
    for row in rows:
        if not any(ALL_DIGITS in cell for cell in row):
            yield row
            continue
        parts = [cell.partition(ALL_DIGITS) for cell in row]
        yield [text for text, _, _ in parts]
        yield [digits for _, _, digits in parts]


def show_cell(
    value: float,
    code: str,
    *,
    from_1904: bool = False,
) -> str:
    """Return a number as a cell with the format `code` shows it.

    If the cell shows fewer digits than the number has, all digits follow after `ALL_DIGITS`.
    """
    digits = find_hidden_digits(value, code)
    text = show_number(
        value,
        code,
        from_1904=from_1904,
    )
    return f"{text}{ALL_DIGITS}{digits}" if digits else text


class _CellWriter:
    """Writes the cells of a workbook's sheets as their number formats and fonts show them.

    Numbers become texts, and a format may add texts before and after the text of a cell. Each cell
    has the number of a style, which names its format and its font.
    """

    def __init__(self, package: ZipFile) -> None:
        styles = _read_xml(package, _STYLES)
        self._codes = _read_codes(styles)
        self._symbol_fonts = find_symbol_styles(styles)
        self._check_boxes = _find_check_boxes(styles)
        self._added_texts: dict[int, tuple[str, str]] = {}
        for style, code in enumerate(self._codes):
            if added := find_added_text(code):
                self._added_texts[style] = added
        self._shared_texts = _read_shared_texts(package)
        self._from_1904 = _counts_from_1904(package)
        self._format_number = lru_cache(_MAX_REMEMBERED)(self._format_number_uncached)

    def rewrite(self, sheet: bytes) -> bytes:
        """Return the XML of a sheet with its cells as they are shown."""
        if self._symbol_fonts or self._added_texts:
            sheet = _INLINE_CELL.sub(self._rewrite_inline_text, sheet)
        if self._added_texts:
            sheet = _FORMULA_TEXT.sub(self._rewrite_formula_text, sheet)
        sheet = _NUMBER_CELL.sub(self._rewrite_number, sheet)
        if self._check_boxes:
            sheet = _BOOLEAN_CELL.sub(self._rewrite_check_box, sheet)
        if (self._added_texts or self._symbol_fonts) and self._shared_texts:
            return _SHARED_TEXT_CELL.sub(self._rewrite_shared_text, sheet)
        return sheet

    def _rewrite_inline_text(self, match: re.Match[bytes]) -> bytes:
        """Rewrite a match of `_INLINE_CELL`: convert a symbol font, and add a format's texts."""
        style = _read_style(match[1])
        added = self._added_texts.get(style)
        font = self._symbol_fonts.get(style)
        text = match[2]
        if font is not None:
            text = show_text(text, font)
        if added is not None:
            before, after = map(_write_text_run, added)
            text = b"%b<r>%b</r>%b" % (before, text, after)
        return b"<c%b><is>%b" % (match[1], text)

    def _rewrite_formula_text(self, match: re.Match[bytes]) -> bytes:
        """Rewrite a match of `_FORMULA_TEXT`: add a format's texts."""
        opening, attributes, text = match.groups()
        added = self._added_texts.get(_read_style(attributes))
        if added is None or not text:
            return match[0]
        before, after = added
        return b"%b%b%b%b" % (opening, escape(before).encode(), text, escape(after).encode())

    def _rewrite_shared_text(self, match: re.Match[bytes]) -> bytes:
        """Rewrite a match of `_SHARED_TEXT_CELL` if its style changes the text that it shares.

        It then gets a text of its own: with the texts that its format adds, and with the characters
        that its symbol font shows.
        """
        attributes, digits = match.groups()
        number = int(digits)
        style = _read_style(attributes)
        added = self._added_texts.get(style)
        font = self._symbol_fonts.get(style)
        if (added is None and font is None) or number >= len(self._shared_texts):
            return match[0]
        text = self._shared_texts[number]
        if b"<r>" not in text:
            if font is not None:
                text = show_text(text, font)
            text = b"<r>%b</r>" % text
        before, after = map(_write_text_run, added or ("", ""))
        attributes = _SHARED_TEXT_TYPE.sub(b"", attributes)
        return b'<c%b t="inlineStr"><is>%b%b%b</is>' % (attributes, before, text, after)

    def _rewrite_check_box(self, match: re.Match[bytes]) -> bytes:
        """Rewrite a match of `_BOOLEAN_CELL` if its style shows it as a check box."""
        attributes, value = match.groups()
        if _read_style(attributes) not in self._check_boxes:
            return match[0]
        attributes = _BOOLEAN_TYPE.sub(b"", attributes)
        sign = _CHECK_BOXES[value].encode()
        return b'<c%b t="inlineStr"><is><t>%b</t></is>' % (attributes, sign)

    def _rewrite_number(self, match: re.Match[bytes]) -> bytes:
        """Rewrite a match of `_NUMBER_CELL` as a cell with a text of its own."""
        prefix, attributes, number = match.groups()
        text = self._format_number(number, _read_style(attributes))
        if text is None:
            return match[0]
        if b"t" in attributes:
            attributes = _NUMBER_TYPE.sub(b"", attributes)
        content = b"<%bis><%bt>%b</%bt></%bis>" % (prefix, prefix, text, prefix, prefix)
        return b'<%bc%b t="inlineStr">%b' % (prefix, attributes, content)

    def _format_number_uncached(self, number: bytes, style: int) -> bytes | None:
        """Return the text of a number, None if it is shown as it is stored or is not a number."""
        code = GENERAL
        if style < len(self._codes):
            code = self._codes[style]
        if code == GENERAL and _SHOWN_AS_STORED.fullmatch(number):
            return None
        try:
            return escape(show_cell(float(number), code, from_1904=self._from_1904)).encode()
        except (ValueError, ArithmeticError):
            return None


def _read_style(attributes: bytes) -> int:
    """Return the number of the style that the attributes of a cell name, 0 by default."""
    style = _STYLE.search(attributes)
    if style:
        return int(style[1])
    return 0


def _write_text_run(text: str) -> bytes:
    """Return the XML of a piece of a text with its blanks."""
    return b'<r><t xml:space="preserve">%b</t></r>' % escape(text).encode()


def _read_codes(root: Any) -> list[str]:
    """Return the code of each cell style's number format, by number of the style.

    `root` is that of styles.xml, None if it is missing.
    """
    if root is None:
        return []
    custom_codes = {
        format.get("numFmtId"): format.get("formatCode")
        for format in root.iterfind("{*}numFmts/{*}numFmt")
    }
    codes: list[str] = []
    for style in root.iterfind("{*}cellXfs/{*}xf"):
        format_id = style.get("numFmtId") or "0"
        number = int(format_id) if format_id.isdecimal() else 0
        codes.append(choose_code(number, custom_codes.get(format_id)))
    return codes


def _find_check_boxes(root: Any) -> set[int]:
    """Return the numbers of the cell styles that show truth values as check boxes (since 2024).

    They name a feature property bag, which holds nothing else so far. `root` is that of styles.xml,
    None if it is missing.
    """
    if root is None:
        return set()
    check_boxes = set()
    for number, style in enumerate(root.iterfind("{*}cellXfs/{*}xf")):
        if style.find("{*}extLst/{*}ext/{*}xfComplement") is not None:
            check_boxes.add(number)
    return check_boxes


def _read_shared_texts(package: ZipFile) -> list[bytes]:
    """Return the XML of each text that cells share, by its number."""
    part = _resolve_escapes(_join_lines(_read_part(package, _STRINGS)))
    return [match[1] or b"" for match in _SHARED_TEXT.finditer(part)]


def _counts_from_1904(package: ZipFile) -> bool:
    """Return whether a workbook counts its days from 1904, as Excel for the Mac did."""
    root = _read_xml(package, _BOOK)
    if root is None:
        return False
    settings = root.find("{*}workbookPr")
    return settings is not None and settings.get("date1904") in ("1", "true")


def _read_part(package: ZipFile, pattern: re.Pattern[str]) -> bytes:
    """Return the first part whose name matches, empty if missing or damaged."""
    name = next(filter(pattern.fullmatch, package.namelist()), "")
    if name:
        with suppress(*DAMAGED):
            return package.read(name)
    return b""


def _read_xml(package: ZipFile, pattern: re.Pattern[str]) -> Any:
    """Return the root of the first part whose name matches, None if missing or damaged."""
    from lxml import etree

    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        recover=True,
        huge_tree=True,
    )
    with suppress(*DAMAGED, etree.XMLSyntaxError):
        return etree.fromstring(_read_part(package, pattern), parser)
    return None


def _unescape_match(match: re.Match[bytes]) -> bytes:
    """Return the XML of the characters that escapes in a part stand for."""
    return escape(_unescape(match[0].decode())).encode()


def _unescape(escapes: str) -> str:
    """Return the characters of escapes that follow each other: `_xD83D__xDE00_` → one emoji.

    A lone surrogate and invisible characters become blanks.
    """
    code_units = bytes.fromhex(escapes.replace("_x", "").replace("_", ""))
    text = code_units.decode("utf-16-be", "replace").replace("\ufffd", " ")
    return _INVISIBLE.sub(" ", text)
