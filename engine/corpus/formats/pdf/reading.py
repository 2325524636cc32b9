"""The text of a PDF page as a reader sees it: rows of tables, columns, rotated lines, superscripts.

PDFium's own text stays wherever none of these is on the page.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from ctypes import byref, c_double, c_float, c_ushort, cast
from functools import cached_property
from itertools import islice, pairwise
from typing import Any

from engine.corpus.formats.pdf.calls import TextPage, paths_of
from engine.corpus.formats.pdf.layout import (
    MAX_PIECES,
    Piece,
    is_upright,
    lines_of,
    raised_pieces,
    read_pieces,
    stand_side_by_side,
    turned,
    turned_box,
    turned_by,
)
from engine.corpus.formats.pdf.tables import GAP, Block, Rules, Segment, find_blocks
from engine.corpus.formats.runs.superscripts import as_superscript
from engine.corpus.text.hyphens import LINE_END

_MIN_PIECES = 1.1  # of the lines that PDFium finds: where each line is one piece, nothing stands beside another
_MAX_PIECES_A_LINE = 12  # a file that draws parts of words has more, and little to be told by them
_MIN_RAISED = 0.15  # of the size of the letters beside a superscript
_MAX_SIZE = 0.92  # of theirs
_MAX_RAISED = 300  # on a page
_MAX_LOOKED_AT = 200  # letters behind a piece
_MAX_WORDS = 8
_MIN_LETTERS = 0.7  # of a piece, for each time that it is as wide as high
_SAME_PLACE = 0.02  # points
_WITHIN = 0.3  # points
_OVER = 0.3  # of the height of letters
_BLANK = 0.16  # of the height of letters
_MAX_OBJECTS = 1_500  # of a page that are looked at for rules
_MAX_POINTS = 400  # of a path that are looked at
_MIN_POINTS = 6  # of a path that is more than a box
_MAX_RULE = 3.0  # points that a rule is thick
_MIN_RULE = 12.0  # points that it is long
_CELLS = " | "
_WORD_BEGIN = re.compile(r"(?<=\s)\S")
_FIRST_SIDES = (0, 1, 2, 3)
"""By quarter turns: the side of a box (left, bottom, right, top) where a text begins."""
_MARK = re.compile(r"[^\W_]")
_HYPHEN_CODES = (0xFFFE, 0x2D, 0xAD, 0x2010)
_HYPHENS = ("-", "\u2010")


def arranged(page: Any, plain: str) -> str:
    """The text of a text page of pypdfium2, of which PDFium gives `plain`, as a reader of the page sees it."""
    from pypdfium2 import raw

    count = raw.FPDFText_CountRects(page, 0, -1)
    lines = plain.count("\n") + 1
    letters = raw.FPDFText_CountChars(page)
    if not letters or count > MAX_PIECES:
        return plain
    if not _MIN_PIECES * lines < count < _MAX_PIECES_A_LINE * lines and is_upright(page, letters):
        return plain
    fast = TextPage(page)
    pieces = read_pieces(fast, count)
    quarters = turned_by(page, pieces, letters)
    text = _PageText(fast, plain, letters, pieces)
    if quarters:
        pieces = turned(pieces, quarters)
        text.turned = pieces
        text.quarters = quarters
    else:
        text.raise_marks()
        if not stand_side_by_side(pieces, GAP):
            return text.whole()
    rules: list[Rules] = []

    def read_rules() -> Rules:
        if not rules:
            rules.append(_read_rules(page.page, quarters))
        return rules[0]

    blocks = find_blocks(lines_of(pieces), read_rules)
    if not (blocks or quarters) or not text.is_known:
        return text.whole()
    return text.in_lines(blocks) if quarters else text.with_blocks(blocks)


class _PageText:
    """The letters of a page by piece. Which letters a piece has is found out where it is asked for."""

    def __init__(self, page: TextPage, plain: str, letters: int, pieces: Sequence[Piece]) -> None:
        from pypdfium2 import raw

        self.turned = pieces
        self.quarters = 0
        self._raw = raw
        self._fast = page
        self._page = page.page.raw
        self._pieces = pieces
        self._plain = plain
        self._count = letters
        self._changed = False
        self._known: list[int] = []
        self._starts: dict[int, int] = {len(pieces): letters}

    @cached_property
    def _joined(self) -> str:
        """The letters by PDFium's index as a text; a blank for those that it leaves out."""
        return "".join(letter or " " for letter in self._letters)

    @property
    def is_known(self) -> bool:
        """Whether it can be said which letters a piece has."""
        return bool(self._letters)

    @cached_property
    def _letters(self) -> list[str]:
        """The letters by PDFium's index."""
        if len(self._plain) == self._count:
            return list(self._plain)
        buffer = (c_ushort * (self._count + 1))()
        written = self._raw.FPDFText_GetText(self._page, 0, self._count, buffer)
        if written == self._count + 1:
            return _aligned(buffer[: self._count], self._plain)
        codes = [self._raw.FPDFText_GetUnicode(self._page, index) for index in range(self._count)]
        return _aligned(codes, self._plain)

    def whole(self) -> str:
        """All letters in their order."""
        return "".join(self._letters) if self._changed else self._plain

    def raise_marks(self) -> None:
        """Write the superscripts of the page as such."""
        for number in list(dict.fromkeys(raised_pieces(self._pieces)))[:_MAX_RAISED]:
            if not self.is_known:
                return
            start = self._start(number)
            end = self._start(number + 1)
            raised = "".join(self._letters[start:end])
            core = raised.strip()
            beside = self._letter_beside(start, core)
            if not _MARK.search(core) or not self._is_raised(start, beside):
                continue
            before = "".join(self._letters[max(0, start - 20) : start])
            shown = as_superscript(core, before)
            if shown != core:
                if number + 1 < len(self._pieces) and _follows(self._pieces[number], self._pieces[number + 1]):
                    raised = raised.rstrip("\r\n")
                self._letters[start:end] = [raised.replace(core, shown, 1), *[""] * (end - start - 1)]
                self._changed = True
                if number and _follows(self._pieces[number - 1], self._pieces[number]):
                    self._drop_line_end(start)

    def _letter_beside(self, start: int, core: str) -> int:
        """The index of the letter before a piece that may be raised; where a blank is before it, of the letter behind."""
        index = start - 1
        while index > 0 and self._letters[index] in ("\r", "\n", ""):
            index -= 1
        return index if index >= 0 and not self._letters[index].isspace() else start + len(core)

    def _drop_line_end(self, index: int) -> None:
        """Take out the line end that PDFium sees before a letter."""
        while index and self._letters[index - 1] in ("\r", "\n", ""):
            index -= 1
            self._letters[index] = ""

    def _is_raised(self, index: int, beside: int) -> bool:
        """Whether a letter is smaller and stands higher than one beside it."""
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
        return y.value

    def with_blocks(self, blocks: Iterable[Block]) -> str:
        """All letters in their order, but for blocks, each of which stands where its first piece does."""
        shown: list[str] = []
        written: set[int] = set()
        at = 0
        for first, last, block in _runs_of(blocks):
            shown.append("".join(self._letters[at : self._start(first)]))
            at = self._start(last + 1)
            if id(block) not in written:
                written.add(id(block))
                shown.append(f"\n{self._text_of(block)}\n")
        shown.append("".join(self._letters[at:]))
        return re.sub(r"[ \t]*(?:\r?\n)+", "\n", "".join(shown)).strip("\n")

    def in_lines(self, blocks: Iterable[Block]) -> str:
        """The letters of a page whose text is turned, line by line in the order of drawing."""
        block_of = {piece.number: block for block in blocks for piece in block.pieces()}
        shown: list[str] = []
        written: set[int] = set()
        before: Piece | None = None
        for piece in _from_the_top(self.turned):
            block = block_of.get(piece.number)
            if block is not None:
                if id(block) not in written:
                    written.add(id(block))
                    shown.append(f"\n{self._text_of(block)}\n")
                before = None
                continue
            if before is not None:
                shown.append(_gap(before, piece))
            shown.append(self._text(piece.number, piece.number))
            before = piece
        return re.sub(r" {2,}", " ", "".join(shown)).strip("\n")

    def _text_of(self, block: Block) -> str:
        if block.is_prose:
            columns = (
                "\n".join(self._segment(cells[column]) for cells in block.cells if column in cells)
                for column in range(block.columns)
            )
            return "\n".join(columns)
        return "\n".join(self._row(block, lines) for lines in block.rows)

    def _row(self, block: Block, lines: Sequence[int]) -> str:
        cells: list[str] = []
        for column in range(block.columns):
            cell = ""
            for at in lines:
                if column in block.cells[at]:
                    cell = _joined(cell, self._segment(block.cells[at][column]))
            if cell:
                cells.append(cell)
        return _CELLS.join(cells)

    def _segment(self, segment: Segment) -> str:
        """The letters of a segment; pieces that are drawn one after the other have the blanks that PDFium sees between them."""
        shown = ""
        pieces = segment.pieces
        first = 0
        for at in range(1, len(pieces) + 1):
            if at < len(pieces) and pieces[at].number == pieces[at - 1].number + 1:
                continue
            shown += self._text(pieces[first].number, pieces[at - 1].number)
            if at < len(pieces) and not _touches(pieces[at - 1], pieces[at]):
                shown += " "
            first = at
        return " ".join(shown.split())

    def _text(self, first: int, last: int) -> str:
        """The letters from one piece to another, with a blank behind them where PDFium sees one."""
        text = "".join(self._letters[self._start(first) : self._start(last + 1)])
        core = text.strip("\r\n")
        return core.rstrip() + " " if core != core.rstrip() else core

    def _start(self, number: int) -> int:
        """The index of the first letter of a piece."""
        if number not in self._starts:
            self._starts[number] = self._find_start(number)
            insort(self._known, number)
        return self._starts[number]

    def _find_start(self, number: int) -> int:
        """Look for the letter where a piece begins: behind blanks, else by asking PDFium, else by counting pieces."""
        piece = self._pieces[number]
        at = bisect_left(self._known, number)
        start = 0
        if at:
            before = self._pieces[self._known[at - 1]]
            letters = _MIN_LETTERS * (before.right - before.left) / max(1.0, before.top - before.bottom)
            start = self._starts[before.number] + int(letters)
        elif self._begins_at(0, piece):
            return 0
        for found in islice(_WORD_BEGIN.finditer(self._joined, start, start + _MAX_LOOKED_AT), _MAX_WORDS):
            if self._begins_at(found.start(), piece):
                return found.start()
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

    def _begin_of(self, piece: Piece) -> tuple[float, float]:
        """A place within the first letter of a piece."""
        if self.quarters in (0, 2):
            height = (piece.bottom + piece.top) / 2
            return (piece.right - _WITHIN if self.quarters else piece.left + _WITHIN), height
        middle = (piece.left + piece.right) / 2
        return middle, (piece.bottom + _WITHIN if self.quarters == 1 else piece.top - _WITHIN)

    def _begins_at(self, index: int, piece: Piece) -> bool:
        """Whether a letter stands where a piece begins."""
        box = self._fast.box_of(index)
        side = _FIRST_SIDES[self.quarters]
        left, bottom, right, top = box
        return (
            abs(box[side] - piece[side + 1]) < _SAME_PLACE
            and left > piece.left - _SAME_PLACE
            and bottom > piece.bottom - _SAME_PLACE
            and top < piece.top + _SAME_PLACE
            and right < piece.right + _SAME_PLACE
        )


