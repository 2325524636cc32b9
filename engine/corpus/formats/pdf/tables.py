"""Which blocks of a PDF page are tables, and of which lines each row consists; which are prose.

If the file draws columns of prose one after the other, as word processors do, its order is right
and nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby, pairwise
from math import inf
from statistics import median
from typing import NamedTuple

from engine.corpus.formats.pdf.blocks import MAX_PITCH_IN_CELL, Block, Segment, find_blocks
from engine.corpus.formats.pdf.layout import Line, Piece
from engine.corpus.formats.pdf.running_text import are_cells, is_running_text

_MAX_LINES_OF_ROW = 12
# Lines of a cell are closer than this share of the distance of rows.
_CLOSER = 0.85
# Minimum number of lines with several cells if there are two columns, and if there are more.
_MIN_ROWS = 3
_MIN_ROWS_OF_MANY = 2
# Minimum number of rows of a table that is drawn column by column without rules.
_MIN_ROWS_BY_COLUMN = 4
# Maximum width of the numbers and bullets of a list, as a share of the height of letters.
_MAX_LABEL = 2.2
# Minimum width of a column of prose, and of a narrow one, as a share of the height of letters.
_PROSE_WIDTH = 11.0
_NARROW_WIDTH = 4.0
# Minimum width of a line that fills such a column, as a share of the column's width.
_FILLED = 0.8
_NARROW_FILLED = 0.6
# Share of the lines of a column of prose that fill it.
_MIN_FILLED = 0.5
_MIN_PROSE = 4  # lines
# Number of lines of a block whose text is read.
_MAX_READ = 16
# Maximum distance of the lower or the upper edges of cells side by side, as a share of the height
# of letters.
_LEVEL = 0.15
# Share of the rows of a table that is drawn column by column whose cells are level.
_MIN_LEVEL = 0.75
# Minimum distance in points of rules that separate rows; closer ones are a double rule.
_MIN_RULE_DISTANCE = 2.0
# Minimum length of a rule that separates rows, as a share of the width of the block.
_RULE_REACH = 0.5


class Rule(NamedTuple):
    """A horizontal rule of a page."""

    left: float
    right: float
    height: float


ReadRules = Callable[[], Sequence[Rule]]
"""Returns the horizontal rules of the page, which takes time."""
ReadText = Callable[[Segment], str]
"""Returns the text of a segment, which takes time."""


def find_tables_and_prose(
    lines: Sequence[Line],
    read_rules: ReadRules,
    read_text: ReadText,
    is_bullet: Callable[[Piece], bool],
) -> list[Block]:
    """Return the tables of a page with their rows, and columns of prose that are drawn by line.

    All other text stays in the order of drawing. `read_rules`, `read_text` and `is_bullet` are
    called only if the lines leave something open.
    """
    arranged: list[Block] = []
    for block in find_blocks(lines, is_bullet):
        if _arrange(block, read_rules, read_text):
            arranged.append(block)
    return arranged


def _arrange(
    block: Block,
    read_rules: ReadRules,
    read_text: ReadText,
) -> bool:
    """Find the rows of a block, or mark it as prose; return False if it stays as it is drawn.

    What a block is shows mostly in the order in which the file draws it: line by line, cell by cell
    or column by column.
    """
    # Lines with several cells, which may be rows of a table.
    rows = sum(len(cells) > 1 for cells in block.cells)
    min_rows = _MIN_ROWS if block.columns == 2 else _MIN_ROWS_OF_MANY
    if rows < min_rows or _is_list(block):
        return False
    jumps = _count_jumps(block.cells)
    if jumps <= block.columns and rows > 2:
        return _arrange_drawn_columns(block, read_rules, read_text)
    # The first line, with the names of the columns, may be drawn before the columns.
    if rows >= _MIN_ROWS_BY_COLUMN and _count_jumps(block.cells[1:]) < block.columns:
        block.is_drawn_by_column = _has_level_cells(block, read_text)
    is_drawn_by_line = jumps >= rows
    looks_like_prose = False
    if not block.is_drawn_by_column:
        looks_like_prose = _is_prose(block, read_text, is_drawn_by_line)
    rule_heights: list[float] = []
    # Finding the rules of a page takes time, so they are only asked where the lines leave it open.
    if looks_like_prose or _has_doubtful_lines(block):
        rule_heights = _find_row_rules(block, read_rules())
    if looks_like_prose and not rule_heights:
        block.is_prose = True
        return is_drawn_by_line
    return _find_rows(block, rule_heights)


def _is_list(block: Block) -> bool:
    """Return whether a block is a list with numbers or bullets before its items."""
    if block.columns != 2:
        return False
    return max(_measure_widths(block, 0)) <= _MAX_LABEL * block.letter_height


def _arrange_drawn_columns(
    block: Block,
    read_rules: ReadRules,
    read_text: ReadText,
) -> bool:
    """Find the rows of a block whose columns are drawn one after the other, if it is a table.

    The order of drawing is right for prose; a table has rules between its rows, or level cells.
    """
    block.is_drawn_by_column = True
    rule_heights: list[float] = []
    if block.columns > 2 and not _are_filled(block, _PROSE_WIDTH, _FILLED):
        rule_heights = _find_row_rules(block, read_rules())
    if rule_heights or _has_level_cells(block, read_text):
        return _find_rows(block, rule_heights)
    return False


def _is_prose(
    block: Block,
    read_text: ReadText,
    is_drawn_by_line: bool,
) -> bool:
    """Return whether all columns of a block are prose, by the widths of their lines and their text.

    Wide columns are prose unless their text looks like cells. Narrow columns are prose if the file
    draws them line by line and their text goes on from line to line.
    """
    if _are_filled(block, _PROSE_WIDTH, _FILLED):
        return not are_cells(_read_columns(block, read_text))
    if is_drawn_by_line and _are_filled(block, _NARROW_WIDTH, _NARROW_FILLED):
        return all(map(is_running_text, _read_columns(block, read_text)))
    return False


def _has_level_cells(block: Block, read_text: ReadText) -> bool:
    """Return whether a block that is drawn column by column is a table.

    Its cells are level with the cells beside them, and their text looks like cells.
    """
    level = 0
    rows = 0
    # The lines of a single row look like this, too, but they are few.
    for cells in block.cells:
        first, *others = cells.values()
        if others:
            rows += 1
            level += all(_are_level(first, other, block.letter_height) for other in others)
    if rows < _MIN_ROWS_BY_COLUMN or level < _MIN_LEVEL * rows or 2 * rows < len(block.lines):
        return False
    return are_cells(_read_columns(block, read_text))


def _are_level(
    segment: Segment,
    other: Segment,
    letter_height: float,
) -> bool:
    """Return whether two segments stand on one line; only some letters have a descender."""
    piece = segment.pieces[0]
    other_piece = other.pieces[0]
    distance = min(abs(piece.bottom - other_piece.bottom), abs(piece.top - other_piece.top))
    return distance <= _LEVEL * letter_height


def _read_columns(block: Block, read_text: ReadText) -> list[list[str]]:
    """Return the text of the first lines of each column."""
    columns = []
    for column in range(block.columns):
        segments = block.find_column(column)[:_MAX_READ]
        columns.append([read_text(segment) for segment in segments])
    return columns


def _measure_widths(block: Block, column: int) -> list[float]:
    """Return the widths of the segments of a column, a zero if it has none."""
    return [segment.width for segment in block.find_column(column)] or [0.0]


def _are_filled(
    block: Block,
    min_width: float,
    filled: float,
) -> bool:
    """Return whether the columns of a block may be prose by the widths of their lines.

    Each has a width of at least `min_width`, as a share of the height of letters, and most of its
    lines are as wide as the share `filled` of that.
    """
    for column in range(block.columns):
        widths = _measure_widths(block, column)
        # A single line may be out of place, so a tenth of the lines may be wider.
        column_width = sorted(widths)[int(0.9 * (len(widths) - 1))]
        if len(widths) < _MIN_PROSE or column_width < min_width * block.letter_height:
            return False
        filled_lines = sum(width >= filled * column_width for width in widths)
        if filled_lines < _MIN_FILLED * len(widths):
            return False
    return True


def _count_jumps(lines: Sequence[dict[int, Segment]]) -> int:
    """Count how often the file goes on in another column while it draws lines of a block.

    Each line is its segments by column.
    """
    drawn: list[tuple[int, int]] = []
    for cells in lines:
        drawn += [(segment.first, column) for column, segment in cells.items()]
    columns = [column for _, column in sorted(drawn)]
    return sum(before != after for before, after in pairwise(columns))


def _find_row_rules(block: Block, rules: Sequence[Rule]) -> list[float]:
    """Return the heights of the rules that separate the rows of a block, from the top down.

    Empty if there are fewer than two such rules.
    """
    pieces = block.pieces()
    block_left = min(piece.left for piece in pieces)
    block_right = max(piece.right for piece in pieces)
    min_length = _RULE_REACH * (block_right - block_left)
    heights: list[float] = []
    for rule in sorted(rules, key=lambda rule: -rule.height):
        length_at_block = min(rule.right, block_right) - max(rule.left, block_left)
        is_within = block.lines[-1].bottom < rule.height < block.lines[0].top
        is_double = bool(heights) and heights[-1] - rule.height < _MIN_RULE_DISTANCE
        if length_at_block >= min_length and is_within and not is_double:
            heights.append(rule.height)
    return heights if len(heights) >= 2 else []


def _find_rows(block: Block, rule_heights: Sequence[float]) -> bool:
    """Find the rows of a table: each line is a row, unless it continues the row above.

    `rule_heights` are those of rules between rows; lines between two rules may be one row. Return
    False if the block is no table, as it would have one row only, or rows of very many lines.
    """
    max_pitch = min(
        MAX_PITCH_IN_CELL * block.letter_height, _CLOSER * _measure_pitch_of_rows(block)
    )
    for region in _split_at_rules(block, rule_heights):
        if rule_heights and _is_one_row(block, region):
            block.rows.append(region)
            continue
        first, *others = region
        block.rows.append([first])
        for line in others:
            if _continues_row(block, line, max_pitch):
                block.rows[-1].append(line)
            else:
                block.rows.append([line])
    longest = max(map(len, block.rows))
    return longest <= _MAX_LINES_OF_ROW and len(block.rows) >= _MIN_ROWS_OF_MANY


def _split_at_rules(block: Block, rule_heights: Sequence[float]) -> list[list[int]]:
    """Return the indexes of the lines of a block, separated where a rule is between them."""

    def count_rules_above(index: int) -> int:
        """Count the rules above the middle of a line."""
        line = block.lines[index]
        middle = (line.bottom + line.top) / 2
        return sum(height > middle for height in rule_heights)

    regions = groupby(range(len(block.lines)), count_rules_above)
    return [list(region) for _, region in regions]


def _is_one_row(block: Block, region: Sequence[int]) -> bool:
    """Return whether the lines between two rules are one row.

    They are close together, and one of the columns has a single line.
    """
    if len(region) > _MAX_LINES_OF_ROW or not all(map(block.may_be_in_cell, region[1:])):
        return False
    counts: Counter[int] = Counter()
    for line in region:
        counts.update(block.cells[line].keys())
    return min(counts.values()) == 1


def _measure_pitch_of_rows(block: Block) -> float:
    """Return the usual distance of two lines that both have all columns or nearly all.

    Infinite if there are no such lines.
    """
    min_cells = max(2, block.columns - 1)
    pitches: list[float] = []
    for line in range(1, len(block.lines)):
        if min(len(block.cells[line - 1]), len(block.cells[line])) >= min_cells:
            pitches.append(block.measure_pitch(line))
    return median(pitches) if pitches else inf


def _has_doubtful_lines(block: Block) -> bool:
    """Return whether the order of drawing leaves open if a line continues the row above."""
    for line in range(1, len(block.lines)):
        cells = block.cells[line]
        may_continue = len(cells) < block.columns and block.may_be_in_cell(line)
        if may_continue and not all(_is_drawn_on(block, line, column) for column in cells):
            return True
    return False


def _continues_row(
    block: Block,
    line: int,
    max_pitch: float,
) -> bool:
    """Return whether a line belongs to the row of the line above.

    It does if each of its cells is drawn right after the cell above, or if it has no cell in the
    first column and is at most `max_pitch` away from the line above.
    """
    cells = block.cells[line]
    if all(_is_drawn_on(block, line, column) for column in cells):
        return True
    if block.measure_pitch(line) > max_pitch:
        return False
    return 0 not in cells and any(0 in earlier for earlier in block.cells[:line])


def _is_drawn_on(
    block: Block,
    line: int,
    column: int,
) -> bool:
    """Return whether a cell is drawn right after the one above it, before others of that row.

    The file then draws cell by cell, and this is the next line of the same cell.
    """
    row_above = block.cells[line - 1]
    above = row_above.get(column)
    if above is None or block.is_drawn_by_column:
        return False
    if block.cells[line][column].first != above.last + 1:
        return False
    cells_after = [segment for other, segment in row_above.items() if other > column]
    is_row_unfinished = any(segment.first > above.last for segment in cells_after)
    return is_row_unfinished or not cells_after
