"""Blocks of a PDF page: lines below each other whose pieces stand in columns.

Columns are recognised by white space: gaps that all lines of a block leave free. All distances are
in points.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

from engine.corpus.formats.pdf.layout import Line, Piece

# Lengths as shares of the height of letters.
GAP = 0.95  # Between two segments of a line.
_MIN_FREE_GAP = 0.3  # Left free by all lines of a block.
_MAX_PITCH = 4.2  # From one line of a block to the next.
MAX_PITCH_IN_CELL = 1.9  # From one line of a cell to the next.
_SAME_LEFT = 0.3  # Difference of the left sides of the lines of a cell.
_OVERLAP = 0.3  # Of pieces that are drawn above each other, as for bold letters.
_MAX_BULLET = 1.2  # The width of a bullet.
# Share of the gaps of a block that a further line must leave free.
_MIN_KEPT_GAPS = 0.6
# Number of bullets of a column that are examined.
_MAX_EXAMINED = 6
# Bullets are looked for only in blocks with at least this many columns.
_MIN_COLUMNS_WITH_BULLETS = 3
# A page with more lines has no columns that are worth the time.
_MAX_LINES = 400

# The left and the right side of a gap.
_Gap = tuple[float, float]


class Segment(NamedTuple):
    """Pieces of a line without a wide gap between them, from left to right.

    `first` and `last` are the numbers of the pieces that the file draws first and last.
    """

    pieces: tuple[Piece, ...]
    left: float
    right: float
    first: int
    last: int

    @property
    def width(self) -> float:
        """The width in points."""
        return self.right - self.left


class _SplitLine(NamedTuple):
    """A line, and its segments from left to right."""

    line: Line
    segments: list[Segment]


@dataclass(slots=True)
class Block:
    """Lines below each other that leave the same gaps free.

    `find_blocks` sets the first four fields, `find_tables_and_prose` the others.
    """

    # The median height of the page's lines.
    letter_height: float
    # The number of columns.
    columns: int
    # The lines from the top down, and of each line its segments by column.
    lines: list[Line]
    cells: list[dict[int, Segment]]
    # Whether the columns are prose, and not those of a table.
    is_prose: bool = False
    # Whether the file draws one column after the other.
    is_drawn_by_column: bool = False
    # The rows of a table, each as the indexes of its lines.
    rows: list[list[int]] = field(default_factory=list)

    def pieces(self) -> list[Piece]:
        """Return all pieces of the block."""
        pieces: list[Piece] = []
        for cells in self.cells:
            for segment in cells.values():
                pieces += segment.pieces
        return pieces

    def find_column(self, column: int) -> list[Segment]:
        """Return the segments of a column."""
        return [cells[column] for cells in self.cells if column in cells]

    def measure_pitch(self, line: int) -> float:
        """Return the distance of a line, by its index, from the line above."""
        return self.lines[line - 1].bottom - self.lines[line].bottom

    def may_be_in_cell(self, line: int) -> bool:
        """Return whether a line is close enough to the line above to be in the same cell."""
        return self.measure_pitch(line) <= MAX_PITCH_IN_CELL * self.letter_height


def find_blocks(lines: Sequence[Line], is_bullet: Callable[[Piece], bool]) -> Iterator[Block]:
    """Yield the blocks of two columns or more among the lines of a page.

    `is_bullet` is called for pieces of narrow columns, which are joined with the columns after
    them.
    """
    if not lines or len(lines) > _MAX_LINES:
        return
    letter_height = median([line.height for line in lines])
    split_lines = [_SplitLine(line, split_segments(line, GAP * letter_height)) for line in lines]
    start = 0
    while start < len(split_lines):
        if len(split_lines[start].segments) < 2:
            start += 1
            continue
        end, gaps = _find_end(split_lines, start, letter_height)
        block = _make_block(
            split_lines[start:end],
            gaps,
            letter_height,
        )
        yield _join_bullets(block, is_bullet)
        start = end


def split_segments(line: Line, min_gap: float) -> list[Segment]:
    """Return the segments of a line, which gaps of at least `min_gap` separate."""
    segments: list[Segment] = []
    pieces: list[Piece] = []
    right = 0.0
    for piece in line.pieces:
        if pieces and piece.left - right >= min_gap:
            segments.append(_make_segment(pieces, right))
            pieces = []
        right = max(right, piece.right) if pieces else piece.right
        pieces.append(piece)
    segments.append(_make_segment(pieces, right))
    return segments


def _make_segment(pieces: Sequence[Piece], right: float) -> Segment:
    """Make a segment of pieces from left to right; `right` is the right side of them all.

    If pieces lie above each other, all are put in the order of drawing.
    """
    left = pieces[0].left
    if len(pieces) == 1:
        number = pieces[0].number
        return Segment(
            tuple(pieces),
            left,
            right,
            number,
            number,
        )
    numbers = [piece.number for piece in pieces]
    for before, piece in pairwise(pieces):
        if piece.left < before.right - _OVERLAP * before.height:
            pieces = sorted(pieces)
            break
    return Segment(
        tuple(pieces),
        left,
        right,
        min(numbers),
        max(numbers),
    )


def _find_end(
    lines: Sequence[_SplitLine], start: int, letter_height: float
) -> tuple[int, list[_Gap]]:
    """Return the index after the last line of the block that begins at `start`, and its gaps."""
    first = lines[start].segments
    gaps = [(gap_count.right, after.left) for gap_count, after in pairwise(first)]
    # A further line may have cells on either side of the first one.
    gaps = [
        (-inf, first[0].left),
        *gaps,
        (first[-1].right, inf),
    ]
    end = start + 1
    while end < len(lines):
        segments = lines[end].segments
        if lines[end - 1].line.bottom - lines[end].line.bottom > _MAX_PITCH * letter_height:
            break
        free = _find_free_gaps(
            gaps,
            segments,
            _MIN_FREE_GAP * letter_height,
        )
        free_count = len(_select_inner(free))
        gap_count = len(_select_inner(gaps))
        min_free_count = gap_count if len(segments) == 1 else _MIN_KEPT_GAPS * gap_count
        if not free_count or free_count < min_free_count:
            break
        gaps = free
        end += 1
    # Lines of one segment at the end belong to the block only if they continue a cell. The first
    # line has more.
    while len(lines[end - 1].segments) == 1:
        if _continues_cell(lines[end - 2], lines[end - 1], letter_height):
            break
        end -= 1
    return end, _select_inner(gaps)


def _select_inner(gaps: Sequence[_Gap]) -> list[_Gap]:
    """Return the gaps between columns, without the free space on either side."""
    return [(left, right) for left, right in gaps if left > -inf and right < inf]


def _continues_cell(
    above: _SplitLine,
    line: _SplitLine,
    letter_height: float,
) -> bool:
    """Return whether a line of one segment continues a cell of the line above.

    It is close to that line, and begins at the left side of one of its segments.
    """
    if above.line.bottom - line.line.bottom > MAX_PITCH_IN_CELL * letter_height:
        return False
    left = line.segments[0].left
    return any(abs(segment.left - left) < _SAME_LEFT * letter_height for segment in above.segments)


def _find_free_gaps(
    gaps: Sequence[_Gap], segments: Sequence[Segment], min_width: float
) -> list[_Gap]:
    """Return the parts of gaps that the segments of a line leave free, if they are wide enough."""
    free: list[_Gap] = []
    for left, right in gaps:
        for segment in segments:
            if segment.right <= left or segment.left >= right:
                continue
            if segment.left - left >= min_width:
                free.append((left, segment.left))
            left = segment.right
        if right - left >= min_width:
            free.append((left, right))
    return free


def _make_block(
    lines: Sequence[_SplitLine],
    gaps: Sequence[_Gap],
    letter_height: float,
) -> Block:
    """Make a block of lines, whose gaps separate its columns."""
    bounds = [(left + right) / 2 for left, right in gaps]
    cells: list[dict[int, Segment]] = []
    for line in lines:
        cells_of_line: dict[int, Segment] = {}
        for segment in line.segments:
            column = bisect_left(bounds, segment.left)
            before = cells_of_line.get(column)
            if before is not None:
                pieces = (*before.pieces, *segment.pieces)
                segment = _make_segment(pieces, max(before.right, segment.right))
            cells_of_line[column] = segment
        cells.append(cells_of_line)
    return Block(
        letter_height,
        len(bounds) + 1,
        [line.line for line in lines],
        cells,
    )


def _join_bullets(block: Block, is_bullet: Callable[[Piece], bool]) -> Block:
    """Join columns of bullets with the columns after them."""
    if block.columns < _MIN_COLUMNS_WITH_BULLETS:
        return block
    for column in reversed(range(block.columns - 1)):
        segments = block.find_column(column)
        widest = max((segment.width for segment in segments), default=inf)
        if widest > _MAX_BULLET * block.letter_height:
            continue
        if all(is_bullet(segment.pieces[0]) for segment in segments[:_MAX_EXAMINED]):
            block = _join_with_next(block, column)
    return block


def _join_with_next(block: Block, column: int) -> Block:
    """Return a block with one of its columns joined with the next."""
    cells: list[dict[int, Segment]] = []
    for cells_of_line in block.cells:
        joined: dict[int, Segment] = {}
        pieces: list[Piece] = []
        for other_column, segment in cells_of_line.items():
            if other_column in (column, column + 1):
                pieces += segment.pieces
            else:
                joined[other_column - 1 if other_column > column else other_column] = segment
        if pieces:
            joined[column] = _make_segment(pieces, max(piece.right for piece in pieces))
        cells.append(dict(sorted(joined.items())))
    return Block(
        block.letter_height,
        block.columns - 1,
        block.lines,
        cells,
    )