def _runs_of(blocks: Iterable[Block]) -> list[tuple[int, int, Block]]:
    """The pieces of blocks that are drawn one after the other: the first, the last, and their block."""
    block_of = {piece.number: block for block in blocks for piece in block.pieces()}
    runs: list[tuple[int, int, Block]] = []
    for number in sorted(block_of):
        block = block_of[number]
        if runs and runs[-1][1] == number - 1 and runs[-1][2] is block:
            runs[-1] = (runs[-1][0], number, block)
        else:
            runs.append((number, number, block))
    return runs


def _aligned(codes: Sequence[int], plain: str) -> list[str]:
    """What stands in a text for each of the codes that it was made of.

    PDFium leaves some out: line ends before superscripts, letters beyond the page. Both halves of a sign make one.
    """
    letters: list[str] = []
    at = 0
    for code in codes:
        char = plain[at : at + 1]
        is_half = 0xD800 <= code < 0xDC00 and char > "\uffff"
        is_hyphen = char == LINE_END and code in _HYPHEN_CODES
        if char and (ord(char) == code or is_half or is_hyphen):
            letters.append(char)
            at += 1
        else:
            letters.append("")
    return letters if at == len(plain) else []


def _from_the_top(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Pieces in the order of drawing; where PDFium turns that round, in the order of their lines."""
    ups = sum(piece.bottom >= before.top for before, piece in pairwise(pieces))
    downs = sum(piece.top <= before.bottom for before, piece in pairwise(pieces))
    return pieces if ups <= downs else [piece for line in lines_of(pieces) for piece in line.pieces]


def _touches(before: Piece, piece: Piece) -> bool:
    """Whether a piece begins where another ends, without a blank, and neither lies above the other."""
    return -_OVER * before.height < piece.left - before.right <= _BLANK * before.height


def _follows(before: Piece, piece: Piece) -> bool:
    """Whether a piece goes on in the line of the one before it, without a wide gap."""
    height = max(before.top - before.bottom, piece.top - piece.bottom)
    return (
        -0.2 * height < piece.left - before.right < height and piece.bottom < before.top and piece.top > before.bottom
    )


def _gap(before: Piece, piece: Piece) -> str:
    """What stands between two pieces that are drawn one after the other."""
    shared = min(before.top, piece.top) - max(before.bottom, piece.bottom)
    if shared < 0.3 * min(before.height, piece.height) or piece.left < before.left:
        return "\n"
    return " " if piece.left - before.right > _BLANK * before.height else ""


def _joined(cell: str, more: str) -> str:
    """A cell with its next line."""
    if not cell:
        return more
    if cell.endswith(LINE_END):
        return cell + more
    if cell.endswith(_HYPHENS) and cell[-2:-1].isalpha() and more[:1].islower():
        return f"{cell[:-1]}{LINE_END}{more}"
    return f"{cell} {more}"


def _read_rules(page: Any, quarters: int) -> Rules:
    """The horizontal rules of a page, as its text runs: lines, thin boxes and the edges of boxes."""
    from pypdfium2 import raw

    rules: list[tuple[float, float, float]] = []
    for path, box in paths_of(page, _MAX_OBJECTS):
        left, bottom, right, top = turned_box(box, quarters) if quarters else box
        if right - left < _MIN_RULE:
            continue
        if top - bottom <= _MAX_RULE:
            rules.append((left, right, (bottom + top) / 2))
            continue
        rules += ((left, right, bottom), (left, right, top))
        handle = cast(path, raw.FPDF_PAGEOBJECT)
        count = raw.FPDFPath_CountSegments(handle)
        if _MIN_POINTS < count <= _MAX_POINTS:
            rules += ((left, right, height) for height in _heights_within(handle, count, quarters))
    return rules


def _heights_within(path: Any, count: int, quarters: int) -> set[float]:
    """The heights of the horizontal edges of a path that has several."""
    from pypdfium2 import raw

    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, byref(matrix))
    x = c_float()
    y = c_float()
    heights: set[float] = set()
    before: tuple[float, float] | None = None
    for number in range(count):
        segment = raw.FPDFPath_GetPathSegment(path, number)
        raw.FPDFPathSegment_GetPoint(segment, byref(x), byref(y))
        across = matrix.a * x.value + matrix.c * y.value + matrix.e
        up = matrix.b * x.value + matrix.d * y.value + matrix.f
        left, bottom, _, _ = turned_box((across, up, across, up), quarters)
        is_line = raw.FPDFPathSegment_GetType(segment) == raw.FPDF_SEGMENT_LINETO
        if before is not None and is_line and abs(bottom - before[1]) < 0.5 and abs(left - before[0]) >= _MIN_RULE:
            heights.add(bottom)
        before = (left, bottom)
    return heights
