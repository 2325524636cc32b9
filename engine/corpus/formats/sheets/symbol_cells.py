"""Cells of Excel workbooks as their runs show them: letters of symbol fonts, and superscripts."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from xml.sax.saxutils import escape

from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import FONT_NAMES, find_symbol_font, show_symbols

_RAISED = re.compile(rb"<vertAlign\s+val=[\"']superscript")
_MAY_CHANGE = re.compile(rb"<rFont\s[^>]*(?:%b)|%b" % (FONT_NAMES, _RAISED.pattern))
_RUN = re.compile(rb"<rPr>(?:(?!</rPr>).)*</rPr>\s*<t\b[^>]*>[^<]*</t>", re.DOTALL)
_FONT = re.compile(rb"<rFont\s[^>]*\bval=\"([^\"]*)\"")
_TEXT = re.compile(rb"(<t\b[^>]*>)([^<]*)(?=</t>)")
_TEXT_BEFORE = re.compile(rb"([^<>]*)</t>\s*</r>\s*<r\b[^>]*>\s*$")
_MAX_BEFORE = 300  # bytes


def show_runs(part: bytes) -> bytes:
    """Write what runs in symbol fonts or raised runs show into a part with texts of cells."""
    if _MAY_CHANGE.search(part):
        return _RUN.sub(_show_run, part)
    return part


def show_text(text: bytes, font: str) -> bytes:
    """Return the XML of the text of a run, as its symbol font shows it."""

    def show(match: re.Match[bytes]) -> bytes:
        letters = unescape(match[2].decode("utf-8", "replace"))
        return match[1] + escape(show_symbols(font, letters)).encode()

    return _TEXT.sub(show, text)


def find_symbol_styles(styles: Any) -> dict[int, str]:
    """Return the symbol font of each cell style that has one, by number of the style.

    `styles` is the root of styles.xml.
    """
    if styles is None:
        return {}
    fonts: list[str] = []
    for font in styles.iterfind("{*}fonts/{*}font"):
        name = font.find("{*}name")
        fonts.append("" if name is None else find_symbol_font(str(name.get("val") or "")))
    if not any(fonts):
        return {}
    symbol_styles: dict[int, str] = {}
    for number, style in enumerate(styles.iterfind("{*}cellXfs/{*}xf")):
        font_id = str(style.get("fontId") or "")
        if font_id.isdecimal() and int(font_id) < len(fonts) and fonts[int(font_id)]:
            symbol_styles[number] = fonts[int(font_id)]
    return symbol_styles


def _show_run(match: re.Match[bytes]) -> bytes:
    name = _FONT.search(match[0])
    font = ""
    if name:
        font = find_symbol_font(name[1].decode("utf-8", "replace"))
    if font:
        return show_text(match[0], font)
    if not _RAISED.search(match[0]):
        return match[0]
    start = match.start()
    before = _TEXT_BEFORE.search(match.string, max(0, start - _MAX_BEFORE), start)
    text_before = ""
    if before:
        text_before = unescape(before[1].decode("utf-8", "replace"))

    def raise_text(text: re.Match[bytes]) -> bytes:
        letters = unescape(text[2].decode("utf-8", "replace"))
        return text[1] + escape(write_superscript(letters, text_before)).encode()

    return _TEXT.sub(raise_text, match[0])
