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
    return _RUN.sub(_show_run, part) if _MAY_HAVE_SYMBOLS.search(part) else part


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
    names = [one.find("{*}name") for one in styles.iterfind("{*}fonts/{*}font")]
    fonts = [
        find_symbol_font(str(name.get("val") or "")) if name is not None else "" for name in names
    ]
    if not any(fonts):
        return {}
    found: dict[int, str] = {}
    for number, style in enumerate(styles.iterfind("{*}cellXfs/{*}xf")):
        font = str(style.get("fontId") or "")
        if font.isdecimal() and int(font) < len(fonts) and fonts[int(font)]:
            found[number] = fonts[int(font)]
    return found


def _show_run(match: re.Match[bytes]) -> bytes:
    name = _FONT.search(match[0])
    font = find_symbol_font(name[1].decode("utf-8", "replace")) if name else ""
    return show_text(match[0], font) if font else match[0]
