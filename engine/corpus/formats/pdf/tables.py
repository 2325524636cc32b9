"""Which pieces of a PDF page stand in columns: tables, whose rows are kept, and columns of prose
that are drawn line by line.

Columns are told by what stays white: gaps that all lines of a block leave free. Where the file
draws columns of prose one after the other, as word processors do, its order is right and nothing is
changed.
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

GAP = 0.95  # of the height of letters: what parts two cells of a line
_MIN_CORRIDOR = 0.3  # of the height of letters: what all lines of a block leave free
_MAX_PITCH = 4.2  # of the height of letters, from one row to the next
_CONTINUED_PITCH = 1.9  # of the height of letters, within a cell
_OVERLAP = 0.3  # of the height of letters: pieces that are drawn above each other
_MAX_LINES_OF_ROW = 12
_CLOSER = 0.85  # of the pitch of rows: lines of a cell
_MIN_KEPT = 0.6  # of the gaps that a further line must leave free
_MIN_ROWS = 3
_MIN_ROWS_OF_MANY = 2  # where there are three columns or more
_LABEL = 2.2  # of the height of letters: no wider are numbers and bullets of lists
_BULLET = 1.2  # of the height of letters
_LOOKED_AT = 6  # bullets of a column
_MIN_WITH_BULLETS = 3  # columns
_PROSE_WIDTH = 11.0  # of the height of letters
_FILLED = 0.8  # of a column's width
_MIN_FILLED = 0.5  # of the lines of a column of prose
_MIN_PROSE = 4  # lines
_MAX_LINES = 400
_RULE_REACH = 0.5  # of the width of a block

Rules = Sequence[tuple[float, float, float]]
"""Horizontal rules of a page: left, right and height."""


class Segment(NamedTuple):
    """Pieces of a line without a wide gap between them: from left to right, and the first and
    the last that the file draws.
    """

    pieces: tuple[Piece, ...]
    left: float
    right: float
    first: int
    last: int


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
        """All pieces of the block."""
        return [
            piece for cells in self.cells for segment in cells.values() for piece in segment.pieces
        ]


def find_blocks(
    lines: Sequence[Line],
    read_rules: Callable[[], Rules],
    is_bullet: Callable[[Piece], bool] = lambda _: False,
) -> list[Block]:
    """The tables of a page, with the lines of each row, and its columns of prose that are drawn
    line by line.

    `read_rules` is asked for the rules of the page only where they decide, `is_bullet` about
    pieces of narrow columns.
    """
    heights = [line.height for line in lines]
    if not heights or len(lines) > _MAX_LINES:
        return []
    size = median(heights)
    split = [segments_of(line, GAP * size) for line in lines]
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        if len(split[at]) < 2:
            at += 1
            continue
        end, corridors = _grow(lines, split, at, size)
        whole = _block_of(lines[at:end], split[at:end], corridors)
        block = _classify(_join_bullets(whole, size, is_bullet), size, read_rules)
        if block is not None:
            blocks.append(block)
        at = end
    return blocks


def segments_of(line: Line, gap: float) -> list[Segment]:
    """The segments of a line: a gap parts two of them."""
    segments: list[Segment] = []
    pieces: list[Piece] = []
    reach = 0.0
    for piece in line.pieces:
        if pieces and piece.left - reach >= gap:
            segments.append(_segment_of(pieces, reach))
            pieces = []
        if pieces:
            reach = max(reach, piece.right)
        else:
            reach = piece.right
        pieces.append(piece)
    segments.append(_segment_of(pieces, reach))
    return segments


def _segment_of(pieces: Sequence[Piece], right: float) -> Segment:
    """A segment of pieces from left to right; where they lie above each other, they stay in the
    order of drawing.
    """
    left = pieces[0].left
    if len(pieces) == 1:
        return Segment(tuple(pieces), left, right, pieces[0].number, pieces[0].number)
    numbers = [piece.number for piece in pieces]
    if any(
        piece.left < before.right - _OVERLAP * (before.top - before.bottom)
        for before, piece in pairwise(pieces)
    ):
        pieces = sorted(pieces)
    return Segment(tuple(pieces), left, right, min(numbers), max(numbers))


def _grow(
    lines: Sequence[Line], split: Sequence[list[Segment]], start: int, size: float
) -> tuple[int, list[tuple[float, float]]]:
    """Where the block that begins with a line ends, and what all its lines leave free."""
    corridors = [(before.right, after.left) for before, after in pairwise(split[start])]
    corridors = [(-inf, split[start][0].left), *corridors, (split[start][-1].right, inf)]
    end = start + 1
    while end < len(lines):
        if lines[end - 1].bottom - lines[end].bottom > _MAX_PITCH * size:
            break
        left = _left_free(corridors, split[end], _MIN_CORRIDOR * size)
        kept = _inner(left)
        if len(split[end]) == 1:
            least = float(len(_inner(corridors)))
        else:
            least = _MIN_KEPT * len(_inner(corridors))
        if not kept or len(kept) < least:
            break
        corridors = left
        end += 1
    while (
        end > start + 1 and len(split[end - 1]) == 1 and not _continues(lines, split, end - 1, size)
    ):
        end -= 1
    return end, _inner(corridors)


def _inner(corridors: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The gaps between columns, without what is free on either side."""
    return [(left, right) for left, right in corridors if left > -inf and right < inf]


