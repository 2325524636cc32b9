"""Lines of a PDF page that run from right to left, in the order in which they are read.

PDFium reverses them character by character. The letters of a glyph for several letters, such as lam
and alef, and codes such as `PHX-121` thus come out in the wrong order; the places of the characters
on the page give the right one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from ctypes import byref
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

_LETTER = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
# Classes of the Unicode bidirectional algorithm (UAX 9). Digits run from left to right.
_LETTERS = ("R", "AL")
_DIGITS = ("AN", "EN")
_SEPARATOR = "CS"
_MARK = "NSM"


@dataclass(frozen=True, slots=True)
class _Sign:
    """A character with its place in points."""

    char: str
    left: float
    right: float
    bottom: float
    top: float

    @property
    def is_of_script(self) -> bool:
        return _LETTER.match(self.char) is not None

    @property
    def bidi_class(self) -> str:
        return unicodedata.bidirectional(self.char)


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
    turned = _find_turned(line)
    if not any(turned):
        yield from line
        return
    kinds = groupby(zip(line, turned, strict=True), lambda pair: (pair[1], pair[0].char.isspace()))
    for (is_turned, is_blank), run in kinds:
        signs = [sign for sign, _is_turned in run]
        if is_turned:
            yield from _order_word(signs)
        elif not is_blank and max(sign.bottom for sign in signs) < min(sign.top for sign in signs):
            # Signs on one line stand in the order of their places.
            yield from sorted(signs, key=attrgetter("left"))
        else:
            yield from signs


def _find_turned(line: Sequence[_Sign]) -> list[bool]:
    """Tell for each character whether it is in a word with letters that run right to left."""
    turned: list[bool] = []
    for is_of_script, run in groupby(line, attrgetter("is_of_script")):
        signs = list(run)
        is_word = is_of_script and any(sign.bidi_class in _LETTERS for sign in signs)
        turned += [is_word] * len(signs)
    return turned


def _order_word(word: list[_Sign]) -> Iterator[_Sign]:
    """Yield the characters of a word that runs from right to left; numbers in it do not."""
    blocks = _find_blocks(word)
    # The places of marks above and below letters do not show the direction.
    lefts = [block[0].left for block in blocks if not _is_mark(block)]
    if lefts[0] < lefts[-1]:
        # The file draws the word from left to right, and PDFium has left it so.
        blocks.reverse()
    else:
        for block in blocks:
            if not _is_number(block):
                block.reverse()
    if _is_mark(blocks[0]):
        blocks = _put_marks_behind_letters(blocks)
    yield from chain.from_iterable(blocks)


def _find_blocks(word: list[_Sign]) -> list[list[_Sign]]:
    """Split a word into glyphs and whole numbers. A glyph may show several letters."""
    blocks: list[list[_Sign]] = []
    for is_number, run in groupby(zip(word, _find_digits(word), strict=True), lambda pair: pair[1]):
        signs = [sign for sign, _is_digit in run]
        if is_number:
            blocks.append(sorted(signs, key=attrgetter("left")))
            continue
        places = groupby(signs, attrgetter("left", "right", "bottom", "top"))
        blocks += [list(letters) for _place, letters in places]
    return blocks


def _find_digits(word: Sequence[_Sign]) -> list[bool]:
    """Tell for each character whether it is a digit, or a separator between two digits."""
    classes = [sign.bidi_class for sign in word]
    digits = [bidi_class in _DIGITS for bidi_class in classes]
    for at in range(1, len(word) - 1):
        if classes[at] == _SEPARATOR:
            digits[at] = classes[at - 1] in _DIGITS and classes[at + 1] in _DIGITS
    return digits


def _is_number(block: Sequence[_Sign]) -> bool:
    return block[0].bidi_class in _DIGITS


def _is_mark(block: Sequence[_Sign]) -> bool:
    return all(sign.bidi_class == _MARK for sign in block)


def _put_marks_behind_letters(blocks: Sequence[list[_Sign]]) -> list[list[_Sign]]:
    """Return the blocks of a word in reading order; each mark stands before its letter in it."""
    ordered: list[list[_Sign]] = []
    marks: list[list[_Sign]] = []
    for block in blocks:
        if _is_mark(block):
            marks.append(block)
            continue
        ordered.append(block)
        ordered += marks
        marks = []
    return ordered + marks
