"""The text of a PDF page as a reader sees it: rows of tables, columns, rotated lines, superscripts.

PDFium's own text stays wherever none of these is on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ctypes import byref, c_double, c_float
from functools import cached_property
from typing import Any

from engine.corpus.formats.pdf.layout import (
    MAX_PIECES,
    Line,
    Piece,
    lines_of,
    raised_pieces,
    read_pieces,
    turned_box,
    turned_by,
)
from engine.corpus.formats.pdf.tables import Block, Rules, Segment, find_blocks
from engine.corpus.formats.runs.superscripts import as_superscript
from engine.corpus.text.hyphens import LINE_END

_MIN_PIECES = 1.1  # of the lines that PDFium finds: where each line is one piece, nothing stands beside another
_MIN_RAISED = 0.15  # of the size of the letters beside a superscript
_MAX_SIZE = 0.92  # of theirs
_MAX_RAISED = 300  # on a page
_BLANK = 0.16  # of the height of letters
_MAX_OBJECTS = 4_000  # of a page that are looked at for rules
_MAX_POINTS = 2_000  # of a path
_MAX_RULE = 3.0  # points that a rule is thick
_MIN_RULE = 12.0  # points that it is long
_CELLS = " | "
_MARK = re.compile(r"[^\W_]")
_HYPHENS = ("-", "\u2010")


def arranged(page: Any, plain: str) -> str:
    """The text of a text page of pypdfium2, of which PDFium gives `plain`, as a reader of the page sees it."""
    from pypdfium2 import raw

    count = raw.FPDFText_CountRects(page, 0, -1)
    if count > MAX_PIECES or count <= _MIN_PIECES * (plain.count("\n") + 1):
        return plain
    letters = raw.FPDFText_CountChars(page)
    quarters = turned_by(page, letters)
    pieces = read_pieces(page, count, quarters)
    text = _PageText(page, plain, letters, pieces, quarters)
    if not text.is_known:
        return plain
    if not quarters:
        text.raise_marks()
    rules: list[Rules] = []

    def read_rules() -> Rules:
        if not rules:
            rules.append(_read_rules(page.page, quarters))
        return rules[0]

    blocks = find_blocks(lines_of(pieces), read_rules)
    if quarters in (1, 3):
        return text.in_lines(blocks)
    return text.with_blocks(blocks) if blocks else text.whole()


class _PageText:
    """The letters of a page by piece. Which letters a piece has is found out where it is asked for."""

    def __init__(self, page: Any, plain: str, letters: int, pieces: Sequence[Piece], quarters: int) -> None:
        self._page = page
        self._pieces = pieces
        self._quarters = quarters
        self._plain = plain
        self._count = letters
        self._changed = False
        self._starts: dict[int, int] = {len(pieces): letters}

    @property
    def is_known(self) -> bool:
        """Whether it can be said which letters a piece has."""
        return bool(self._letters)

    @cached_property
    def _letters(self) -> list[str]:
        """The letters by PDFium's index."""
        from pypdfium2 import raw

        if len(self._plain) == self._count:
            return list(self._plain)
        codes = [raw.FPDFText_GetUnicode(self._page, index) for index in range(self._count)]
        return _aligned(codes, self._plain)

    def whole(self) -> str:
        """All letters in their order."""
        return "".join(self._letters) if self._changed else self._plain

    def raise_marks(self) -> None:
        """Write the superscripts of the page as such."""
        for number in list(raised_pieces(self._pieces))[:_MAX_RAISED]:
            start = self._start(number)
            end = self._start(number + 1)
            raised = "".join(self._letters[start:end])
            core = raised.strip()
            beside = start - 1 if start and not self._letters[start - 1].isspace() else start + len(core)
            if not _MARK.search(core) or not self._is_raised(start, beside):
                continue
            before = "".join(self._letters[max(0, start - 20) : start])
            shown = as_superscript(core, before)
            if shown != core:
                self._letters[start:end] = [raised.replace(core, shown, 1), *[""] * (end - start - 1)]
                self._changed = True

    def _is_raised(self, index: int, beside: int) -> bool:
        """Whether a letter is smaller and stands higher than one beside it."""
        from pypdfium2 import raw

        size = raw.FPDFText_GetFontSize(self._page, beside)
        height = self._base_line(index) - self._base_line(beside)
        ratio = self._size(index) / max(0.01, self._size(beside))
        return _MIN_RAISED * size < height and ratio < _MAX_SIZE

    def _size(self, index: int) -> float:
        from pypdfium2 import raw

        return float(raw.FPDFText_GetFontSize(self._page, index))

    def _base_line(self, index: int) -> float:
        from pypdfium2 import raw

        x = c_double()
        y = c_double()
        raw.FPDFText_GetCharOrigin(self._page, index, byref(x), byref(y))
        return y.value

    def with_blocks(self, blocks: Iterable[Block]) -> str:
        """All letters in their order, but for blocks, each of which stands where its first piece does."""
        block_of = {piece.number: block for block in blocks for piece in block.pieces()}
        shown: list[str] = []
        written: set[int] = set()
        at = 0
        for number in sorted(block_of):
            block = block_of[number]
            shown.append("".join(self._letters[at : self._start(number)]))
            at = max(at, self._start(number + 1))
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
        for piece in self._pieces:
            block = block_of.get(piece.number)
            if block is not None:
                if id(block) not in written:
                    written.add(id(block))
                    shown.append(f"\n{self._text_of(block)}\n")
                before = None
                continue
            if before is not None:
                shown.append(_gap(before, piece))
            shown.append(self._text(piece))
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
        shown = ""
        before: Piece | None = None
        for piece in segment.pieces:
            text = self._text(piece)
            parted = before is not None and piece.left - before.right > _BLANK * before.height
            shown += f" {text}" if parted else text
            before = piece
        return " ".join(shown.split())

    def _text(self, piece: Piece) -> str:
        """The letters of a piece, with a blank behind it where PDFium sees one."""
        text = "".join(self._letters[self._start(piece.number) : self._start(piece.number + 1)])
        core = text.strip("\r\n")
        return core.rstrip() + " " if core != core.rstrip() else core

    def _start(self, number: int) -> int:
        """The index of the first letter of a piece."""
        if number not in self._starts:
            self._starts[number] = self._find_start(number)
        return self._starts[number]

    def _find_start(self, number: int) -> int:
        from pypdfium2 import raw

        low = 0
        high = self._count
        while low < high:
            middle = (low + high) // 2
            if raw.FPDFText_CountRects(self._page, 0, middle) > number:
                high = middle
            else:
                low = middle + 1
        return max(0, low - 1)


