"""What the letters of symbol fonts show: `W` in Symbol is Ω, and U+F0FE in Wingdings ☑.

The table is assets/fonts/symbols.tsv.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from engine.core.assets import asset_path

PRIVATE = 0xF000
"""Where Windows puts the letters of symbol fonts: U+F000 plus the code of the letter."""
PRIVATE_LETTER = re.compile("[\uf000-\uf0ff]")
FONT_NAMES = rb"Symbol|Dings|dings|DINGS|Dingbats|Monotype Sorts|MT Extra|Marlett"
"""A pattern that occurs in the names of symbol fonts, as files write them."""
_SAME_AS = {
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
_WITHOUT_TABLE = frozenset({"mtextra", "marlett", "bookshelfsymbol7"})
_NO_CHARACTER = "-"


def find_symbol_font(name: str) -> str:
    """Return the table's name of a symbol font, empty for a font of letters.

    A font of symbols that the table lacks keeps its own name, and none of its letters is shown.
    """
    plain = re.sub(r"[\s_-]", "", name.strip("'\" ").casefold())
    plain = plain.removeprefix("itc").removesuffix("regular")
    if plain in _WITHOUT_TABLE:
        return plain
    if plain not in _SAME_AS:
        plain = plain.removesuffix("mt").removesuffix("ps")
    return _SAME_AS.get(plain, "")


def show_symbols(font: str, text: str) -> str:
    """Return a text as a symbol font shows it, without what the font's table lacks.

    `font` is as returned by `find_symbol_font`. Characters beyond the 256 of such a font stay,
    since another font shows them.
    """
    table = _read_tables().get(font, {})
    return "".join(_show_symbol(table, char) for char in text)


def remove_private_letters(text: str) -> str:
    """Return a text without letters of an unknown symbol font."""
    if text.isascii():
        return text
    return PRIVATE_LETTER.sub("", text)


def _show_symbol(table: Mapping[int, str], char: str) -> str:
    code = ord(char)
    if PRIVATE <= code < PRIVATE + 0x100:
        code -= PRIVATE
    if code > 0xFF:
        return char
    if chr(code).isspace() and code == ord(char):
        return char
    return table.get(code, "")


@cache
def _read_tables() -> Mapping[str, Mapping[int, str]]:
    """Return the character of each code by font."""
    tables: dict[str, dict[int, str]] = {}
    for line in asset_path("fonts/symbols.tsv").read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        font, half, characters = line.split("\t")
        table = tables.setdefault(font, {0x20: " "})
        for at, char in enumerate(characters.split(" ")):
            if char != _NO_CHARACTER:
                table[int(half, 16) * 16 + at] = char
    return tables
