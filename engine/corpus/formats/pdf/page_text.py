"""The letters of a PDF page by piece, and which of them are superscripts."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Sequence
from ctypes import byref, c_double, c_ushort
from functools import cached_property
from itertools import islice

from engine.corpus.formats.pdf.calls import TextPage
from engine.corpus.formats.pdf.layout import Piece, find_raised_pieces, turn_box
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.text.hyphens import LINE_END

# Lift of a superscript, as a share of the size of the letters beside it.
_MIN_RAISED = 0.15
# Maximum size of a superscript, as a share of the size of the letters beside it.
_MAX_SIZE = 0.92
# Maximum number of superscripts on a page.
_MAX_RAISED = 300
# Maximum number of letters after a piece that are examined.
_MAX_LOOKED_AT = 200
_MAX_WORDS = 8
# Number of letters of a piece, for each time that it is as wide as high.
_MIN_LETTERS = 0.7
_SAME_PLACE = 0.02  # points
# Number of letters that are compared at once.
_SAME_LETTERS = 16
_MAX_STEPS = 40  # letters
_WITHIN = 0.3  # points
_WORD_BEGIN = re.compile(r"(?<=\s)\S")
_MARK = re.compile(r"[^\W_]")
_HYPHEN_CODES = (0xFFFE, 0x2D, 0xAD, 0x2010)


class PageText:
    """The letters of a page by piece.

    The letters of a piece are found when they are first needed.
    """

    def __init__(self, page: TextPage, plain: str, letters: int, pieces: Sequence[Piece]) -> None:
        from pypdfium2 import raw

        self.turned = pieces
        self.quarters = 0
        self._raw = raw
        self._fast = page
        self._page = page.page.raw
        self.pieces = pieces
        self._plain = plain
        self._count = letters
        self._changed = False
        self._known: list[int] = []
        self._starts: dict[int, int] = {len(pieces): letters}

    @cached_property
    def _joined(self) -> str:
        """The letters by PDFium's index as a text, with a blank for those that it leaves out."""
        return "".join(letter or " " for letter in self.letters)

    @property
    def is_known(self) -> bool:
        """Whether the letters of each piece are known."""
        return bool(self.letters)

    @cached_property
    def letters(self) -> list[str]:
        """The letters by PDFium's index."""
        if len(self._plain) == self._count:
            return list(self._plain)
        buffer = (c_ushort * (self._count + 1))()
        written = self._raw.FPDFText_GetText(self._page, 0, self._count, buffer)
        if written == self._count + 1:
            return _align(buffer[: self._count], self._plain)
        codes = [self._raw.FPDFText_GetUnicode(self._page, index) for index in range(self._count)]
        return _align(codes, self._plain)

    def whole(self) -> str:
        """Return all letters in order."""
        if self._changed:
            return "".join(self.letters)
        return self._plain

    def raise_marks(self) -> None:
        """Write the superscripts of the page as characters."""
        for number in list(dict.fromkeys(find_raised_pieces(self.turned)))[:_MAX_RAISED]:
            if not self.is_known:
                return
            start = self.start(number)
            end = self.start(number + 1)
            raised = "".join(self.letters[start:end])
            core = raised.strip()
            beside = self._letter_beside(start, core)
            if not _MARK.search(core) or not self._is_raised(start, beside):
                continue
            before = "".join(self.letters[max(0, start - 20) : start])
            shown = write_superscript(core, before)
            if shown != core:
                if number + 1 < len(self.turned) and _follows(
                    self.turned[number], self.turned[number + 1]
                ):
                    raised = raised.rstrip("\r\n")
                self.letters[start:end] = [
                    raised.replace(core, shown, 1),
                    *[""] * (end - start - 1),
                ]
                self._changed = True
                if number and _follows(self.turned[number - 1], self.turned[number]):
                    self._drop_line_end(start)

    def _letter_beside(self, start: int, core: str) -> int:
        """Return the index of the letter before a piece that may be raised.

        If a blank precedes the piece, this is the index of the letter after it.
        """
        index = start - 1
        while index > 0 and self.letters[index] in ("\r", "\n", ""):
            index -= 1
        if index >= 0 and not self.letters[index].isspace():
            return index
        return start + len(core)

    def _drop_line_end(self, index: int) -> None:
        """Remove the line end that PDFium sees before a letter."""
        while index and self.letters[index - 1] in ("\r", "\n", ""):
            index -= 1
            self.letters[index] = ""

    def _is_raised(self, index: int, beside: int) -> bool:
        """Tell whether a letter is smaller and stands higher than a neighbouring letter."""
        size = self._raw.FPDFText_GetFontSize(self._page, beside)
        height = self._base_line(index) - self._base_line(beside)
        ratio = self._size(index) / max(0.01, self._size(beside))
        return _MIN_RAISED * size < height and ratio < _MAX_SIZE

    def _size(self, index: int) -> float:
        return float(self._raw.FPDFText_GetFontSize(self._page, index))

    def _base_line(self, index: int) -> float:
        x = c_double()
        y = c_double()
        self._raw.FPDFText_GetCharOrigin(self._page, index, byref(x), byref(y))
        _, height, _, _ = turn_box((x.value, y.value, x.value, y.value), self.quarters)
        return height

    def text(self, first: int, last: int) -> str:
        """Return the letters from one piece to another, with PDFium's blank after them, if any."""
        text = "".join(self.letters[self.start(first) : self.start(last + 1)])
        core = text.strip("\r\n")
        if core != core.rstrip():
            return core.rstrip() + " "
        return core

    def start(self, number: int) -> int:
        """Return the index of the first letter of a piece."""
        if number not in self._starts:
            self._starts[number] = self._find_start(number)
            insort(self._known, number)
        return self._starts[number]

    def _find_start(self, number: int) -> int:
        """Find the letter where a piece begins.

        Look after blanks, else ask PDFium, else count pieces.
        """
        piece = self.pieces[number]
        at = bisect_left(self._known, number)
        start = 0
        if at:
            before = self.pieces[self._known[at - 1]]
            letters = (
                _MIN_LETTERS * (before.right - before.left) / max(1.0, before.top - before.bottom)
            )
            start = self._starts[before.number] + int(letters)
        elif self._begins_at(0, piece):
            return 0
        for found in islice(
            _WORD_BEGIN.finditer(self._joined, start, start + _MAX_LOOKED_AT), _MAX_WORDS
        ):
            if self._begins_at(found.start(), piece):
                return found.start()
        if number - 1 in self._starts:
            index = self._find_end(self._starts[number - 1], start)
            if index and self._begins_at(index, piece):
                return index
        x, y = self._begin_of(piece)
        index = self._raw.FPDFText_GetCharIndexAtPos(self._page, x, y, _WITHIN, _WITHIN)
        count = self._fast.count_objects
        if index >= 0 and count(index) == number and count(index + 1) == number + 1:
            return int(index)
        low = 0
        high = self._count
        while low < high:
            middle = (low + high) // 2
            if count(middle) > number:
                high = middle
            else:
                low = middle + 1
        return max(0, low - 1)

    def _find_end(self, start: int, about: int) -> int:
        """Return the index of the first letter after a letter's text object, searched near `about`.

        0 if it is not near.
        """
        object_of = self._fast.object_of
        own = object_of(start)
        index = min(max(about, start + 1), self._count - 1)
        for _ in range(_MAX_STEPS):
            if object_of(index) != own:
                break
            index += 1
        while index > start + 1 and object_of(index - 1) != own:
            index -= 1
        while index < self._count and not object_of(index):
            # PDFium added a blank or a line end here.
            index += 1
        return index if index < self._count else 0

    def _begin_of(self, piece: Piece) -> tuple[float, float]:
        """Return a place within the first letter of a piece."""
        if self.quarters in (0, 2):
            height = (piece.bottom + piece.top) / 2
            return (piece.right - _WITHIN if self.quarters else piece.left + _WITHIN), height
        middle = (piece.left + piece.right) / 2
        return middle, (piece.bottom + _WITHIN if self.quarters == 1 else piece.top - _WITHIN)

    def _begins_at(self, index: int, piece: Piece) -> bool:
        """Tell whether a letter stands where a piece begins."""
        box = self._fast.box_of(index)
        # Left, bottom, right or top: where the text begins.
        side = self.quarters
        left, bottom, right, top = box
        return (
            abs(box[side] - piece[side + 1]) < _SAME_PLACE
            and left > piece.left - _SAME_PLACE
            and bottom > piece.bottom - _SAME_PLACE
            and top < piece.top + _SAME_PLACE
            and right < piece.right + _SAME_PLACE
        )


def _align(codes: Sequence[int], plain: str) -> list[str]:
    """Return the part of a text that stands for each of its codes.

    PDFium leaves some codes out: line ends before superscripts, and letters beyond the page. Both
    halves of a surrogate pair make one character.
    """
    written = "".join(map(chr, codes))
    letters: list[str] = []
    at = 0
    index = 0
    while index < len(codes):
        same = plain[at : at + _SAME_LETTERS]
        if same and written.startswith(same, index):
            letters += same
            at += len(same)
            index += len(same)
            continue
        code = codes[index]
        index += 1
        char = plain[at : at + 1]
        is_half = 0xD800 <= code < 0xDC00 and char > "\uffff"
        is_hyphen = char == LINE_END and code in _HYPHEN_CODES
        if char and (ord(char) == code or is_half or is_hyphen):
            letters.append(char)
            at += 1
        else:
            letters.append("")
    return letters if at == len(plain) else []


def _follows(before: Piece, piece: Piece) -> bool:
    """Tell whether a piece continues the line of the previous one, without a wide gap."""
    height = max(before.top - before.bottom, piece.top - piece.bottom)
    return (
        -0.2 * height < piece.left - before.right < height
        and piece.bottom < before.top
        and piece.top > before.bottom
    )