def _continues(lines: Sequence[Line], split: Sequence[list[Segment]], at: int, size: float) -> bool:
    """Whether a line of one segment goes on with a segment of the line above: begins where that
    does, close below.
    """
    if lines[at - 1].bottom - lines[at].bottom > _CONTINUED_PITCH * size:
        return False
    left = split[at][0].left
    return any(abs(above.left - left) < 0.3 * size for above in split[at - 1])


def _left_free(
    corridors: Sequence[tuple[float, float]], segments: Sequence[Segment], least: float
) -> list[tuple[float, float]]:
    """What of some gaps a line leaves free, where that is wide enough."""
    free: list[tuple[float, float]] = []
    for left, right in corridors:
        for segment in segments:
            if segment.right <= left or segment.left >= right:
                continue
            if segment.left - left >= least:
                free.append((left, segment.left))
            left = segment.right
        if right - left >= least:
            free.append((left, right))
    return free


def _block_of(
    lines: Sequence[Line], split: Sequence[list[Segment]], corridors: Sequence[tuple[float, float]]
) -> Block:
    bounds = [(left + right) / 2 for left, right in corridors]
    cells: list[dict[int, Segment]] = []
    for segments in split:
        of_line: dict[int, Segment] = {}
        for segment in segments:
            column = bisect_left(bounds, segment.left)
            if column in of_line:
                pieces = (*of_line[column].pieces, *segment.pieces)
                segment = _segment_of(pieces, max(of_line[column].right, segment.right))
            of_line[column] = segment
        cells.append(of_line)
    return Block(len(bounds) + 1, list(lines), cells)


def _join_bullets(block: Block, size: float, is_bullet: Callable[[Piece], bool]) -> Block:
    """A block whose columns of bullets belong to the columns behind them."""
    if block.columns < _MIN_WITH_BULLETS:
        return block
    for column in range(block.columns - 2, -1, -1):
        bullets = [cells[column] for cells in block.cells if column in cells]
        is_narrow = max((one.right - one.left for one in bullets), default=inf) <= _BULLET * size
        if is_narrow and all(is_bullet(one.pieces[0]) for one in bullets[:_LOOKED_AT]):
            block = _join_columns(block, column)
    return block


def _join_columns(block: Block, column: int) -> Block:
    """A block in which a column and the next are one."""
    joined: list[dict[int, Segment]] = []
    for cells in block.cells:
        pair = [cells[at].pieces for at in (column, column + 1) if at in cells]
        of_line = {
            at - (at > column): cell for at, cell in cells.items() if at not in (column, column + 1)
        }
        if pair:
            pieces = [piece for pieces in pair for piece in pieces]
            of_line[column] = _segment_of(pieces, max(piece.right for piece in pieces))
        joined.append(dict(sorted(of_line.items())))
    return Block(block.columns - 1, block.lines, joined)


def _classify(block: Block, size: float, read_rules: Callable[[], Rules]) -> Block | None:
    """A block with its rows, or as prose in columns; None for one that is to stay as it is
    drawn.
    """
    with_several = sum(len(cells) > 1 for cells in block.cells)
    if with_several < (_MIN_ROWS if block.columns == 2 else _MIN_ROWS_OF_MANY):
        return None
    widths = [_widths(block, column) for column in range(block.columns)]
    if block.columns == 2 and max(widths[0]) <= _LABEL * size:
        return None
    jumps = _jumps(block)
    is_drawn_by_column = jumps <= block.columns and with_several > 2
    block.is_drawn_by_column = is_drawn_by_column
    is_prose = all(_is_prose(of_column, size) for of_column in widths)
    if is_drawn_by_column and (is_prose or block.columns == 2):
        return None
    if is_prose or is_drawn_by_column:
        if _bands(block, read_rules()):
            return _as_table(block, size, read_rules())
        block.is_prose = is_prose
        if is_prose and jumps >= with_several:
            return block
        return None
    needs_rules = any(_is_doubtful(block, at, size) for at in range(1, len(block.lines)))
    return _as_table(block, size, read_rules() if needs_rules else ())


