"""The text of a PDF page as a reader sees it.

That is with rows of tables, columns, rotated lines and superscripts. PDFium's own text stays if
none of these is on the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

from engine.corpus.formats.pdf.calls import TextPage
from engine.corpus.formats.pdf.layout import (
    MAX_PIECES,
    Piece,
    find_lines,
    find_turn,
    is_upright,
    read_pieces,
    stand_in_columns,
    stand_side_by_side,
    turn_pieces,
)
from engine.corpus.formats.pdf.page_text import PageText
from engine.corpus.formats.pdf.rules import read_rules
from engine.corpus.formats.pdf.tables import GAP, Block, Segment, find_blocks
from engine.corpus.text.hyphens import LINE_END

# Pieces per line that PDFium finds: if each line is one piece, there are no columns.
_MIN_PIECES = 1.1
# A file that draws parts of words has more, and they show little.
_MAX_PIECES_A_LINE = 12
# As a share of the height of letters.
_OVER = 0.3
# As a share of the height of letters.
_BLANK = 0.16
_CELLS = " | "
_BULLETS = frozenset(
    "\u2022\u25e6\u25aa\u25ab\u2023\u00b7\u25cf\u25cb\u25a0\u25a1\u2013*o\u00a7\uf0b7\uf0a7"
)
_MIN_UPWARDS = 3  # lines
_HYPHENS = ("-", "\u2010")


def arrange_text(page: Any, plain: str) -> str:
    """Return the text of a text page of pypdfium2 as a reader of the page sees it.

    `plain` is the text that PDFium gives.
    """
    from pypdfium2 import raw

    count = raw.FPDFText_CountRects(page, 0, -1)
    lines = plain.count("\n") + 1
    letters = raw.FPDFText_CountChars(page)
    if not letters or count > MAX_PIECES:
        return plain
    is_turned = page.page.get_rotation() != 0
    min_pieces = 1 if is_turned else _MIN_PIECES * lines
    is_arranged = not min_pieces < count < _MAX_PIECES_A_LINE * lines
    text_page = TextPage(page)
    pieces: Sequence[Piece] = ()
    if is_arranged and is_upright(page, letters):
        if count > min_pieces:
            return plain
        pieces = read_pieces(text_page, count)
        if not stand_in_columns(pieces):
            if count <= lines:
                return plain
            text = PageText(text_page, plain, letters, pieces)
            text.separate_lines()
            return text.read_all()
    pieces = pieces or read_pieces(text_page, count)
    quarters = find_turn(page, pieces, letters)
    text = PageText(text_page, plain, letters, pieces)
    if quarters:
        pieces = turn_pieces(pieces, quarters)
        text.turned = pieces
        text.quarters = quarters
    text.raise_marks()
    text.separate_lines()
    ordered = _order_from_top(pieces, is_turned=is_turned and quarters == 0)
    by_line = quarters != 0 or (is_turned and ordered != pieces)
    is_beside = by_line or stand_side_by_side(pieces, GAP)
    if not is_beside and not stand_in_columns(pieces):
        return text.read_all()

    def is_bullet(piece: Piece) -> bool:
        return text.has_letters and text.read(piece.number, piece.number).strip() in _BULLETS

    read_page_rules = cache(partial(read_rules, page.page, quarters))
    read_text = partial(_read_segment, text)
    blocks = find_blocks(find_lines(pieces), read_page_rules, read_text, is_bullet)
    if not is_beside:
        blocks = [block for block in blocks if block.is_drawn_by_column]
    if not (blocks or by_line) or not text.has_letters:
        return text.read_all()
    if by_line:
        return _read_by_line(text, blocks, ordered)
    return _place_blocks(text, blocks)


def _place_blocks(text: PageText, blocks: Iterable[Block]) -> str:
    """Return all letters in order, except that each block stands where its first piece does."""
    parts: list[str] = []
    written: set[int] = set()
    at = 0
    for first, last, block in _find_runs(blocks):
        parts += text.letters[at : text.find_start(first)]
        at = text.find_start(last + 1)
        if id(block) not in written:
            written.add(id(block))
            parts.append(f"\n{_read_block(text, block)}\n")
    parts += text.letters[at:]
    return re.sub(r"[ \t]*(?:\r?\n)+", "\n", "".join(parts)).strip("\n")


def _read_by_line(text: PageText, blocks: Iterable[Block], pieces: Iterable[Piece]) -> str:
    """Return the letters of a page with turned text, line by line in the order of its pieces."""
    block_of = _map_pieces(blocks)
    parts: list[str] = []
    written: set[int] = set()
    before: Piece | None = None
    for piece in pieces:
        block = block_of.get(piece.number)
        if block is not None:
            if id(block) not in written:
                written.add(id(block))
                parts.append(f"\n{_read_block(text, block)}\n")
            before = None
            continue
        if before is not None:
            parts.append(_choose_gap(before, piece))
        parts.append(text.read(piece.number, piece.number))
        before = piece
    return re.sub(r" {2,}", " ", "".join(parts)).strip("\n")


def _map_pieces(blocks: Iterable[Block]) -> dict[int, Block]:
    """Return the block of each piece in a block, by number of the piece."""
    block_of: dict[int, Block] = {}
    for block in blocks:
        block_of |= dict.fromkeys((piece.number for piece in block.pieces()), block)
    return block_of


def _read_block(text: PageText, block: Block) -> str:
    if not block.is_prose:
        return "\n".join(_read_row(text, block, lines) for lines in block.rows)
    columns: list[str] = []
    for column in range(block.columns):
        segments = block.find_column(column)
        columns.append("\n".join(_read_segment(text, segment) for segment in segments))
    return "\n".join(columns)


def _read_row(text: PageText, block: Block, lines: Sequence[int]) -> str:
    cells: list[str] = []
    for column in range(block.columns):
        cell = ""
        for at in lines:
            if column in block.cells[at]:
                cell = _join_cell(cell, _read_segment(text, block.cells[at][column]))
        if cell:
            cells.append(cell)
    return _CELLS.join(cells)


def _read_segment(text: PageText, segment: Segment) -> str:
    """Return the letters of a segment.

    Pieces that are drawn one after the other have the blanks that PDFium sees between them.
    """
    if not text.has_letters:
        return ""
    letters = ""
    first, *others = segment.pieces
    last = first
    for piece in others:
        if piece.number != last.number + 1:
            letters += text.read(first.number, last.number)
            if not _touches(last, piece):
                letters += " "
            first = piece
        last = piece
    letters += text.read(first.number, last.number)
    return " ".join(letters.split())


def _find_runs(blocks: Iterable[Block]) -> list[tuple[int, int, Block]]:
    """Return the runs of a block's pieces that are drawn in succession.

    Each is the first piece, the last piece, and their block.
    """
    block_of = _map_pieces(blocks)
    runs: list[tuple[int, int, Block]] = []
    for number in sorted(block_of):
        block = block_of[number]
        if runs:
            first, last, block_of_run = runs[-1]
            if last == number - 1 and block_of_run is block:
                runs[-1] = (first, number, block)
                continue
        runs.append((number, number, block))
    return runs


def _order_from_top(pieces: Sequence[Piece], *, is_turned: bool) -> Sequence[Piece]:
    """Return pieces in the order of drawing, or in the order of lines if PDFium reverses it.

    `is_turned`: /Rotate turns the page, so that PDFium may reverse some of the lines.
    """
    if not _runs_upwards(pieces):
        return _reverse_upward_runs(pieces) if is_turned else pieces
    ordered: list[Piece] = []
    for line in find_lines(pieces):
        ordered += line.pieces
    return ordered


def _reverse_upward_runs(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces with those of a column put in order that stand above each other."""
    ordered: list[Piece] = []
    run: list[Piece] = []
    for piece in pieces:
        if run and not _stands_above(piece, run[-1]):
            ordered += reversed(run) if len(run) >= _MIN_UPWARDS else run
            run = []
        run.append(piece)
    ordered += reversed(run) if len(run) >= _MIN_UPWARDS else run
    return ordered


