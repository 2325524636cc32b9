"""Cells of Excel workbooks as their runs show them: letters of symbol fonts, and superscripts.

A run is a piece of a text with a format of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from html import unescape
from typing import Any
from xml.sax.saxutils import escape

from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import FONT_NAMES, find_symbol_font, show_symbols

_RAISED = re.compile(rb"<vertAlign\s+val=[\"']superscript")
# A symbol font or a superscript anywhere in a part.
_MAY_CHANGE = re.compile(rb"<rFont\s[^>]*(?:%b)|%b" % (FONT_NAMES, _RAISED.pattern))
# `<rPr><vertAlign val="superscript"/></rPr><t>2</t>`
_FORMATTED_RUN = re.compile(rb"<rPr>(?:(?!</rPr>).)*</rPr>\s*<t\b[^>]*>[^<]*</t>", re.DOTALL)
_FONT = re.compile(rb"<rFont\s[^>]*\bval=\"([^\"]*)\"")
_TEXT = re.compile(rb"(<t\b[^>]*>)([^<]*)(?=</t>)")
# The text of the run before a run.
_TEXT_BEFORE = re.compile(rb"([^<>]*)</t>\s*</r>\s*<r\b[^>]*>\s*$")
_MAX_BEFORE = 300  # bytes before a run in which the text before it is looked for


def show_runs(part: bytes) -> bytes:
    """Return the XML of a part with the characters that raised runs and symbol fonts show."""
    if _MAY_CHANGE.search(part):
        return _FORMATTED_RUN.sub(_show_run, part)
    return part


def show_text(text: bytes, font: str) -> bytes:
    """Return the XML of a text with the characters that its letters show in a symbol font."""
    return _replace_texts(text, partial(show_symbols, font))


def _replace_texts(xml: bytes, convert: Callable[[str], str]) -> bytes:
    """Convert the texts in the `<t>` elements of a piece of XML."""

    def replace(match: re.Match[bytes]) -> bytes:
        return match[1] + escape(convert(_decode(match[2]))).encode()

    return _TEXT.sub(replace, xml)


def _decode(xml: bytes) -> str:
    """Return the text between two tags."""
    return unescape(xml.decode("utf-8", "replace"))


def find_symbol_styles(styles: Any) -> dict[int, str]:
    """Return the symbol font of each cell style that has one, by number of the style.

    `styles` is the root of styles.xml, None if it is missing.
    """
    if styles is None:
        return {}
    fonts: list[str] = []
    for font in styles.iterfind("{*}fonts/{*}font"):
        name = font.find("{*}name")
        fonts.append("" if name is None else find_symbol_font(str(name.get("val") or "")))
    if not any(fonts):
        return {}
    symbol_styles = {}
    for number, style in enumerate(styles.iterfind("{*}cellXfs/{*}xf")):
        font_id = str(style.get("fontId") or "")
        if font_id.isdecimal() and int(font_id) < len(fonts):
            symbol_font = fonts[int(font_id)]
            if symbol_font:
                symbol_styles[number] = symbol_font
    return symbol_styles


def _show_run(match: re.Match[bytes]) -> bytes:
    """Return the XML of a run, in place of a match of `_FORMATTED_RUN`."""
    name = _FONT.search(match[0])
    font = ""
    if name:
        font = find_symbol_font(name[1].decode("utf-8", "replace"))
    if font:
        return show_text(match[0], font)
    if not _RAISED.search(match[0]):
        return match[0]
    start = match.start()
    before = _TEXT_BEFORE.search(
        match.string,
        max(0, start - _MAX_BEFORE),
        start,
    )
    text_before = _decode(before[1]) if before else ""
    return _replace_texts(match[0], partial(write_superscript, before=text_before))