def _is_doubtful(block: Block, at: int, size: float) -> bool:
    """Whether a line may go on with the row above, and the order of drawing does not say so."""
    cells = block.cells[at]
    if (
        len(cells) == block.columns
        or block.lines[at - 1].bottom - block.lines[at].bottom > _CONTINUED_PITCH * size
    ):
        return False
    return not all(_is_drawn_on(block, at, column) for column in cells)


def _widths(block: Block, column: int) -> list[float]:
    segments = (cells[column] for cells in block.cells if column in cells)
    return [segment.right - segment.left for segment in segments] or [0.0]


def _is_prose(widths: Sequence[float], size: float) -> bool:
    """Whether a column of such lines is prose: wide, and most lines as wide as it."""
    widest = sorted(widths)[int(0.9 * (len(widths) - 1))]  # a single line may be out of place
    filled = sum(width >= _FILLED * widest for width in widths)
    return (
        len(widths) >= _MIN_PROSE
        and widest >= _PROSE_WIDTH * size
        and filled >= _MIN_FILLED * len(widths)
    )


def _jumps(block: Block) -> int:
    """How often the file goes to another column when it draws a block."""
    columns = [
        (segment.first, column) for cells in block.cells for column, segment in cells.items()
    ]
    columns.sort()
    return sum(before[1] != after[1] for before, after in pairwise(columns))


def _bands(block: Block, rules: Rules) -> list[float]:
    """The heights of rules between the lines of a block, from the top down: what parts its rows."""
    pieces = block.pieces()
    left = min(piece.left for piece in pieces)
    right = max(piece.right for piece in pieces)
    heights: list[float] = []
    for begin, end, height in sorted(rules, key=lambda rule: -rule[2]):
        reaches = min(end, right) - max(begin, left) >= _RULE_REACH * (right - left)
        within = block.lines[-1].bottom < height < block.lines[0].top
        if reaches and within and not (heights and heights[-1] - height < 2):
            heights.append(height)
    return heights if len(heights) >= 2 else []


def _as_table(block: Block, size: float, rules: Rules) -> Block | None:
    """A table with its rows: each line is one, but for those that go on with the row above.

    None for what would have rows of very many lines, or a single row: it is no table.
    """
    if rules:
        bands = _bands(block, rules)
    else:
        bands = []
    pitch = min(_CONTINUED_PITCH * size, _CLOSER * _pitch_of_rows(block))
    for region in _regions(block, bands):
        if bands and _is_one_row(block, region, size):
            block.rows.append(region)
            continue
        first = len(block.rows)
        for at in region:
            if len(block.rows) > first and _goes_on(block, at, pitch):
                block.rows[-1].append(at)
            else:
                block.rows.append([at])
    longest = max(map(len, block.rows))
    if longest > _MAX_LINES_OF_ROW or len(block.rows) < _MIN_ROWS_OF_MANY:
        return None
    return block


def _regions(block: Block, bands: Sequence[float]) -> list[list[int]]:
    """The lines of a block, parted by rules."""
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
    """Whether the lines between two rules are one row: close together, and a single line in one
    of the columns.
    """
    if len(region) > _MAX_LINES_OF_ROW:
        return False
    for above, line in pairwise(region):
        if block.lines[above].bottom - block.lines[line].bottom > _CONTINUED_PITCH * size:
            return False
    columns = Counter(column for at in region for column in block.cells[at])
    return min(columns.values()) == 1


def _pitch_of_rows(block: Block) -> float:
    """From one line to the next, where both have all columns or nearly all; infinite where none
    do.
    """
    pitches = [
        above.bottom - line.bottom
        for (above, line), (more, cells) in zip(
            pairwise(block.lines), pairwise(block.cells), strict=True
        )
        if min(len(more), len(cells)) >= max(2, block.columns - 1)
    ]
    if pitches:
        return median(pitches)
    return inf


def _goes_on(block: Block, at: int, pitch: float) -> bool:
    """Whether a line belongs to the row of the line above, which is no further off than `pitch`
    if so.
    """
    cells = block.cells[at]
    if all(_is_drawn_on(block, at, column) for column in cells):
        return True
    if block.lines[at - 1].bottom - block.lines[at].bottom > pitch:
        return False
    return 0 not in cells and any(0 in earlier for earlier in block.cells[:at])


def _is_drawn_on(block: Block, at: int, column: int) -> bool:
    """Whether a segment is drawn right behind the one above it, before the next cell of the row
    above.
    """
    above = block.cells[at - 1].get(column)
    if above is None or block.is_drawn_by_column or block.cells[at][column].first != above.last + 1:
        return False
    later = [segment for other, segment in block.cells[at - 1].items() if other > column]
    return not later or any(segment.first > above.last for segment in later)
