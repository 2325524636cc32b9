"""Cells of Excel workbooks in symbol fonts: the letters of their texts as these fonts show them."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from xml.sax.saxutils import escape

from engine.corpus.formats.runs.symbols import FONT_NAMES, find_symbol_font, show_symbols

_MAY_HAVE_SYMBOLS = re.compile(rb"<rFont\s[^>]*(?:%b)" % FONT_NAMES)
_RUN = re.compile(rb"<rPr>(?:(?!</rPr>).)*</rPr>\s*<t\b[^>]*>[^<]*</t>", re.DOTALL)
_FONT = re.compile(rb"<rFont\s[^>]*\bval=\"([^\"]*)\"")
_TEXT = re.compile(rb"(<t\b[^>]*>)([^<]*)(?=</t>)")


def show_symbol_runs(part: bytes) -> bytes:
    """Write what runs in symbol fonts show as text into a part with texts of cells."""
    if _MAY_HAVE_SYMBOLS.search(part):
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
    return match[0]
