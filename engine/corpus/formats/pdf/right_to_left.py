"""Lines of a PDF page that run from right to left, in the order in which they are read.

PDFium reverses them character by character. The letters of a glyph for several letters, such as lam
and alef, and codes such as `PHX-121` thus come out in the wrong order; the places of the characters
on the page give the right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ctypes import byref
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

_LETTER = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


@dataclass(frozen=True, slots=True)
class _Sign:
    """A character with its place in points."""

    char: str
    left: float
    right: float
    bottom: float
    top: float

    @property
    def is_turned(self) -> bool:
        return _LETTER.match(self.char) is not None


def runs_right_to_left(text: str) -> bool:
    """Tell whether a text has letters of a script that runs from right to left."""
    return not text.isascii() and _LETTER.search(text) is not None


def read_in_order(page: Any) -> str:
    """Return the text of a text page of pypdfium2 in reading order.

    Lines without such letters stay as PDFium gives them.
    """
    lines: list[str] = []
    for is_end, line in groupby(_read_visible_signs(page), lambda sign: sign.char in "\r\n"):
        if not is_end:
            lines.append("".join(sign.char for sign in _order_line(list(line))))
    return "\n".join(lines)


def _read_visible_signs(page: Any) -> Iterator[_Sign]:
    """Yield the characters of a page.

    Those beyond its edges, and those of which PDFium gives two halves, are left out.
    """
    left, bottom, right, top = page.page.get_bbox()
    for sign in _read_signs(page):
        is_outside_width = sign.right < left or sign.left > right
        is_outside_height = sign.top < bottom or sign.bottom > top
        if sign.left < sign.right and (is_outside_width or is_outside_height):
            continue
        if not "\ud800" <= sign.char <= "\udfff":
            yield sign


def _read_signs(page: Any) -> Iterator[_Sign]:
    from pypdfium2 import raw

    for index in range(raw.FPDFText_CountChars(page)):
        place = raw.FS_RECTF()
        # The box is as high as the font, so that a dash overlaps with its neighbours.
        raw.FPDFText_GetLooseCharBox(page, index, byref(place))
        char = chr(raw.FPDFText_GetUnicode(page, index))
        yield _Sign(char, place.left, place.right, place.bottom, place.top)


def _order_line(line: list[_Sign]) -> Iterator[_Sign]:
    if not any(sign.is_turned for sign in line):
        yield from line
        return
    kinds = groupby(line, lambda sign: (sign.is_turned, sign.char.isspace()))
    for (is_turned, is_blank), run in kinds:
        signs = list(run)
        if is_turned:
            yield from _order_word(signs)
        elif not is_blank and max(sign.bottom for sign in signs) < min(sign.top for sign in signs):
            # Signs on one line stand in the order of their places.
            yield from sorted(signs, key=attrgetter("left"))
        else:
            yield from signs


def _order_word(word: list[_Sign]) -> Iterator[_Sign]:
    """Yield the letters of a word that runs from right to left."""
    places = groupby(word, attrgetter("left", "right", "bottom", "top"))
    glyphs = [list(letters) for _place, letters in places]
    if glyphs[0][0].left < glyphs[-1][0].left:
        # The file draws the word from left to right, and PDFium has left it so.
        glyphs.reverse()
    else:
        for letters in glyphs:
            letters.reverse()
    yield from chain.from_iterable(glyphs)