def _aligned(codes: Sequence[int], plain: str) -> list[str]:
    """What stands in a text for each of the codes that it was made of.

    PDFium leaves some out: line ends before superscripts, letters beyond the page. Both halves of a sign make one.
    """
    letters: list[str] = []
    at = 0
    for code in codes:
        char = plain[at : at + 1]
        is_half = 0xD800 <= code < 0xDC00 and char > "\uffff"
        if char and (ord(char) == code or is_half):
            letters.append(char)
            at += 1
        else:
            letters.append("")
    return letters if at == len(plain) else []


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
    for index in range(min(raw.FPDFPage_CountObjects(page), _MAX_OBJECTS)):
        drawn = raw.FPDFPage_GetObject(page, index)
        if raw.FPDFPageObj_GetType(drawn) != raw.FPDF_PAGEOBJ_PATH:
            continue
        sides = [c_float() for _ in range(4)]
        if not raw.FPDFPageObj_GetBounds(drawn, *map(byref, sides)):
            continue
        left, bottom, right, top = turned_box(tuple(side.value for side in sides), quarters)
        if right - left < _MIN_RULE:
            continue
        if top - bottom <= _MAX_RULE:
            rules.append((left, right, (bottom + top) / 2))
        else:
            rules += ((left, right, height) for height in _heights_within(drawn, quarters))
    return rules


def _heights_within(path: Any, quarters: int) -> set[float]:
    """The heights of the horizontal edges of a path that has several."""
    from pypdfium2 import raw

    count = min(raw.FPDFPath_CountSegments(path), _MAX_POINTS)
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
