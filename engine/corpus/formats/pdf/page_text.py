"""The letters of a PDF page by piece, and which of them are superscripts."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from ctypes import byref, c_double, c_ushort
from functools import cached_property
from itertools import islice, pairwise

from engine.corpus.formats.pdf.calls import TextPage
from engine.corpus.formats.pdf.layout import Piece, find_raised_pieces, turn_box
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.text.hyphens import LINE_END

# Lift of a superscript, as a share of the size of the adjacent letters.
_MIN_RAISED = 0.15
# Maximum size of a superscript, as a share of the size of the adjacent letters.
_MAX_SIZE = 0.92
# Maximum number of superscripts on a page.
_MAX_RAISED = 300
# Maximum number of letters after a piece that are examined.
_MAX_EXAMINED = 200
_MAX_WORDS = 8
# Number of letters before a superscript that decide how it is written.
_BEFORE = 20
# Number of letters of a piece, for each time that it is as wide as high.
_MIN_LETTERS = 0.7
_SAME_PLACE = 0.02  # points
# Number of letters that are compared at once.
_SAME_LETTERS = 16
_MAX_STEPS = 40  # letters
_WITHIN = 0.3  # points
# Distance of two lines, as a share of the height of letters; superscripts are closer.
_MIN_PITCH = 0.75
# Size of the smaller of two pieces of a table, as a share of the other's; marks are smaller.
_MIN_SIZE = 0.8
# PDFium joins lines only of pieces that are at most so many times as wide as high.
_MAX_JOINED = 4
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
        self._text_page = page
        self._page = page.page.raw
        self.pieces = pieces
        self._plain = plain
        self._count = letters
        self._changed = False
        self._known: list[int] = []
        self._starts: dict[int, int] = {len(pieces): letters}

    @cached_property
    def _text(self) -> str:
        """The letters by PDFium's index as a text, with a blank for those that it leaves out."""
        if "" not in self.letters:
            return "".join(self.letters)
        return "".join(letter or " " for letter in self.letters)

    @property
    def has_letters(self) -> bool:
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

    def read_all(self) -> str:
        """Return all letters in order."""
        if self._changed:
            return "".join(self.letters)
        return self._plain

    def raise_marks(self) -> None:
        """Write the superscripts of the page as characters."""
        for number in list(dict.fromkeys(find_raised_pieces(self.turned)))[:_MAX_RAISED]:
            if not self.has_letters:
                return
            start = self.find_start(number)
            end = self.find_start(number + 1)
            letters = "".join(self.letters[start:end])
            core = letters.strip()
            neighbour = self._find_neighbour(start, core)
            if not _MARK.search(core) or not self._is_raised(start, neighbour):
                continue
            before = "".join(self.letters[max(0, start - _BEFORE) : start])
            superscript = write_superscript(core, before)
            if superscript == core:
                continue
            piece = self.turned[number]
            if number + 1 < len(self.turned) and _follows(piece, self.turned[number + 1]):
                letters = letters.rstrip("\r\n")
            written = letters.replace(core, superscript, 1)
            self.letters[start:end] = [written, *[""] * (end - start - 1)]
            self._changed = True
            if number and _follows(self.turned[number - 1], piece):
                self._drop_line_end(start)

    def separate_lines(self) -> None:
        """Put a line end between pieces of different lines that PDFium joins, as in columns.

        Single letters may be a word that runs downwards, so they stay together.
        """
        starts: list[int] = []
        for before, piece in pairwise(self.turned):
            # Unpacked, as properties would be slow: this runs for each pair of pieces.
            _, left_before, bottom_before, right_before, top_before = before
            _, left, bottom, right, top = piece
            height = top - bottom
            height_before = top_before - bottom_before
            max_height = height if height > height_before else height_before
            rise = bottom_before + top_before - bottom - top
            is_same_line = -2 * _MIN_PITCH * max_height < rise < 2 * _MIN_PITCH * max_height
            if is_same_line:
                continue
            # PDFium joins short pieces alone.
            if max(right_before - left_before, right - left) > _MAX_JOINED * max_height:
                continue
            is_mark = min(height_before, height) < _MIN_SIZE * max_height
            if is_mark:
                continue
            is_below = left_before < right and left < right_before
            is_next_column = left >= right_before and bottom > top_before
            if not is_below and not is_next_column:
                continue
            # Asked here only, as finding the letters takes time that most pages do not need.
            if not self.has_letters:
                return
            start = self.find_start(piece.number)
            text_before = "".join(self.letters[self.find_start(before.number) : start])
            text = "".join(self.letters[start : self.find_start(piece.number + 1)])
            beside = text_before[-1:] + text[:1]
            if not beside.isalnum():
                continue
            if len(text_before) > 1 or len(text) > 1 or not beside.isalpha():
                starts.append(start)
        for start in starts:
            self.letters[start] = f"\n{self.letters[start]}"
            self._changed = True

    def _find_neighbour(self, start: int, core: str) -> int:
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

    def _is_raised(self, index: int, neighbour: int) -> bool:
        """Tell whether a letter is smaller and stands higher than a neighbouring letter."""
        size = float(self._raw.FPDFText_GetFontSize(self._page, index))
        neighbour_size = float(self._raw.FPDFText_GetFontSize(self._page, neighbour))
        lift = self._read_base_line(index) - self._read_base_line(neighbour)
        if lift <= _MIN_RAISED * neighbour_size:
            return False
        return size / max(0.01, neighbour_size) < _MAX_SIZE

    def _read_base_line(self, index: int) -> float:
        x = c_double()
        y = c_double()
        self._raw.FPDFText_GetCharOrigin(self._page, index, byref(x), byref(y))
        _, height, _, _ = turn_box((x.value, y.value, x.value, y.value), self.quarters)
        return height

    def read(self, first: int, last: int) -> str:
        """Return the letters from one piece to another, with PDFium's blank after them, if any."""
        letters = self.letters[self.find_start(first) : self.find_start(last + 1)]
        text = "".join(letters).strip("\r\n")
        core = text.rstrip()
        return text if core == text else f"{core} "

    def find_start(self, number: int) -> int:
        """Return the index of the first letter of a piece."""
        if number not in self._starts:
            self._starts[number] = self._search_start(number)
            insort(self._known, number)
        return self._starts[number]

    def _search_start(self, number: int) -> int:
        """Find the letter where a piece begins.

        Look behind the piece before, then after blanks, else ask PDFium, else count pieces.
        """
        piece = self.pieces[number]
        at = bisect_left(self._known, number)
        start = 0
        if at:
            before = self.pieces[self._known[at - 1]]
            letters = _MIN_LETTERS * before.width / max(1.0, before.height)
            start = self._starts[before.number] + int(letters)
        elif self._begins_at(0, piece):
            return 0
        if number - 1 in self._starts:
            index = self._find_end(self._starts[number - 1], start)
            if index and self._begins_at(index, piece):
                return index
        words = _WORD_BEGIN.finditer(self._text, start, start + _MAX_EXAMINED)
        for word in islice(words, _MAX_WORDS):
            if self._begins_at(word.start(), piece):
                return word.start()
        x, y = self._choose_point(piece)
        index = self._raw.FPDFText_GetCharIndexAtPos(self._page, x, y, _WITHIN, _WITHIN)
        count_objects = self._text_page.count_objects
        if index >= 0 and count_objects(index) == number and count_objects(index + 1) == number + 1:
            return int(index)
        indexes = range(self._count)
        return max(0, bisect_right(indexes, number, key=count_objects) - 1)

    def _find_end(self, start: int, about: int) -> int:
        """Return the index of the first letter after a letter's text object, searched near `about`.

        0 if it is not near.
        """
        find_object = self._text_page.find_object
        text_object = find_object(start)
        index = min(max(about, start + 1), self._count - 1)
        for _ in range(_MAX_STEPS):
            if find_object(index) != text_object:
                break
            index += 1
        while index > start + 1 and find_object(index - 1) != text_object:
            index -= 1
        while index < self._count and not find_object(index):
            # PDFium added a blank or a line end here.
            index += 1
        return index if index < self._count else 0

    def _choose_point(self, piece: Piece) -> tuple[float, float]:
        """Return a place within the first letter of a piece."""
        x = (piece.left + piece.right) / 2
        y = (piece.bottom + piece.top) / 2
        match self.quarters:
            case 0:
                return piece.left + _WITHIN, y
            case 1:
                return x, piece.bottom + _WITHIN
            case 2:
                return piece.right - _WITHIN, y
        return x, piece.top - _WITHIN

    def _begins_at(self, index: int, piece: Piece) -> bool:
        """Tell whether a letter stands where a piece begins."""
        box = self._text_page.read_box(index)
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
    height = max(before.height, piece.height)
    if not -0.2 * height < piece.left - before.right < height:
        return False
    return piece.bottom < before.top and piece.top > before.bottom
