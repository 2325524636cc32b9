"""Lines of a PDF page that run from right to left, in the order in which they are read.

PDFium reverses them character by character. Codes such as `PHX-121`, and the letters of a glyph
that shows several letters, such as lam and alef, thus come out in the wrong order. The places of
the characters on the page give the right one. In this module, a word is a run of characters of a
script that runs from right to left.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from ctypes import byref
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter, itemgetter
from typing import Any

_RIGHT_TO_LEFT = re.compile(
    "[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
# Classes of the Unicode bidirectional algorithm (UAX 9): letters that run from right to left,
# digits, which run from left to right, separators within a number, and marks on letters.
_LETTER_CLASSES = ("R", "AL")
_DIGIT_CLASSES = ("AN", "EN")
_SEPARATOR_CLASS = "CS"
_MARK_CLASS = "NSM"


@dataclass(frozen=True, slots=True)
class _PlacedChar:
    """A character with its place in points."""

    text: str
    left: float
    right: float
    bottom: float
    top: float

    @property
    def is_right_to_left(self) -> bool:
        """Whether it is a letter or a digit of a script that runs from right to left."""
        return _RIGHT_TO_LEFT.match(self.text) is not None

    @property
    def bidi_class(self) -> str:
        """Its class in the Unicode bidirectional algorithm."""
        return unicodedata.bidirectional(self.text)


def runs_right_to_left(text: str) -> bool:
    """Return whether a text has letters of a script that runs from right to left."""
    return not text.isascii() and _RIGHT_TO_LEFT.search(text) is not None


def read_in_order(text_page: Any) -> str:
    """Return the text of a text page of pypdfium2 in reading order.

    Lines without letters that run from right to left stay as PDFium gives them.
    """
    lines: list[str] = []
    chars = _read_visible_chars(text_page)
    for is_line_end, line in groupby(chars, lambda char: char.text in "\r\n"):
        if not is_line_end:
            lines.append("".join(char.text for char in _order_line(list(line))))
    return "\n".join(lines)


def _read_visible_chars(text_page: Any) -> Iterator[_PlacedChar]:
    """Yield the characters of a text page within the page, without halves of surrogate pairs.

    Line ends that PDFium adds have no width; they are kept wherever they are.
    """
    left, bottom, right, top = text_page.page.get_bbox()
    for char in _read_chars(text_page):
        is_outside_width = char.right < left or char.left > right
        is_outside_height = char.top < bottom or char.bottom > top
        if char.left < char.right and (is_outside_width or is_outside_height):
            continue
        if not "\ud800" <= char.text <= "\udfff":
            yield char


def _read_chars(text_page: Any) -> Iterator[_PlacedChar]:
    """Yield all characters of a text page of pypdfium2 in PDFium's order."""
    from pypdfium2 import raw

    for index in range(raw.FPDFText_CountChars(text_page)):
        place = raw.FS_RECTF()
        # The box is as high as the font, so that a dash overlaps with its neighbours.
        raw.FPDFText_GetLooseCharBox(
            text_page,
            index,
            byref(place),
        )
        text = chr(raw.FPDFText_GetUnicode(text_page, index))
        yield _PlacedChar(
            text,
            place.left,
            place.right,
            place.bottom,
            place.top,
        )


def _order_line(line: list[_PlacedChar]) -> Iterator[_PlacedChar]:
    """Yield the characters of a line, those of each word in the order in which they are read."""
    in_word = _find_word_chars(line)
    if not any(in_word):
        yield from line
        return
    is_blank = [char.text.isspace() for char in line]
    kinds = zip(
        in_word,
        is_blank,
        strict=True,
    )
    for (is_word, are_blank), run in groupby(zip(kinds, line, strict=True), itemgetter(0)):
        chars = [char for _, char in run]
        if is_word:
            yield from _order_word(chars)
        elif not are_blank and max(char.bottom for char in chars) < min(char.top for char in chars):
            # They overlap in height, so they stand on one line in the order of their places.
            yield from sorted(chars, key=attrgetter("left"))
        else:
            yield from chars


def _find_word_chars(line: Sequence[_PlacedChar]) -> list[bool]:
    """Tell for each character whether it is in a word with letters that run right to left."""
    in_word: list[bool] = []
    for is_right_to_left, run in groupby(line, attrgetter("is_right_to_left")):
        chars = list(run)
        is_word = is_right_to_left and any(char.bidi_class in _LETTER_CLASSES for char in chars)
        in_word += [is_word] * len(chars)
    return in_word


def _order_word(word: list[_PlacedChar]) -> Iterator[_PlacedChar]:
    """Yield the characters of a word that runs from right to left; numbers in it do not."""
    glyphs = _split_into_glyphs(word)
    # The places of marks above and below letters do not show the direction.
    lefts = [glyph[0].left for glyph in glyphs if not _is_mark(glyph)]
    if lefts[0] < lefts[-1]:
        # The file draws the word from left to right, and PDFium has left it so.
        glyphs.reverse()
    else:
        # PDFium has reversed the word, and with it the letters of each glyph.
        for glyph in glyphs:
            if not _is_number(glyph):
                glyph.reverse()
    if _is_mark(glyphs[0]):
        glyphs = _put_marks_behind_letters(glyphs)
    yield from chain.from_iterable(glyphs)


def _split_into_glyphs(word: list[_PlacedChar]) -> list[list[_PlacedChar]]:
    """Split a word into its glyphs, which may show several letters; a number counts as one."""
    glyphs = []
    in_number = _find_digits(word)
    for is_number, run in groupby(zip(in_number, word, strict=True), itemgetter(0)):
        chars = [char for _, char in run]
        if is_number:
            glyphs.append(sorted(chars, key=attrgetter("left")))
            continue
        # The letters of a glyph have the same place.
        places = groupby(chars, attrgetter("left", "right", "bottom", "top"))
        glyphs += [list(letters) for _, letters in places]
    return glyphs


def _find_digits(word: Sequence[_PlacedChar]) -> list[bool]:
    """Tell for each character whether it is a digit, or a separator between two digits."""
    classes = [char.bidi_class for char in word]
    digits = [bidi_class in _DIGIT_CLASSES for bidi_class in classes]
    for index in range(1, len(word) - 1):
        if classes[index] == _SEPARATOR_CLASS:
            digits[index] = (
                classes[index - 1] in _DIGIT_CLASSES and classes[index + 1] in _DIGIT_CLASSES
            )
    return digits


def _is_number(glyph: Sequence[_PlacedChar]) -> bool:
    """Return whether a glyph is a number, which begins with a digit."""
    return glyph[0].bidi_class in _DIGIT_CLASSES


def _is_mark(glyph: Sequence[_PlacedChar]) -> bool:
    """Return whether a glyph is a mark above or below a letter, such as a vowel sign."""
    return all(char.bidi_class == _MARK_CLASS for char in glyph)


def _put_marks_behind_letters(glyphs: Sequence[list[_PlacedChar]]) -> list[list[_PlacedChar]]:
    """Return the glyphs of a word with the marks that precede a letter behind it, as in Unicode."""
    ordered = []
    marks = []
    for glyph in glyphs:
        if _is_mark(glyph):
            marks.append(glyph)
            continue
        ordered.append(glyph)
        ordered += marks
        marks = []
    return ordered + marks
