"""What the letters of symbol fonts show: `W` in Symbol is Ω, and U+F0FE in Wingdings ☑.

The table is assets/fonts/symbols.tsv.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from engine.core.assets import asset_path

_PRIVATE = 0xF000
"""Where Windows puts the letters of symbol fonts: U+F000 plus the code of the letter."""
PRIVATE_LETTER = re.compile("[\uf000-\uf0ff]")
FONT_NAMES = rb"Symbol|Dings|dings|DINGS|Dingbats|Monotype Sorts|MT Extra|Marlett"
"""A pattern that occurs in the names of symbol fonts, as files write them."""
_TABLES_BY_FONT = {
    "symbol": "Symbol",
    "symbolneu": "Symbol",
    "standardsymbolsl": "Symbol",
    "standardsymbolsps": "Symbol",
    "wingdings": "Wingdings",
    "wingdings2": "Wingdings 2",
    "wingdings3": "Wingdings 3",
    "webdings": "Webdings",
    "zapfdingbats": "ZapfDingbats",
    "monotypesorts": "ZapfDingbats",
    "dingbats": "ZapfDingbats",
    "d050000l": "ZapfDingbats",
}
_FONTS_WITHOUT_TABLE = frozenset({"mtextra", "marlett", "bookshelfsymbol7"})
_NO_CHARACTER = "-"
"""Stands for a code that shows nothing in assets/fonts/symbols.tsv."""


def find_symbol_font(name: str) -> str:
    """Return the name of a symbol font's table, empty for a font of letters.

    A symbol font without a table gets its own name, so that none of its letters is shown.
    """
    font = re.sub(
        r"[\s_-]",
        "",
        name.strip("'\" ").casefold(),
    )
    font = font.removeprefix("itc").removesuffix("regular")
    if font in _FONTS_WITHOUT_TABLE:
        return font
    if font not in _TABLES_BY_FONT:
        # PostScript names end so, as in SymbolMT and SymbolPS.
        font = font.removesuffix("mt").removesuffix("ps")
    return _TABLES_BY_FONT.get(font, "")


def show_symbols(font: str, text: str) -> str:
    """Return a text as a symbol font shows it, without the letters that the font's table lacks.

    `font` is as returned by `find_symbol_font`. Such a font has 256 letters; other characters stay,
    since programs show them in another font.
    """
    table = _read_tables().get(font, {})
    return "".join(_show_symbol(table, char) for char in text)


def remove_private_letters(text: str) -> str:
    """Return a text without letters of an unknown symbol font."""
    if text.isascii():
        return text
    return PRIVATE_LETTER.sub("", text)


def _show_symbol(table: Mapping[int, str], char: str) -> str:
    """Return what the font of a `table` shows for a letter, empty if the table lacks its code.

    The letter may be written as a private one. Other characters are returned unchanged.
    """
    code = ord(char)
    if _PRIVATE <= code < _PRIVATE + 0x100:
        code -= _PRIVATE
    elif code > 0xFF or char.isspace():
        return char
    return table.get(code, "")


@cache
def _read_tables() -> Mapping[str, Mapping[int, str]]:
    """Return the tables of all symbol fonts by name: code of a letter → the character it shows."""
    tables: dict[str, dict[int, str]] = {}
    for line in asset_path("fonts/symbols.tsv").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        # A line: the font, the higher hexadecimal digit of 16 codes, and their characters.
        font, high_digit, characters = line.split("\t")
        table = tables.setdefault(font, {0x20: " "})
        for code, char in enumerate(characters.split(" "), 16 * int(high_digit, 16)):
            if char != _NO_CHARACTER:
                table[code] = char
    return tables
