"""Where the text of a PDF page stands: its pieces, as the file draws them, and the lines that they make.

PDFium gives a rectangle for each text object. That is one for many letters in most files, so it costs little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from ctypes import POINTER, addressof, c_double, cast
from dataclasses import dataclass, field
from math import pi
from typing import Any

_SAMPLED = 9  # letters of a page whose direction is asked for
_SAME_LINE = 0.5  # of the height of a piece that a line covers
_MIN_SIZE = 0.1  # points
MAX_PIECES = 8_000
"""Pieces of a page that are looked at: drawings may have a letter each."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A text object: its place in the order of drawing, and where it stands, turned so that its text runs to the right."""

    number: int
    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        """Points from the lowest descender to the highest ascender."""
        return self.top - self.bottom

    @property
    def width(self) -> float:
        """Points."""
        return self.right - self.left


@dataclass(slots=True)
class Line:
    """Pieces beside each other, from left to right; as high as the highest of them."""

    bottom: float
    top: float
    pieces: list[Piece] = field(default_factory=list)

    @property
    def height(self) -> float:
        """Points."""
        return self.top - self.bottom


def read_pieces(page: Any, count: int, quarters: int) -> list[Piece]:
    """The pieces of a text page of pypdfium2, in the order of drawing.

    `count` is what FPDFText_CountRects has said of the page, which must come first. `quarters` says by how many quarter turns to
    the left its text is turned.
    """
    from pypdfium2 import raw

    place = (c_double * 4)()
    left, top, right, bottom = (cast(addressof(place) + 8 * at, POINTER(c_double)) for at in range(4))
    ask = raw.FPDFText_GetRect
    handle = page.raw
    pieces: list[Piece] = []
    for number in range(count):
        ask(handle, number, left, top, right, bottom)
        pieces.append(_turn(number, place[0], place[3], place[2], place[1], quarters))
    return pieces


def _turn(number: int, left: float, bottom: float, right: float, top: float, quarters: int) -> Piece:
    if quarters == 1:
        return Piece(number, bottom, -right, top, -left)
    if quarters == 2:
        return Piece(number, -right, -top, -left, -bottom)
    if quarters == 3:
        return Piece(number, -top, left, -bottom, right)
    return Piece(number, left, bottom, right, top)


def turned_box(box: tuple[float, float, float, float], quarters: int) -> tuple[float, float, float, float]:
    """A box (left, bottom, right, top) of a page in the coordinates of its pieces."""
    piece = _turn(0, *box, quarters)
    return piece.left, piece.bottom, piece.right, piece.top


def turned_by(page: Any, letters: int) -> int:
    """By how many quarter turns to the left most text of a page is turned; `letters`: how many it has."""
    from pypdfium2 import raw

    turns: Counter[int] = Counter()
    step = max(1, letters // _SAMPLED)
    for index in range(step // 2, letters, step):
        angle = raw.FPDFText_GetCharAngle(page, index)
        if angle >= 0 and raw.FPDFText_IsGenerated(page, index) == 0:
            turns[-round(angle / (pi / 2)) % 4] += 1  # clockwise
    return turns.most_common(1)[0][0] if turns else 0


def lines_of(pieces: Sequence[Piece]) -> list[Line]:
    """The lines of a page from the top down."""
    lines: list[Line] = []
    for piece in sorted(pieces, key=lambda one: -(one.top + one.bottom)):
        if piece.height < _MIN_SIZE:
            continue
        line = lines[-1] if lines else None
        if line is None or not _is_on(piece, line):
            lines.append(Line(piece.bottom, piece.top, [piece]))
            continue
        line.pieces.append(piece)
        if piece.height > line.height:
            line.bottom = piece.bottom
            line.top = piece.top
    for line in lines:
        line.pieces.sort(key=lambda one: one.left)
    return lines


def _is_on(piece: Piece, line: Line) -> bool:
    shared = min(piece.top, line.top) - max(piece.bottom, line.bottom)
    return shared >= _SAME_LINE * min(piece.height, line.height)


def raised_pieces(pieces: Sequence[Piece]) -> Iterator[int]:
    """The numbers of small pieces that stand higher than the one before them, and touch it, such as marks of notes."""
    for before, piece in zip(pieces, pieces[1:], strict=False):
        height = before.height
        if (
            piece.height < 0.85 * height
            and piece.width < 3 * height
            and -0.2 * height < piece.left - before.right < 0.25 * height
            and piece.bottom > before.bottom + 0.2 * height
            and piece.top > before.top - 0.25 * height
        ):
            yield piece.number
