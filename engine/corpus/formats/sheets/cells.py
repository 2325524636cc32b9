"""Workbooks of Excel 2007 and later, with each number written as its cell shows it.

This happens before anything else reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
"""Separates what a cell shows from all digits of its number if it shows fewer.

It is a noncharacter, which no text holds.
"""
SHEET = re.compile(r"xl/worksheets/[^/]+\.xml", re.IGNORECASE)
_STRINGS = re.compile(r"xl/sharedStrings\.xml", re.IGNORECASE)
_ESCAPED_PARTS = re.compile(r"xl/(?:comments|threadedComments/)[^/]*\.xml", re.IGNORECASE)
_STYLES = re.compile(r"xl/styles\d*\.xml", re.IGNORECASE)
_BOOK = re.compile(r"xl/workbook\d*\.xml", re.IGNORECASE)
_CELL = re.compile(
    rb"<((?:\w+:)?)c\b((?![^>]*\bt\s*=\s*[\"'](?!n[\"']))[^>]*)>"
    rb"(?:\s*<(?:\w+:)?f\b[^>]*(?:/>|>[^<]*</(?:\w+:)?f>))?\s*<(?:\w+:)?v\b[^>]*>\s*([^<]*?)\s*</(?:\w+:)?v>"
)
_TYPE = re.compile(rb"\bt\s*=\s*[\"']n[\"']")
_TEXT_CELL = re.compile(rb"<c\b([^>]*\bt=\"s\"[^>]*)>\s*<v>\s*(\d{1,9})\s*</v>")
_INLINE_CELL = re.compile(
    rb"<c\b([^>]*\bt=\"inlineStr\"[^>]*)>\s*<is>\s*(<t\b[^>]*>[^<]*</t>)\s*(?=</is>)"
)
_FORMULA_TEXT = re.compile(
    rb"(<c\b([^>]*\bt=\"str\"[^>]*)>(?:\s*<f\b[^>]*(?:/>|>[^<]*</f>))?\s*<v\b[^>]*>)([^<]*)(?=</v>)"
)
_TEXT_TYPE = re.compile(rb"\bt=\"s\"")
_STRING = re.compile(rb"<si\b[^>]*?(?:/>|>(.*?)</si>)", re.DOTALL)
_STYLE = re.compile(rb"\bs\s*=\s*[\"'](\d+)[\"']")
_AS_IT_STANDS = re.compile(rb"-?\d{1,11}|-?(?=[\d.]{3,11}$)(?:0|[1-9]\d*)\.\d*[1-9]")
_ESCAPES = re.compile(r"(?:_x[0-9A-Fa-f]{4}_)+")
_ESCAPES_IN_PART = re.compile(_ESCAPES.pattern.encode())
_INVISIBLE = re.compile("[\x00-\x1f\ufffe\uffff]")
_BLANKS = bytes.maketrans(b"\t\r\n", b"   ")
_BREAKS = re.compile(rb"(?: |&#(?:9|10|13|x0*[9aAdD]);|(?<!_x005[Ff])_x00(?:09|0[aA]|0[dD])_)+")
_UNREAD = ("xl/media/", "xl/embeddings/", "xl/printerSettings/", "xl/theme/", "docProps/thumbnail")
# Maximum number of remembered texts of numbers with their formats.
_KNOWN = 65_536


def write_shown_cells(content: bytes) -> bytes:
    """Write the numbers of a workbook as texts that Excel shows, and resolve escapes.

    The escapes are those of ECMA-376 part 1, 22.9.2.19. If a cell shows fewer digits of a number
    than it has, all digits follow after `ALL_DIGITS`. Damaged parts stay as they are.
    """
    changed: dict[str, bytes] = {}
    try:
        package = open_package(content)
        styles = _read_xml(package, _STYLES)
        writer = _CellWriter(
            _read_codes(styles),
            _read_strings(package),
            symbols=find_symbol_styles(styles),
            from_1904=_counts_from_1904(package),
        )
        for name in package.namelist():
            is_sheet = SHEET.fullmatch(name)
            has_cells = is_sheet or _STRINGS.fullmatch(name)
            if not has_cells and not _ESCAPED_PARTS.fullmatch(name):
                continue
            with suppress(*DAMAGED):
                part = package.read(name)
                written = part
                if has_cells:
                    written = _join_lines(part)
                if b"_x" in written:
                    written = _ESCAPES_IN_PART.sub(_unescape_part, written)
                written = show_runs(written)
                if is_sheet:
                    written = writer.rewrite(written)
                if written != part:
                    changed[name] = written
        if changed:
            return replace_parts(package, changed, without=_UNREAD)
        return content
    except (*DAMAGED, KeyError):
        return content


def _join_lines(part: bytes) -> bytes:
    """Replace line ends in a part of cells with blanks, since a cell is one line."""
    part = part.translate(_BLANKS)
    if b"&#" in part or b"_x00" in part:
        return _BREAKS.sub(b" ", part)
    return part


def unescape_characters(text: str) -> str:
    """Replace `_x000D_` in a text of an office file by the character of that number."""
    if "_x" in text:
        return _ESCAPES.sub(lambda match: _unescape(match[0]), text)
    return text


def split_rows(rows: Sequence[Sequence[str]]) -> Iterator[Sequence[str]]:
    """Yield the rows of a sheet.

    After a row with shortened numbers comes a row with all their digits, in the same columns.
    """
    for row in rows:
        if not any(ALL_DIGITS in cell for cell in row):
            yield row
            continue
        parts = [cell.partition(ALL_DIGITS) for cell in row]
        yield [text for text, _, _ in parts]
        yield [digits for _, _, digits in parts]


def show_cell(value: float, code: str, *, from_1904: bool = False) -> str:
    """Return what a cell shows of a number, and all digits after `ALL_DIGITS` if shortened."""
    digits = find_hidden_digits(value, code)
    text = show_number(value, code, from_1904=from_1904)
    return f"{text}{ALL_DIGITS}{digits}" if digits else text


class _CellWriter:
    """A writer of the numbers of a workbook's sheets, and of texts to which a format adds.

    `codes` are the number formats of its cell styles. `strings` is the XML of its texts.
    """

    def __init__(
        self,
        codes: Sequence[str],
        strings: Sequence[bytes],
        *,
        symbols: Mapping[int, str],
        from_1904: bool,
    ) -> None:
        self._codes = codes
        self._strings = strings
        self._symbols = symbols
        self._added: dict[int, tuple[str, str]] = {}
        for style, code in enumerate(codes):
            if added := find_added_text(code):
                self._added[style] = added
        self._from_1904 = from_1904
        self._show = lru_cache(_KNOWN)(self._write)

    def rewrite(self, sheet: bytes) -> bytes:
        """Return the XML of a sheet with its numbers as texts."""
        if self._symbols or self._added:
            sheet = _INLINE_CELL.sub(self._show_inline, sheet)
        if self._added:
            sheet = _FORMULA_TEXT.sub(self._add_to_formula, sheet)
        sheet = _CELL.sub(self._replace, sheet)
        if (self._added or self._symbols) and self._strings:
            return _TEXT_CELL.sub(self._add_to_text, sheet)
        return sheet

    def _show_inline(self, match: re.Match[bytes]) -> bytes:
        style = _read_style(match[1], 0)
        added = self._added.get(style)
        font = self._symbols.get(style)
        text = match[2]
        if font is not None:
            text = show_text(text, font)
        if added is not None:
            before, after = map(_write_text_run, added)
            text = b"%b<r>%b</r>%b" % (before, text, after)
        return b"<c%b><is>%b" % (match[1], text)

    def _add_to_formula(self, match: re.Match[bytes]) -> bytes:
        added = self._added.get(_read_style(match[2], 0))
        if added is None or not match[3]:
            return match[0]
        before, after = added
        return b"%b%b%b%b" % (match[1], escape(before).encode(), match[3], escape(after).encode())

    def _add_to_text(self, match: re.Match[bytes]) -> bytes:
        attributes, digits = match.groups()
        number = int(digits)
        style = _read_style(attributes, 0)
        added = self._added.get(style)
        font = self._symbols.get(style)
        if (added is None and font is None) or number >= len(self._strings):
            return match[0]
        text = self._strings[number]
        if font is not None and b"<r>" not in text:
            text = show_text(text, font)
        runs = text if b"<r>" in text else b"<r>%b</r>" % text
        before, after = map(_write_text_run, added or ("", ""))
        kept = _TEXT_TYPE.sub(b"", attributes)
        return b'<c%b t="inlineStr"><is>%b%b%b</is>' % (kept, before, runs, after)

    def _replace(self, match: re.Match[bytes]) -> bytes:
        prefix, attributes, raw = match.groups()
        style = _STYLE.search(attributes)
        text = self._show(raw, int(style[1]) if style else 0)
        if text is None:
            return match[0]
        if b"t" in attributes:
            attributes = _TYPE.sub(b"", attributes)
        content = b"<%bis><%bt>%b</%bt></%bis>" % (prefix, prefix, text, prefix, prefix)
        return b'<%bc%b t="inlineStr">%b' % (prefix, attributes, content)

    def _write(self, raw: bytes, style: int) -> bytes | None:
        """Return the text of a number, None if it is shown as it stands or is not a number."""
        code = GENERAL
        if style < len(self._codes):
            code = self._codes[style]
        if code == GENERAL and _AS_IT_STANDS.fullmatch(raw):
            return None
        try:
            return escape(show_cell(float(raw), code, from_1904=self._from_1904)).encode()
        except (ValueError, ArithmeticError):
            return None


def _read_style(attributes: bytes, default: int) -> int:
    """Return the number of a cell's style, `default` if its attributes name none."""
    style = _STYLE.search(attributes)
    if style:
        return int(style[1])
    return default


