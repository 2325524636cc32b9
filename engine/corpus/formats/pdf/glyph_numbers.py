"""Fonts that do not say which letters they show, or say it wrongly.

PDFium gives the numbers that the letters have in their font: `5HFKQXQJ`, or control characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import cast
from typing import Any

from engine.corpus.formats.pdf.calls import TextPage
from engine.corpus.formats.pdf.page_text import PageText

# TrueType fonts number their glyphs in the order of Macintosh's code page, from the blank on: first
# ASCII, then, after a gap of one code, the rest (source: Apple's TrueType reference, table `post`).
_BLANK = "\x03"
_LAST_OF_ASCII = 97
_LAST_GLYPH = 225
_LETTERS = {
    number: bytes([number + (29 if number <= _LAST_OF_ASCII else 30)]).decode("mac_roman")
    for number in range(ord(_BLANK), _LAST_GLYPH + 1)
}
# A font that numbers its letters so shows at least this share of blanks, and so many letters.
_MIN_BLANKS = 0.04
_MIN_LETTERS = 20
_MIN_BLANKS_OF_PAGE = 3
# Ligatures in the encodings of TeX's own fonts, OT1 and T1. They stand next to a Latin letter.
_LIGATURES = {
    "\x0b": "ff",
    "\x0c": "fi",
    "\x0e": "ffi",
    "\x0f": "ffl",
    "\x1b": "ff",
    "\x1c": "fi",
    "\x1d": "fl",
    "\x1e": "ffi",
    "\x1f": "ffl",
}
_LIGATURE = re.compile(
    r"(?<=[A-Za-z\xc0-\u024f])[\x0b\x0c\x0e\x0f\x1b-\x1f]"
    r"|[\x0b\x0c\x0e\x0f\x1b-\x1f](?=[a-z\xe0-\u024f])"
)
# What many fonts call each of their hyphens.
_SOFT_HYPHEN = "\u00ad"
# Old fonts of Adobe have other figures and small capitals in Unicode's private area: the figures
# from U+F730 on, the capitals at the places of the small letters of Latin-1.
_PRIVATE = re.compile("[\uf730-\uf739\uf761-\uf77a\uf7e0-\uf7fe]")
_CONTROL = re.compile(r"[\x01\x03-\x08\x0b\x0c\x0e-\x1f]")
# All of these; one class is searched many times faster than several patterns.
_MAY_NEED_DECODING = re.compile(f"[{_SOFT_HYPHEN}{_CONTROL.pattern[1:-1]}{_PRIVATE.pattern[1:-1]}]")
# The largest share of control characters in a text that says something.
_MAX_CONTROLS = 0.2


def may_need_decoding(plain: str) -> bool:
    """Return whether a page has characters that stand for others, as few pages do."""
    return _MAY_NEED_DECODING.search(plain) is not None


def decode_letters(page: Any, plain: str) -> str:
    """Return the text `plain` of a text page of pypdfium2 with letters in place of their numbers.

    It is as long as before. Numbers whose letters cannot be told stay; see `is_garbled`.
    """
    has_numbers = plain.count(_BLANK) >= _MIN_BLANKS_OF_PAGE
    if not has_numbers and _SOFT_HYPHEN not in plain:
        return plain
    text_page = TextPage(page)
    count = page.count_chars()
    letters = PageText(text_page, plain, count, (), quarters=0).letters
    if not letters:
        return plain
    if has_numbers:
        letters = _decode_numbers(text_page, letters)
    for index, letter in enumerate(letters):
        if letter == _SOFT_HYPHEN:
            left, _, right, _ = text_page.read_box(index)
            # Within a line, only a hyphen that nobody sees is a soft one.
            if left < right:
                letters[index] = "-"
    return "".join(letters)


def decode_controls(text: str) -> str:
    """Return a text with the blanks and ligatures that control characters of fonts stand for.

    So do Adobe's private characters for figures and small capitals.
    """
    text = _PRIVATE.sub(lambda match: chr(ord(match[0]) - 0xF700).upper(), text)
    return _LIGATURE.sub(lambda match: _LIGATURES[match[0]], text.replace(_BLANK, " "))


def is_garbled(plain: str) -> bool:
    """Return whether so many characters are numbers of letters that the text says nothing."""
    controls = len(_CONTROL.findall(plain))
    return controls > _MAX_CONTROLS * len("".join(plain.split()))


def _decode_numbers(page: TextPage, letters: Sequence[str]) -> list[str]:
    """Return the letters of a page with those of fonts that number them as TrueType does."""
    fonts = list(_find_fonts(page, len(letters)))
    shown = Counter(fonts)
    blanks = Counter(font for letter, font in zip(letters, fonts, strict=True) if letter == _BLANK)
    numbering = {
        font
        for font, number in blanks.items()
        if shown[font] >= _MIN_LETTERS and number >= _MIN_BLANKS * shown[font]
    }
    decoded: list[str] = []
    for letter, font in zip(letters, fonts, strict=True):
        decoded.append(letter.translate(_LETTERS) if font in numbering else letter)
    return decoded


def _find_fonts(page: TextPage, count: int) -> Iterator[int]:
    """Yield a number for the font of each of the first `count` letters, 0 for those PDFium adds."""
    from pypdfium2 import raw

    fonts: dict[int, int] = {0: 0}
    for index in range(count):
        text_object = page.find_object(index) or 0
        if text_object not in fonts:
            font = raw.FPDFTextObj_GetFont(cast(text_object, raw.FPDF_PAGEOBJECT))
            fonts[text_object] = cast(font, raw.c_void_p).value or 0
        yield fonts[text_object]
