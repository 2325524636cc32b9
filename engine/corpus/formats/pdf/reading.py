"""The text of a PDF page as a reader sees it: with rows of tables, columns, and superscripts.

Text that is turned is read in its own direction. PDFium's own text stays if none of these is on the
page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import chain, pairwise
from typing import Any

from engine.corpus.formats.pdf.blocks import GAP, Block, Segment
from engine.corpus.formats.pdf.calls import TextPage
from engine.corpus.formats.pdf.layout import (
    MAX_PIECES,
    Piece,
    find_lines,
    find_tiers,
    find_turn,
    is_upright,
    read_pieces,
    runs_downwards,
    stand_in_columns,
    stand_side_by_side,
)
from engine.corpus.formats.pdf.page_text import PageText, has_accents
from engine.corpus.formats.pdf.rules import read_rules
from engine.corpus.formats.pdf.tables import find_tables_and_prose
from engine.corpus.text.hyphens import LINE_END

# With fewer pieces for each line that PDFium finds, a line is mostly one piece: there are no
# columns.
_MIN_PIECES_A_LINE = 1.1
# With more pieces for each line, the file draws parts of words, whose places tell little.
_MAX_PIECES_A_LINE = 12
# Two pieces of a line, in shares of the height of letters: their largest overlap, the smallest
# width of a blank between them, and how much of their height they have at least in common.
_MAX_OVERLAP = 0.3
_BLANK_WIDTH = 0.16
_MIN_SHARED_HEIGHT = 0.3
_CELL_SEPARATOR = " | "
_BULLETS = frozenset(
    "\u2022\u25e6\u25aa\u25ab\u2023\u00b7\u25cf\u25cb\u25a0\u25a1\u2013*o\u00a7\uf0b7\uf0a7"
)
# A run of so many pieces, each above the one before it, was probably reversed by PDFium.
_MIN_UPWARDS = 3
_HYPHENS = ("-", "\u2010")


def arrange_text(page: Any, plain: str) -> str:
    """Return the text of a text page of pypdfium2 as a reader of the page sees it.

    `plain` is the text that PDFium gives. For most pages it is right, as their number of pieces
    shows, and nothing else is examined.
    """
    from pypdfium2 import raw

    count = raw.FPDFText_CountRects(
        page,
        0,
        -1,
    )
    lines = plain.count("\n") + 1
    letters = raw.FPDFText_CountChars(page)
    if not letters or count > MAX_PIECES:
        return plain
    min_pieces: float = 1
    if page.page.get_rotation() == 0:
        min_pieces = _MIN_PIECES_A_LINE * lines
    has_few_pieces = count <= min_pieces
    has_many_pieces = count >= _MAX_PIECES_A_LINE * lines
    may_be_plain = (has_few_pieces or has_many_pieces) and is_upright(page, letters)
    is_plain = not has_accents(plain)
    if may_be_plain and has_many_pieces and is_plain:
        return plain
    text_page = TextPage(page)
    pieces = read_pieces(text_page, count)
    if runs_downwards(page, letters):
        return _read_downwards(PageText(text_page, plain, letters, pieces, quarters=3))
    if not may_be_plain or (stand_in_columns(pieces) and not has_many_pieces):
        return _arrange_pieces(text_page, plain, letters, pieces)
    if count <= lines and is_plain:
        return plain
    text = PageText(
        text_page,
        plain,
        letters,
        pieces,
        quarters=0,
    )
    text.compose_accents()
    if not has_many_pieces:
        text.separate_lines()
    return text.read_all()


def _arrange_pieces(
    text_page: TextPage,
    plain: str,
    letters: int,
    pieces: Sequence[Piece],
) -> str:
    """Return the text of a page whose pieces may be in columns or turned, or have superscripts.

    `letters` is the number of letters on the page.
    """
    page = text_page.page.page
    quarters = find_turn(
        text_page.page,
        pieces,
        letters,
    )
    text = PageText(
        text_page,
        plain,
        letters,
        pieces,
        quarters,
    )
    text.compose_accents()
    text.write_superscripts()
    text.separate_lines()
    pieces = text.turned_pieces
    # On a page that /Rotate turns, PDFium may reverse all lines, or runs of them.
    is_page_turned = page.get_rotation() != 0
    ordered = pieces
    if _go_upwards(pieces):
        ordered = list(chain.from_iterable(line.pieces for line in find_lines(pieces)))
    elif is_page_turned and quarters == 0:
        ordered = _reverse_upward_runs(pieces)
    reads_by_line = quarters != 0 or (is_page_turned and ordered != pieces)
    is_side_by_side = reads_by_line or stand_side_by_side(pieces, GAP)
    if not is_side_by_side and not stand_in_columns(pieces):
        return text.read_all()

    def is_bullet(piece: Piece) -> bool:
        """Return whether a piece is a bullet of a list."""
        return text.has_letters and text.read(piece.number, piece.number).strip() in _BULLETS

    read_page_rules = cache(partial(read_rules, page, quarters))
    read_text = partial(_read_segment, text)
    blocks = find_tables_and_prose(
        find_lines(pieces),
        read_page_rules,
        read_text,
        is_bullet,
    )
    if not is_side_by_side:
        blocks = [block for block in blocks if block.is_drawn_by_column]
    if not text.has_letters:
        return text.read_all()
    if reads_by_line:
        return _read_by_line(text, blocks, ordered)
    if blocks:
        return _place_blocks(text, blocks)
    return text.read_all()


def _read_downwards(text: PageText) -> str:
    """Return the letters of a page whose lines run downwards, with the rightmost line first.

    Such lines may stand in several tiers, one below the other.
    """
    if not text.has_letters:
        return text.read_all()
    lines: list[str] = []
    for tier in find_tiers(text.turned_pieces):
        for line in find_lines(tier):
            words = (text.read(piece.number, piece.number).strip() for piece in line.pieces)
            lines.append("".join(words))
    return "\n".join(lines)


def _place_blocks(text: PageText, blocks: Iterable[Block]) -> str:
    """Return all letters in the order of the file, but each block as a whole.

    A block stands at the place of its first piece.
    """
    block_of = _map_pieces_to_blocks(blocks)
    parts: list[str] = []
    written_blocks: set[int] = set()
    start = 0
    for number in sorted(block_of):
        block = block_of[number]
        if block_of.get(number - 1) is block:
            # The piece before was of the same block, and this piece was skipped with it: finding
            # the letters of each piece takes time.
            continue
        last = number
        while block_of.get(last + 1) is block:
            last += 1
        parts += text.letters[start : text.find_start(number)]
        start = text.find_start(last + 1)
        if id(block) not in written_blocks:
            written_blocks.add(id(block))
            parts.append(f"\n{_read_block(text, block)}\n")
    parts += text.letters[start:]
    return re.sub(r"[ \t]*(?:\r?\n)+", "\n", "".join(parts)).strip("\n")


def _read_by_line(
    text: PageText,
    blocks: Iterable[Block],
    pieces: Iterable[Piece],
) -> str:
    """Return the letters of a page with turned text, line by line in the order of its pieces."""
    block_of = _map_pieces_to_blocks(blocks)
    parts: list[str] = []
    written_blocks: set[int] = set()
    before: Piece | None = None
    for piece in pieces:
        block = block_of.get(piece.number)
        if block is not None:
            if id(block) not in written_blocks:
                written_blocks.add(id(block))
                parts.append(f"\n{_read_block(text, block)}\n")
            before = None
            continue
        if before is not None:
            parts.append(_choose_separator(before, piece))
        parts.append(text.read(piece.number, piece.number))
        before = piece
    return re.sub(r" {2,}", " ", "".join(parts)).strip("\n")


def _map_pieces_to_blocks(blocks: Iterable[Block]) -> dict[int, Block]:
    """Return the block of each piece in a block, by number of the piece."""
    block_of = {}
    for block in blocks:
        for piece in block.pieces():
            block_of[piece.number] = block
    return block_of


def _read_block(text: PageText, block: Block) -> str:
    """Return the text of a block: columns of prose below each other, or the rows of a table."""
    if not block.is_prose:
        return "\n".join(_read_row(text, block, lines) for lines in block.rows)
    columns: list[str] = []
    for column in range(block.columns):
        segments = block.find_column(column)
        columns.append("\n".join(_read_segment(text, segment) for segment in segments))
    return "\n".join(columns)


def _read_row(
    text: PageText,
    block: Block,
    lines: Sequence[int],
) -> str:
    """Return a row that consists of some lines of a block, by their indexes."""
    cells: list[str] = []
    for column in range(block.columns):
        cell = ""
        for line in lines:
            if column in block.cells[line]:
                cell = _join_cell(cell, _read_segment(text, block.cells[line][column]))
        if cell:
            cells.append(cell)
    return _CELL_SEPARATOR.join(cells)


def _read_segment(text: PageText, segment: Segment) -> str:
    """Return the letters of a segment on one line.

    Between pieces that are drawn in succession stand the blanks that PDFium sees. Between others
    stands one blank, or none if they adjoin.
    """
    if not text.has_letters:
        return ""
    letters = ""
    first, *others = segment.pieces
    last = first
    for piece in others:
        if piece.number != last.number + 1:
            letters += text.read(first.number, last.number)
            if not _adjoins(last, piece):
                letters += " "
            first = piece
        last = piece
    letters += text.read(first.number, last.number)
    return " ".join(letters.split())


def _reverse_upward_runs(pieces: Sequence[Piece]) -> list[Piece]:
    """Return the pieces with each run of pieces that go upwards, line by line, reversed."""
    runs: list[list[Piece]] = []
    for piece in pieces:
        if runs and _stands_above(piece, runs[-1][-1]):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    ordered: list[Piece] = []
    for run in runs:
        if len(run) >= _MIN_UPWARDS:
            run.reverse()
        ordered += run
    return ordered


def _stands_above(piece: Piece, other: Piece) -> bool:
    """Return whether a piece stands in the column of another, and higher."""
    is_in_column = piece.left < other.right and other.left < piece.right
    return is_in_column and piece.bottom >= other.top


def _go_upwards(pieces: Sequence[Piece]) -> bool:
    """Return whether most lines stand above the previous line, not below it."""
    ups = sum(piece.bottom >= before.top for before, piece in pairwise(pieces))
    downs = sum(piece.top <= before.bottom for before, piece in pairwise(pieces))
    return ups > downs


def _adjoins(before: Piece, piece: Piece) -> bool:
    """Return whether a piece begins where another ends, without a blank and not above it."""
    return -_MAX_OVERLAP * before.height < piece.left - before.right <= _BLANK_WIDTH * before.height


def _choose_separator(before: Piece, piece: Piece) -> str:
    """Return the line end, the blank or nothing between two pieces that are read in succession."""
    shared_height = min(before.top, piece.top) - max(before.bottom, piece.bottom)
    is_same_line = shared_height >= _MIN_SHARED_HEIGHT * min(before.height, piece.height)
    if not is_same_line or piece.left < before.left:
        return "\n"
    if piece.left - before.right > _BLANK_WIDTH * before.height:
        return " "
    return ""


def _join_cell(cell: str, next_line: str) -> str:
    """Join a cell with its next line; if the line end splits a word, a `LINE_END` joins the two."""
    if not cell:
        return next_line
    if cell.endswith(LINE_END):
        return cell + next_line
    is_split = cell.endswith(_HYPHENS) and cell[-2:-1].isalpha() and next_line[:1].islower()
    if is_split:
        return f"{cell[:-1]}{LINE_END}{next_line}"
    return f"{cell} {next_line}"
