"""Pieces of a PDF page that stand in columns: tables, and prose that is drawn line by line.

Columns are recognised by white space: gaps that all lines of a block leave free. If the file draws
columns of prose one after the other, as word processors do, its order is right and nothing is
changed. Long, because the steps from lines to rows share the shape of a block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from statistics import median
from typing import NamedTuple

from engine.corpus.formats.pdf.layout import Line, Piece
from engine.corpus.formats.pdf.running_text import are_cells, is_running_text

# Gap that separates two cells of a line, as a share of the height of letters.
GAP = 0.95
# Gap that all lines of a block leave free, as a share of the height of letters.
_MIN_CORRIDOR = 0.3
# Distance from one row to the next, as a share of the height of letters.
_MAX_PITCH = 4.2
# Distance of two lines within a cell, as a share of the height of letters.
_CONTINUED_PITCH = 1.9
# Overlap of pieces that are drawn above each other, as a share of the height of letters.
_OVERLAP = 0.3
_MAX_LINES_OF_ROW = 12
# Lines of a cell are closer than this share of the pitch of rows.
_CLOSER = 0.85
# Share of the gaps that a further line must leave free.
_MIN_KEPT = 0.6
_MIN_ROWS = 3
# Minimum number of rows if there are three columns or more.
_MIN_ROWS_OF_MANY = 2
# Minimum number of rows of a table that is drawn column by column without rules.
_MIN_ROWS_BY_COLUMN = 4
# Numbers and bullets of lists are at most so many times as wide as letters are high.
_LABEL = 2.2
# As a share of the height of letters.
_BULLET = 1.2
# Number of bullets of a column that are examined.
_MAX_EXAMINED = 6
_MIN_WITH_BULLETS = 3  # columns
# As a share of the height of letters.
_PROSE_WIDTH = 11.0
_NARROW_WIDTH = 4.0
# As a share of a column's width.
_FILLED = 0.8
_NARROW_FILLED = 0.6
# Share of the lines of a column of prose.
_MIN_FILLED = 0.5
_MIN_PROSE = 4  # lines
_MAX_LINES = 400
# Number of lines of a block whose text is read.
_MAX_READ = 16
# Distance of the lower or the upper edges of cells side by side, as a share of the height of
# letters.
_LEVEL = 0.15
# Share of the rows of a table that is drawn column by column whose cells are level.
_MIN_LEVEL = 0.75
# Minimum distance in points of rules that separate rows; closer ones are a double rule.
_MIN_BAND = 2.0
# As a share of the width of a block.
_RULE_REACH = 0.5

Rules = Sequence[tuple[float, float, float]]
"""Horizontal rules of a page: left, right and height."""
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


@dataclass(slots=True)
class Block:
    """Lines that leave the same gaps free, from the top down; each as its segments by column."""

    columns: int
    lines: list[Line]
    cells: list[dict[int, Segment]]
    is_prose: bool = False
    is_drawn_by_column: bool = False
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

    def measure_pitch(self, at: int) -> float:
        """Return the distance of a line from the line above."""
        return self.lines[at - 1].bottom - self.lines[at].bottom


def find_blocks(
    lines: Sequence[Line],
    read_rules: Callable[[], Rules],
    read_text: Callable[[Segment], str] = lambda _: "",
    is_bullet: Callable[[Piece], bool] = lambda _: False,
) -> list[Block]:
    """Return the tables of a page with the lines of each row, and columns of prose.

    The prose is drawn line by line. `read_rules` is called for the rules of the page only if they
    decide, `read_text` for the text of columns likewise, `is_bullet` for pieces of narrow columns.
    """
    heights = [line.height for line in lines]
    if not heights or len(lines) > _MAX_LINES:
        return []
    size = median(heights)
    split = [split_segments(line, GAP * size) for line in lines]
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        if len(split[at]) < 2:
            at += 1
            continue
        end, corridors = _grow(lines, split, at, size)
        whole = _make_block(lines[at:end], split[at:end], corridors)
        joined = _join_bullets(whole, size, is_bullet)
        block = _classify(joined, size, read_rules, read_text)
        if block is not None:
            blocks.append(block)
        at = end
    return blocks


def split_segments(line: Line, gap: float) -> list[Segment]:
    """Return the segments of a line, which gaps separate."""
    segments: list[Segment] = []
    pieces: list[Piece] = []
    reach = 0.0
    for piece in line.pieces:
        if pieces and piece.left - reach >= gap:
            segments.append(_make_segment(pieces, reach))
            pieces = []
        reach = max(reach, piece.right) if pieces else piece.right
        pieces.append(piece)
    segments.append(_make_segment(pieces, reach))
    return segments


def _make_segment(pieces: Sequence[Piece], right: float) -> Segment:
    """Make a segment of pieces from left to right.

    Pieces that lie above each other stay in the order of drawing.
    """
    left = pieces[0].left
    if len(pieces) == 1:
        number = pieces[0].number
        return Segment(tuple(pieces), left, right, number, number)
    numbers = [piece.number for piece in pieces]
    for before, piece in pairwise(pieces):
        if piece.left < before.right - _OVERLAP * before.height:
            pieces = sorted(pieces)
            break
    return Segment(tuple(pieces), left, right, min(numbers), max(numbers))


def _grow(
    lines: Sequence[Line], split: Sequence[list[Segment]], start: int, size: float
) -> tuple[int, list[_Gap]]:
    """Return where the block that begins with a line ends, and the gaps in all its lines."""
    first = split[start]
    corridors = [(before.right, after.left) for before, after in pairwise(first)]
    corridors = [(-inf, first[0].left), *corridors, (first[-1].right, inf)]
    end = start + 1
    while end < len(lines):
        segments = split[end]
        if lines[end - 1].bottom - lines[end].bottom > _MAX_PITCH * size:
            break
        free = _find_free_gaps(corridors, segments, _MIN_CORRIDOR * size)
        kept = len(_select_inner(free))
        before = len(_select_inner(corridors))
        min_kept = before if len(segments) == 1 else _MIN_KEPT * before
        if not kept or kept < min_kept:
            break
        corridors = free
        end += 1
    # Lines of one segment at the end belong to the block only if they continue a cell.
    while end > start + 1 and len(split[end - 1]) == 1:
        if _continues(lines, split, end - 1, size):
            break
        end -= 1
    return end, _select_inner(corridors)


def _select_inner(corridors: Sequence[_Gap]) -> list[_Gap]:
    """Return the gaps between columns, without the free space on either side."""
    return [(left, right) for left, right in corridors if left > -inf and right < inf]


def _continues(lines: Sequence[Line], split: Sequence[list[Segment]], at: int, size: float) -> bool:
    """Tell whether a line of one segment continues a segment of the line above.

    It then begins where that segment does, close below it.
    """
    if lines[at - 1].bottom - lines[at].bottom > _CONTINUED_PITCH * size:
        return False
    left = split[at][0].left
    return any(abs(above.left - left) < 0.3 * size for above in split[at - 1])


def _find_free_gaps(
    corridors: Sequence[_Gap], segments: Sequence[Segment], min_width: float
) -> list[_Gap]:
    """Return the parts of gaps that a line leaves free, if they are wide enough."""
    free: list[_Gap] = []
    for left, right in corridors:
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
    lines: Sequence[Line], split: Sequence[list[Segment]], corridors: Sequence[_Gap]
) -> Block:
    bounds = [(left + right) / 2 for left, right in corridors]
    cells: list[dict[int, Segment]] = []
    for segments in split:
        of_line: dict[int, Segment] = {}
        for segment in segments:
            column = bisect_left(bounds, segment.left)
            before = of_line.get(column)
            if before is not None:
                pieces = (*before.pieces, *segment.pieces)
                segment = _make_segment(pieces, max(before.right, segment.right))
            of_line[column] = segment
        cells.append(of_line)
    return Block(len(bounds) + 1, list(lines), cells)


def _join_bullets(block: Block, size: float, is_bullet: Callable[[Piece], bool]) -> Block:
    """Join columns of bullets with the columns after them."""
    if block.columns < _MIN_WITH_BULLETS:
        return block
    for column in range(block.columns - 2, -1, -1):
        segments = block.find_column(column)
        widest = max((segment.width for segment in segments), default=inf)
        if widest > _BULLET * size:
            continue
        if all(is_bullet(segment.pieces[0]) for segment in segments[:_MAX_EXAMINED]):
            block = _join_columns(block, column)
    return block


def _join_columns(block: Block, column: int) -> Block:
    """Join a column of a block with the next."""
    lines: list[dict[int, Segment]] = []
    for cells in block.cells:
        of_line: dict[int, Segment] = {}
        pieces: list[Piece] = []
        for other, segment in sorted(cells.items()):
            if other in (column, column + 1):
                pieces += segment.pieces
                of_line[column] = segment
            else:
                of_line[other - (other > column)] = segment
        if pieces:
            of_line[column] = _make_segment(pieces, max(piece.right for piece in pieces))
        lines.append(of_line)
    return Block(block.columns - 1, block.lines, lines)


def _classify(
    block: Block,
    size: float,
    read_rules: Callable[[], Rules],
    read_text: Callable[[Segment], str],
) -> Block | None:
    """Return a block with its rows, or as prose in columns.

    None for a block that stays as it is drawn.
    """
    with_several = sum(len(cells) > 1 for cells in block.cells)
    min_rows = _MIN_ROWS if block.columns == 2 else _MIN_ROWS_OF_MANY
    if with_several < min_rows:
        return None
    widths = [_measure_widths(block, column) for column in range(block.columns)]
    if block.columns == 2 and max(widths[0]) <= _LABEL * size:
        return None
    jumps = _count_jumps(block)
    is_wide = all(_is_prose(of_column, size) for of_column in widths)
    block.is_drawn_by_column = jumps <= block.columns and with_several > 2
    if block.is_drawn_by_column:
        if not is_wide and block.columns > 2 and _find_bands(block, read_rules()):
            return _make_table(block, size, read_rules())
        return _make_table(block, size, ()) if _has_cells(block, size, read_text) else None
    # The heads of a table may be drawn before its columns.
    if with_several >= _MIN_ROWS_BY_COLUMN and _count_jumps(block, 1) < block.columns:
        block.is_drawn_by_column = _has_cells(block, size, read_text)
    is_by_line = jumps >= with_several
    may_be_prose = is_wide or (is_by_line and all(_is_filled(lines, size) for lines in widths))
    if (
        may_be_prose
        and not block.is_drawn_by_column
        and _is_running(block, read_text, is_wide=is_wide)
    ):
        if _find_bands(block, read_rules()):
            return _make_table(block, size, read_rules())
        block.is_prose = True
        return block if is_by_line else None
    needs_rules = any(_is_doubtful(block, at, size) for at in range(1, len(block.lines)))
    return _make_table(block, size, read_rules() if needs_rules else ())


def _is_running(block: Block, read_text: Callable[[Segment], str], *, is_wide: bool) -> bool:
    """Tell whether all columns of a block are prose.

    Wide columns are, unless their text looks like cells.
    """
    columns = _read_columns(block, read_text)
    if is_wide:
        return not are_cells(columns)
    return all(map(is_running_text, columns))


def _has_cells(block: Block, size: float, read_text: Callable[[Segment], str]) -> bool:
    """Tell whether a block that is drawn column by column is a table: level cells side by side."""
    level = 0
    rows = 0
    # The lines of a single row look like this, too, but they are few.
    for cells in block.cells:
        segments = list(cells.values())
        if len(segments) > 1:
            rows += 1
            level += all(_is_level(segments[0], other, size) for other in segments[1:])
    if rows < _MIN_ROWS_BY_COLUMN or level < _MIN_LEVEL * rows or 2 * rows < len(block.lines):
        return False
    return are_cells(_read_columns(block, read_text))


def _is_level(segment: Segment, other: Segment, size: float) -> bool:
    """Tell whether two segments stand on one line; only some letters have a descender."""
    piece = segment.pieces[0]
    other_piece = other.pieces[0]
    distance = min(abs(piece.bottom - other_piece.bottom), abs(piece.top - other_piece.top))
    return distance <= _LEVEL * size


def _read_columns(block: Block, read_text: Callable[[Segment], str]) -> list[list[str]]:
    """Return the text of the first lines of each column."""
    columns: list[list[str]] = []
    for column in range(block.columns):
        segments = block.find_column(column)[:_MAX_READ]
        columns.append([read_text(segment) for segment in segments])
    return columns


def _is_doubtful(block: Block, at: int, size: float) -> bool:
    """Tell whether a line may continue the row above, undecided by the order of drawing."""
    cells = block.cells[at]
    if len(cells) == block.columns or block.measure_pitch(at) > _CONTINUED_PITCH * size:
        return False
    return not all(_is_drawn_on(block, at, column) for column in cells)


def _measure_widths(block: Block, column: int) -> list[float]:
    return [segment.width for segment in block.find_column(column)] or [0.0]


def _is_prose(widths: Sequence[float], size: float) -> bool:
    """Tell whether a column of such lines is prose: wide, with most lines as wide as the column."""
    # A single line may be out of place.
    widest = sorted(widths)[int(0.9 * (len(widths) - 1))]
    filled = sum(width >= _FILLED * widest for width in widths)
    if len(widths) < _MIN_PROSE or widest < _PROSE_WIDTH * size:
        return False
    return filled >= _MIN_FILLED * len(widths)


def _is_filled(widths: Sequence[float], size: float) -> bool:
    """Tell whether a column of such lines may be narrow prose."""
    widest = sorted(widths)[int(0.9 * (len(widths) - 1))]
    if len(widths) < _MIN_PROSE or widest < _NARROW_WIDTH * size:
        return False
    return sum(width >= _NARROW_FILLED * widest for width in widths) >= _MIN_FILLED * len(widths)


def _count_jumps(block: Block, start: int = 0) -> int:
    """Count how often the file goes to another column when it draws the lines from `start` on."""
    drawn: list[tuple[int, int]] = []
    for cells in block.cells[start:]:
        drawn += [(segment.first, column) for column, segment in cells.items()]
    columns = [column for _, column in sorted(drawn)]
    return sum(before != after for before, after in pairwise(columns))


def _find_bands(block: Block, rules: Rules) -> list[float]:
    """Return the heights of rules that separate the rows of a block, from the top down."""
    pieces = block.pieces()
    left = min(piece.left for piece in pieces)
    right = max(piece.right for piece in pieces)
    heights: list[float] = []
    for begin, end, height in sorted(rules, key=lambda rule: -rule[2]):
        is_long = min(end, right) - max(begin, left) >= _RULE_REACH * (right - left)
        is_within = block.lines[-1].bottom < height < block.lines[0].top
        is_double = bool(heights) and heights[-1] - height < _MIN_BAND
        if is_long and is_within and not is_double:
            heights.append(height)
    return heights if len(heights) >= 2 else []


def _make_table(block: Block, size: float, rules: Rules) -> Block | None:
    """Return a table with its rows: each line is a row, unless it continues the row above.

    None if it would have rows of very many lines, or a single row, since that is not a table.
    """
    bands: list[float] = []
    if rules:
        bands = _find_bands(block, rules)
    pitch = min(_CONTINUED_PITCH * size, _CLOSER * _measure_pitch(block))
    for region in _split_regions(block, bands):
        if bands and _is_one_row(block, region, size):
            block.rows.append(region)
            continue
        first = len(block.rows)
        for at in region:
            if len(block.rows) > first and _continues_row(block, at, pitch):
                block.rows[-1].append(at)
            else:
                block.rows.append([at])
    longest = max(map(len, block.rows))
    if longest > _MAX_LINES_OF_ROW or len(block.rows) < _MIN_ROWS_OF_MANY:
        return None
    return block


def _split_regions(block: Block, bands: Sequence[float]) -> list[list[int]]:
    """Return the lines of a block, separated by rules."""
    regions: list[list[int]] = []
    number = -1
    for at, line in enumerate(block.lines):
        middle = (line.bottom + line.top) / 2
        above = sum(band > middle for band in bands)
        if above != number:
            regions.append([])
            number = above
        regions[-1].append(at)
    return regions


def _is_one_row(block: Block, region: Sequence[int], size: float) -> bool:
    """Tell whether the lines between two rules are one row.

    They are close together, and one of the columns has a single line.
    """
    if len(region) > _MAX_LINES_OF_ROW:
        return False
    if any(block.measure_pitch(at) > _CONTINUED_PITCH * size for at in region[1:]):
        return False
    counts: Counter[int] = Counter()
    for at in region:
        counts.update(block.cells[at].keys())
    return min(counts.values()) == 1


def _measure_pitch(block: Block) -> float:
    """Return the distance of two lines that both have all columns or nearly all.

    Infinite without such lines.
    """
    min_cells = max(2, block.columns - 1)
    pitches: list[float] = []
    for at in range(1, len(block.lines)):
        if min(len(block.cells[at - 1]), len(block.cells[at])) >= min_cells:
            pitches.append(block.measure_pitch(at))
    if pitches:
        return median(pitches)
    return inf


def _continues_row(block: Block, at: int, pitch: float) -> bool:
    """Tell whether a line belongs to the row of the line above, at most `pitch` away."""
    cells = block.cells[at]
    if all(_is_drawn_on(block, at, column) for column in cells):
        return True
    if block.measure_pitch(at) > pitch:
        return False
    return 0 not in cells and any(0 in earlier for earlier in block.cells[:at])


def _is_drawn_on(block: Block, at: int, column: int) -> bool:
    """Tell whether a segment is drawn right after the one above it.

    It is then drawn before the next cell of the row above.
    """
    row_above = block.cells[at - 1]
    above = row_above.get(column)
    if above is None or block.is_drawn_by_column:
        return False
    if block.cells[at][column].first != above.last + 1:
        return False
    later = [segment for other, segment in row_above.items() if other > column]
    return not later or any(segment.first > above.last for segment in later)
