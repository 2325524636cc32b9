"""Where the text of a PDF page stands: its pieces, as the file draws them, and their lines.

PDFium gives a rectangle for each text object. In most files a text object has many letters, so this
costs little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf, pi
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

from engine.corpus.formats.pdf.calls import Box, TextPage

# Number of letters of a page whose direction is read.
_SAMPLED = 9
# Number of pieces of a page whose shape tells if its text is turned.
_MAX_EXAMINED = 60
# A piece of several letters that is so many times as high as wide has turned text.
_TALL = 1.5
# Share of the pieces of a page that must be tall.
_MIN_TALL = 0.4
_MIN_BESIDE = 3
_MIN_BELOW = 2
_MIN_UPWARDS = 2
_MIN_LEVEL = 3  # lines
_NEAR = (0, -1, 1)  # points
_ALIGNED = 3.0  # points
# Lift of a superscript, as a share of the height of its neighbour.
_RISE = 0.38
# Minimum width of the word that a superscript marks, as a share of its height: a word has several
# letters.
_MIN_WORD = 1.3
# A piece so many times as high as usual runs another way.
_TOO_HIGH = 4
# Share of a piece's height that a line must cover.
_SAME_LINE = 0.5
_MIN_SIZE = 0.1  # points
MAX_PIECES = 8_000
"""Maximum number of pieces of a page that are examined: drawings may have one per letter."""


class Piece(NamedTuple):
    """A text object: its place in the order of drawing and on the page.

    The page is turned so that the text runs to the right.
    """

    number: int
    left: float
    bottom: float
    right: float
    top: float

    @property
    def height(self) -> float:
        """The distance in points from the lowest descender to the highest ascender."""
        return self.top - self.bottom

    @property
    def width(self) -> float:
        """The width in points."""
        return self.right - self.left


@dataclass(slots=True)
class Line:
    """Pieces side by side, from left to right; as high as the highest of them."""

    bottom: float
    top: float
    pieces: list[Piece] = field(default_factory=list)

    @property
    def height(self) -> float:
        """The height in points."""
        return self.top - self.bottom


def read_pieces(page: TextPage, count: int) -> list[Piece]:
    """Return the pieces of a page, in the order of drawing.

    `count` is the result of FPDFText_CountRects for the page, which must be called first.
    """
    return list(map(Piece._make, page.read_boxes(count)))


def _turn(
    number: int, left: float, bottom: float, right: float, top: float, quarters: int
) -> Piece:
    if quarters == 1:
        return Piece(number, bottom, -right, top, -left)
    if quarters == 2:
        return Piece(number, -right, -top, -left, -bottom)
    if quarters == 3:
        return Piece(number, -top, left, -bottom, right)
    return Piece(number, left, bottom, right, top)


def turn_box(box: Box, quarters: int) -> Box:
    """Return a box of a page in the coordinates of its pieces."""
    piece = _turn(0, *box, quarters)
    return piece.left, piece.bottom, piece.right, piece.top


def find_turn(page: Any, pieces: Sequence[Piece], letters: int) -> int:
    """Return by how many quarter turns to the left most text of a page is turned.

    `letters` is the number of letters on the page.
    """
    from pypdfium2 import raw

    if not page.page.get_rotation():
        sample = pieces[:: max(1, len(pieces) // _MAX_EXAMINED)]
        tall = sum(piece.height > _TALL * piece.width for piece in sample)
        if tall < _MIN_TALL * len(sample):
            return 0
    turns: Counter[int] = Counter()
    step = max(1, letters // _SAMPLED)
    for index in range(step // 2, letters, step):
        angle = raw.FPDFText_GetCharAngle(page, index)
        if angle >= 0 and raw.FPDFText_IsGenerated(page, index) == 0:
            # This counts clockwise turns.
            turns[-round(angle / (pi / 2)) % 4] += 1
    if not turns:
        return 0
    [(quarters, _)] = turns.most_common(1)
    return quarters


def is_upright(page: Any, letters: int) -> bool:
    """Tell whether some letters of a page run to the right.

    This is enough if letters are not examined one by one.
    """
    from pypdfium2 import raw

    upright = 0
    for at in (1, 2, 3):
        angle = raw.FPDFText_GetCharAngle(page, letters * at // 4)
        upright += 0 <= angle < pi / 4 or angle > 7 * pi / 4
    return upright > 1


def turn_pieces(pieces: Sequence[Piece], quarters: int) -> list[Piece]:
    """Return the pieces of a page with turned text, so that the text runs to the right."""
    return [_turn(*piece, quarters) for piece in pieces]


def stand_side_by_side(pieces: Sequence[Piece], gap: float) -> bool:
    """Tell whether the file draws pairs of pieces with a gap between them below each other.

    `gap` is a share of the height of letters. Without such pairs there are no rows or columns to
    put in order.
    """
    min_width = gap * _find_usual_height(pieces)
    lefts: list[int] = []
    rights: list[int] = []
    upwards = 0
    for (_, _, bottom_before, right_before, top_before), piece in pairwise(pieces):
        _, left, bottom, right, top = piece
        if left <= right_before:
            continue
        if bottom > top_before:
            # This goes to the next column of a table.
            upwards += left - right_before >= min_width
        elif left - right_before >= min_width and top > bottom_before:
            lefts.append(int(left / _ALIGNED))
            rights.append(int(right / _ALIGNED))
    if upwards >= _MIN_UPWARDS:
        return True
    if len(lefts) < _MIN_BESIDE:
        return False
    return max(_count_most_common(lefts), _count_most_common(rights)) >= _MIN_BELOW


def stand_in_columns(pieces: Sequence[Piece]) -> bool:
    """Tell whether the file draws a column, and then another one level with it."""
    column: list[Piece] = []
    rights: dict[int, float] = {}
    level = 0
    for before, piece in pairwise(pieces):
        column.append(before)
        if piece.bottom > before.top and piece.left > before.left:
            # Only some letters have a descender, so either edge counts.
            rights = {}
            for other in column:
                for edge in (round(other.bottom), round(other.top)):
                    rights[edge] = other.right
            column.clear()
            level = 0
        if not rights:
            continue
        edges = (round(piece.bottom), round(piece.top))
        if any(rights.get(edge + near, inf) <= piece.left for edge in edges for near in _NEAR):
            level += 1
            if level >= _MIN_LEVEL:
                return True
    return False


def _find_usual_height(pieces: Sequence[Piece]) -> float:
    if pieces:
        return median([piece.top - piece.bottom for piece in pieces])
    return 0.0


def _count_most_common(numbers: Sequence[int]) -> int:
    """Return how often the most common number occurs, together with its neighbour."""
    counts = Counter(numbers)
    return max(count + counts[number + 1] for number, count in list(counts.items()))


def find_lines(pieces: Sequence[Piece]) -> list[Line]:
    """Return the lines of a page from the top down."""
    lines: list[Line] = []
    bottom = 0.0
    top = 0.0
    highest = _TOO_HIGH * _find_usual_height(pieces)
    for piece in sorted(pieces, key=lambda piece: piece.top + piece.bottom, reverse=True):
        _, left, low, right, high = piece
        height = high - low
        if height < _MIN_SIZE or (height > highest and height > right - left):
            continue
        height_of_line = top - bottom
        shared = (high if high < top else top) - (low if low > bottom else bottom)
        smaller = height if height < height_of_line else height_of_line
        if not lines or shared < _SAME_LINE * smaller:
            bottom = low
            top = high
            lines.append(Line(bottom, top, [piece]))
            continue
        lines[-1].pieces.append(piece)
        if height > height_of_line:
            bottom = low
            top = high
            lines[-1].bottom = bottom
            lines[-1].top = top
    for line in lines:
        line.pieces.sort(key=attrgetter("left"))
    return lines


def find_raised_pieces(pieces: Sequence[Piece]) -> Iterator[int]:
    """Yield the numbers of small pieces that may be marks of notes.

    They seem to stand higher than the previous or the next piece, and touch it.
    """
    for before, piece in pairwise(pieces):
        lift = piece[2] - before[2]
        height_before = before[4] - before[2]
        if lift > _RISE * height_before:
            if _touches(before, piece, height_before) and _is_raised(piece, before):
                yield piece.number
        elif lift < 0.0:
            height = piece[4] - piece[2]
            is_lower = -lift > _RISE * height
            if is_lower and _touches(before, piece, height) and _is_raised(before, piece):
                yield before.number


def _touches(before: Piece, piece: Piece, height: float) -> bool:
    return -0.2 * height < piece.left - before.right < 0.25 * height


def _is_raised(piece: Piece, neighbour: Piece) -> bool:
    height = neighbour.height
    if piece.height >= 0.85 * height or piece.width >= 3 * height:
        return False
    return neighbour.width > _MIN_WORD * height and piece.top > neighbour.top - 0.25 * height
