"""Lines of a PDF page that run from right to left, in the order in which they are read.

PDFium reverses them character by character. The letters of a glyph for several letters, such as lam
and alef, and codes such as `PHX-121` thus come out in the wrong order; the places of the characters
on the page give the right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ctypes import byref
from dataclasses import dataclass
from itertools import groupby
from typing import Any

_LETTER = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)


@dataclass(frozen=True, slots=True)
class _Sign:
    """A character with its place: left, right, bottom, top in points."""

    char: str
    place: tuple[float, float, float, float]

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
    lines = (
        "".join(sign.char for sign in _order_line(line))
        for line in _split_lines(list(_read_visible_signs(page)))
    )
    return "\n".join(lines)


def _read_visible_signs(page: Any) -> Iterator[_Sign]:
    """Yield the characters of a page.

    Those beyond its edges, and those of which PDFium gives two halves, are left out.
    """
    left, bottom, right, top = page.page.get_bbox()
    for sign in _read_signs(page):
        begins, ends, foot, head = sign.place
        beyond = begins < ends and (ends < left or begins > right or head < bottom or foot > top)
        if not beyond and not "\ud800" <= sign.char <= "\udfff":
            yield sign


def _read_signs(page: Any) -> Iterator[_Sign]:
    from pypdfium2 import raw

    for index in range(raw.FPDFText_CountChars(page)):
        place = raw.FS_RECTF()
        # The box is as high as the font, so that a dash overlaps with its neighbours.
        raw.FPDFText_GetLooseCharBox(page, index, byref(place))
        yield _Sign(
            chr(raw.FPDFText_GetUnicode(page, index)),
            (place.left, place.right, place.bottom, place.top),
        )


def _split_lines(signs: Sequence[_Sign]) -> Iterator[list[_Sign]]:
    for is_end, line in groupby(signs, key=lambda sign: sign.char in "\r\n"):
        if not is_end:
            yield list(line)


def _order_line(line: list[_Sign]) -> Iterator[_Sign]:
    if not any(sign.is_turned for sign in line):
        yield from line
        return
    for is_turned, run in groupby(line, key=lambda sign: (sign.is_turned, sign.char.isspace())):
        signs = list(run)
        if is_turned[0]:
            for _place, of_glyph in groupby(signs, key=lambda sign: sign.place):
                yield from reversed(list(of_glyph))
        elif not is_turned[1] and _stand_on_one_line(signs):
            yield from sorted(signs, key=lambda sign: sign.place[0])
        else:
            yield from signs


def _stand_on_one_line(signs: Sequence[_Sign]) -> bool:
    return max(sign.place[2] for sign in signs) < min(sign.place[3] for sign in signs)