def _write_text_run(text: str) -> bytes:
    return b'<r><t xml:space="preserve">%b</t></r>' % escape(text).encode()


def _read_codes(root: Any) -> list[str]:
    """Return the code of each cell style's number format, by number of the style.

    `root` is that of styles.xml.
    """
    if root is None:
        return []
    codes = {
        format.get("numFmtId"): format.get("formatCode")
        for format in root.iterfind("{*}numFmts/{*}numFmt")
    }
    chosen: list[str] = []
    for style in root.iterfind("{*}cellXfs/{*}xf"):
        format_id = style.get("numFmtId") or "0"
        number = 0
        if format_id.isdecimal():
            number = int(format_id)
        chosen.append(choose_code(number, codes.get(format_id)))
    return chosen


def _read_strings(package: ZipFile) -> list[bytes]:
    """Return the XML of each text that cells share, by its number."""
    part = next(filter(_STRINGS.fullmatch, package.namelist()), "")
    if not part:
        return []
    with suppress(*DAMAGED):
        strings = _join_lines(package.read(part))
        strings = show_runs(_ESCAPES_IN_PART.sub(_unescape_part, strings))
        return [match[1] or b"" for match in _STRING.finditer(strings)]
    return []


def _counts_from_1904(package: ZipFile) -> bool:
    root = _read_xml(package, _BOOK)
    if root is None:
        return False
    settings = root.find("{*}workbookPr")
    return settings is not None and settings.get("date1904") in ("1", "true")


def _read_xml(package: ZipFile, name: re.Pattern[str]) -> Any:
    """Return the root of the first part with such a name, None if missing or damaged."""
    from lxml import etree

    part = next(filter(name.fullmatch, package.namelist()), "")
    if not part:
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=True)
    with suppress(*DAMAGED, etree.XMLSyntaxError):
        return etree.fromstring(package.read(part), parser)
    return None


def _unescape_part(match: re.Match[bytes]) -> bytes:
    return escape(_unescape(match[0].decode())).encode()


def _unescape(escapes: str) -> str:
    """Return the characters of some escapes.

    A lone surrogate and invisible characters become blanks.
    """
    units = bytes.fromhex("".join(escapes[at + 2 : at + 6] for at in range(0, len(escapes), 7)))
    return _INVISIBLE.sub(" ", units.decode("utf-16-be", "replace").replace("\ufffd", " "))