def _stands_above(piece: Piece, other: Piece) -> bool:
    is_in_column = piece.left < other.right and other.left < piece.right
    return is_in_column and piece.bottom >= other.top


def _runs_upwards(pieces: Sequence[Piece]) -> bool:
    """Tell whether most lines stand above the previous line.

    This is PDFium's order on some pages that /Rotate turns.
    """
    ups = sum(piece.bottom >= before.top for before, piece in pairwise(pieces))
    downs = sum(piece.top <= before.bottom for before, piece in pairwise(pieces))
    return ups > downs


def _touches(before: Piece, piece: Piece) -> bool:
    """Tell whether a piece begins where another ends, without a blank and not above it."""
    return -_OVER * before.height < piece.left - before.right <= _BLANK * before.height


def _choose_gap(before: Piece, piece: Piece) -> str:
    """Return what stands between two pieces that are drawn one after the other."""
    shared = min(before.top, piece.top) - max(before.bottom, piece.bottom)
    if shared < 0.3 * min(before.height, piece.height) or piece.left < before.left:
        return "\n"
    if piece.left - before.right > _BLANK * before.height:
        return " "
    return ""


def _join_cell(cell: str, more: str) -> str:
    """Join a cell with its next line."""
    if not cell:
        return more
    if cell.endswith(LINE_END):
        return cell + more
    if cell.endswith(_HYPHENS) and cell[-2:-1].isalpha() and more[:1].islower():
        return f"{cell[:-1]}{LINE_END}{more}"
    return f"{cell} {more}"
