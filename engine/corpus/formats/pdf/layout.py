"""Where the text of a PDF page stands: its pieces, as the file draws them, and their lines.

A piece is a text object, for which PDFium gives a rectangle. In most files it has many letters, so
this costs little. All lengths are in points; heights grow from the bottom of the page.
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

# Number of letters of a page, evenly spread, whose direction is read.
_MAX_SAMPLED_LETTERS = 9
# The first letter of a script that may be written downwards.
_FIRST_EAST_ASIAN = 0x2E80
# Number of pieces of a page, evenly spread, whose shape tells if its text may be turned.
_MAX_SAMPLED_PIECES = 60
# A piece of several letters that is so many times as high as wide may have turned text.
_MIN_TALLNESS = 1.5
# Share of the pieces of a page that must be tall.
_MIN_TALL_PIECES = 0.4
# Pieces stand side by side on a page if there are at least so many pairs with a gap between them,
_MIN_PAIRS = 3
# and if so many of these pairs are aligned below each other;
_MIN_ALIGNED_PAIRS = 2
# or if in so many pairs the second piece stands to the right of the first and above it, as the top
# of the next column does.
_MIN_UPWARD_PAIRS = 2
# Width of the strips of a page in which the sides of pieces count as aligned.
_ALIGNMENT = 3.0
# Number of lines of a column that are level with lines of the column before.
_MIN_LEVEL_LINES = 3
# Differences in height, in whole points, of edges that count as level.
_SAME_EDGE = (0, -1, 1)
# A superscript, in shares of the height of the word beside it: how far it stands above the word,
_MIN_LIFT = 0.38
# its height and width,
_MAX_MARK_HEIGHT = 0.85
_MAX_MARK_WIDTH = 3
# how far its top may be below the top of the word,
_MAX_MARK_DROP = 0.25
# and the gap between the two, or their overlap.
_MAX_MARK_GAP = 0.25
_MAX_MARK_OVERLAP = 0.2
# Minimum width of the word that a superscript marks, as a share of its height: a word has several
# letters.
_MIN_WORD_WIDTH = 1.3
# A piece so many times as high as usual, and higher than wide, holds text that runs another way.
_TOO_HIGH = 4
# Share of the height of a piece and of a line, the smaller one, that they have in common.
_MIN_SHARED_HEIGHT = 0.5
_MIN_HEIGHT = 0.1
MAX_PIECES = 8_000
"""Maximum number of pieces of a page that are examined: drawings may have one per letter."""


class Piece(NamedTuple):
    """A text object: its place in the order of drawing, from 0, and on the page."""

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


def turn_pieces(pieces: Sequence[Piece], quarters: int) -> list[Piece]:
    """Return the pieces of a page, turned like `turn_box`."""
    return [Piece(piece.number, *turn_box(piece[1:], quarters)) for piece in pieces]


def turn_box(box: Box, quarters: int) -> Box:
    """Return a box, turned to the right by quarter turns, so that turned text runs to the right."""
    left, bottom, right, top = box
    if quarters == 1:
        return bottom, -right, top, -left
    if quarters == 2:
        return -right, -top, -left, -bottom
    if quarters == 3:
        return -top, left, -bottom, right
    return box


def find_turn(
    page: Any,
    pieces: Sequence[Piece],
    letters: int,
) -> int:
    """Return how most text of a page is turned, in quarter turns to the left.

    `page` is a text page of pypdfium2, and `letters` the number of letters on it.
    """
    from pypdfium2 import raw

    if not page.page.get_rotation():
        # Asking for the direction of letters takes longer than looking at shapes.
        sample = pieces[:: max(1, len(pieces) // _MAX_SAMPLED_PIECES)]
        tall = sum(piece.height > _MIN_TALLNESS * piece.width for piece in sample)
        if tall < _MIN_TALL_PIECES * len(sample):
            return 0
    turns: Counter[int] = Counter()
    step = max(1, letters // _MAX_SAMPLED_LETTERS)
    for index in range(step // 2, letters, step):
        angle = raw.FPDFText_GetCharAngle(page, index)
        if angle >= 0 and raw.FPDFText_IsGenerated(page, index) == 0:
            clockwise_quarters = round(angle / (pi / 2))
            turns[-clockwise_quarters % 4] += 1
    if not turns:
        return 0
    [(quarters, _)] = turns.most_common(1)
    return quarters


def is_upright(page: Any, letters: int) -> bool:
    """Return whether most letters of a page run to the right, by three of them.

    That is enough for a page whose letters are not examined one by one. `page` is a text page of
    pypdfium2, and `letters` the number of letters on it.
    """
    from pypdfium2 import raw

    upright = 0
    for quarter in (1, 2, 3):
        angle = raw.FPDFText_GetCharAngle(page, letters * quarter // 4)
        upright += 0 <= angle < pi / 4 or angle > 7 * pi / 4
    return upright > 1


def runs_downwards(page: Any, letters: int) -> bool:
    """Return whether most letters of a page stand below each other, as Japanese ones may.

    `page` is a text page of pypdfium2, and `letters` the number of letters on it.
    """
    from pypdfium2 import raw

    samples = 0
    downwards = 0
    for index in range(0, letters - 1, letters // _MAX_SAMPLED_LETTERS + 1):
        samples += 1
        if raw.FPDFText_GetUnicode(page, index) >= _FIRST_EAST_ASIAN:
            left, bottom, right, top = page.get_charbox(index)
            next_left, _, next_right, next_top = page.get_charbox(index + 1)
            is_below = next_top < (bottom + top) / 2
            downwards += is_below and left < (next_left + next_right) / 2 < right
    return downwards > samples / 2


def find_tiers(pieces: Sequence[Piece]) -> list[list[Piece]]:
    """Return groups of pieces with gaps between them that are wider than a letter, from the left.

    The gaps are as high as the page.
    """
    ordered = sorted(pieces, key=attrgetter("left"))
    gap = median(piece.height for piece in ordered)
    tiers: list[list[Piece]] = []
    end = -inf
    for piece in ordered:
        if piece.left > end + gap:
            tiers.append([])
        tiers[-1].append(piece)
        end = max(end, piece.right)
    return tiers


def stand_side_by_side(pieces: Sequence[Piece], gap: float) -> bool:
    """Return whether the file draws pairs of pieces with a gap between them, below each other.

    `gap` is a share of the height of letters. Without such pairs there are no rows or columns to
    put in order.
    """
    min_gap = gap * _find_usual_height(pieces)
    lefts: list[int] = []
    rights: list[int] = []
    upward_pairs = 0
    # Unpacked, as properties would be slow: this runs for each pair of pieces.
    for (_, _, bottom_before, right_before, top_before), piece in pairwise(pieces):
        _, left, bottom, right, top = piece
        if left <= right_before:
            continue
        if bottom > top_before:
            # This goes to the next column of a table.
            upward_pairs += left - right_before >= min_gap
        elif left - right_before >= min_gap and top > bottom_before:
            lefts.append(int(left / _ALIGNMENT))
            rights.append(int(right / _ALIGNMENT))
    if upward_pairs >= _MIN_UPWARD_PAIRS:
        return True
    if len(lefts) < _MIN_PAIRS:
        return False
    return max(_count_most_common(lefts), _count_most_common(rights)) >= _MIN_ALIGNED_PAIRS


def stand_in_columns(pieces: Sequence[Piece]) -> bool:
    """Return whether the file draws a column, and then another column to the right of it.

    Some lines of the two columns must be level with each other.
    """
    column: list[Piece] = []
    # The right side of each line of the column before, by the height of its two edges in whole
    # points: only some letters have a descender, so either edge may be level.
    rights: dict[int, float] = {}
    level_lines = 0
    for before, piece in pairwise(pieces):
        column.append(before)
        if piece.bottom > before.top and piece.left > before.left:
            # A new column begins.
            rights = {}
            for other in column:
                for edge in (round(other.bottom), round(other.top)):
                    rights[edge] = other.right
            column.clear()
            level_lines = 0
        if not rights:
            continue
        edges = (round(piece.bottom), round(piece.top))
        if any(rights.get(edge + near, inf) <= piece.left for edge in edges for near in _SAME_EDGE):
            level_lines += 1
            if level_lines >= _MIN_LEVEL_LINES:
                return True
    return False


def _find_usual_height(pieces: Sequence[Piece]) -> float:
    """Return the median height of pieces, 0 without any."""
    if pieces:
        return median([piece.top - piece.bottom for piece in pieces])
    return 0.0


def _count_most_common(strips: Sequence[int]) -> int:
    """Return the largest number of sides of pieces that lie in one strip or the one after it."""
    counts = Counter(strips)
    return max(count + counts[strip + 1] for strip, count in list(counts.items()))


def find_lines(pieces: Sequence[Piece]) -> list[Line]:
    """Return the lines of a page from the top down, without pieces that run another way."""
    lines: list[Line] = []
    # The bottom and the top of the current line.
    bottom = 0.0
    top = 0.0
    max_height = _TOO_HIGH * _find_usual_height(pieces)
    for piece in sorted(pieces, key=lambda piece: piece.top + piece.bottom, reverse=True):
        _, left, piece_bottom, right, piece_top = piece
        height = piece_top - piece_bottom
        if height < _MIN_HEIGHT or (height > max_height and height > right - left):
            continue
        line_height = top - bottom
        # `min` and `max` would be slow: this runs for each piece.
        shared_top = piece_top if piece_top < top else top
        shared_bottom = piece_bottom if piece_bottom > bottom else bottom
        smaller_height = height if height < line_height else line_height
        if not lines or shared_top - shared_bottom < _MIN_SHARED_HEIGHT * smaller_height:
            bottom = piece_bottom
            top = piece_top
            lines.append(Line(bottom, top, [piece]))
            continue
        lines[-1].pieces.append(piece)
        if height > line_height:
            bottom = piece_bottom
            top = piece_top
            lines[-1].bottom = bottom
            lines[-1].top = top
    for line in lines:
        line.pieces.sort(key=attrgetter("left"))
    return lines


def find_raised_pieces(pieces: Sequence[Piece]) -> Iterator[int]:
    """Yield the numbers of small pieces that may be superscripts.

    They stand higher than the previous or the next piece, and touch it.
    """
    for before, piece in pairwise(pieces):
        # By index, as properties would be slow: this runs for each pair of pieces.
        lift = piece[2] - before[2]
        height_before = before[4] - before[2]
        if lift > _MIN_LIFT * height_before:
            if _touches(before, piece, height_before) and _is_raised(piece, before):
                yield piece.number
        elif lift < 0.0:
            height = piece[4] - piece[2]
            is_lower = -lift > _MIN_LIFT * height
            if is_lower and _touches(before, piece, height) and _is_raised(before, piece):
                yield before.number


def _touches(
    before: Piece,
    piece: Piece,
    height: float,
) -> bool:
    """Return whether a piece begins where another ends; `height` is that of the larger one."""
    gap = piece.left - before.right
    return -_MAX_MARK_OVERLAP * height < gap < _MAX_MARK_GAP * height


def _is_raised(piece: Piece, neighbour: Piece) -> bool:
    """Return whether a piece has the size and the place of a superscript beside a word."""
    height = neighbour.height
    if piece.height >= _MAX_MARK_HEIGHT * height or piece.width >= _MAX_MARK_WIDTH * height:
        return False
    if neighbour.width <= _MIN_WORD_WIDTH * height:
        return False
    return piece.top > neighbour.top - _MAX_MARK_DROP * height
