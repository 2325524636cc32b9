"""Word 97 files with superscripts and what symbol fonts show ([MS-DOC] 2.4.1, 2.6.1).

office_oxide takes both for plain letters. Where the file stores 16 bits for each character, the
symbol is written in place of its letter. Where the file stores 8 bits, a letter that it does not
use stands in for the symbol until the text has been read.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from itertools import pairwise

from engine.corpus.formats.containers import open_compound
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import (
    find_symbol_font,
    remove_private_letters,
    show_symbols,
)

_STREAM = "WordDocument"
_MAGIC = 0xA5EC
# Offsets in the header of the stream: flags, and where the table stream has the names of fonts, the
# pages of formatted runs, and the pieces of the text.
_FLAGS_AT = 0x0A
_FONTS_AT = 0x0112
_RUNS_AT = 0x00FA
_PIECES_AT = 0x01A2
_USES_TABLE_1 = 0x0200
_PAGE = 512  # bytes
# Numbers of properties ("sprms") of a run.
_SYMBOL = 0x6A09
_FONT = 0x4A4F
_SUPERSCRIPT = 0x2A48
_LIFT = 0x4845
_MIN_LIFT = 3  # half points
_BEFORE = 40  # bytes before a superscript that decide how it is written
_OPERAND_LENGTHS = {
    0: 1,
    1: 1,
    2: 2,
    3: 4,
    4: 2,
    5: 2,
    7: 3,
}
"""Bytes of a property's operand, by the three highest bits of its number.

For 6, which is left out, the operand begins with its length.
"""
_MAY_SHOW_SYMBOLS = re.compile(rb"\x09\x6a|\x4f\x4a|\x48\x2a\x01|\x45\x48|[\x00-\xff]\xf0")
"""The number of one of these properties, or a private letter."""
_MAX_RUNS = 100_000
_FONT_NAME_AT = 40
_HIGH_CHARACTERS = bytes(range(0xFF, 0x7F, -1)).decode("cp1252", "ignore")
_STAND_INS = [char for char in _HIGH_CHARACTERS if char.isalpha()]


@dataclass(frozen=True, slots=True)
class _Run:
    """Letters with the same properties."""

    # Offsets in the stream.
    start: int
    end: int
    # The symbol font of the letters, empty for a font of letters.
    font: str
    # The inserted symbol that stands in place of each letter, empty if none does.
    symbol: str = ""
    is_raised: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    """Letters that follow each other in the stream."""

    # Offsets in the stream.
    start: int
    end: int
    # Bytes of each letter: 1 or 2.
    width: int

    @property
    def codec(self) -> str:
        """The encoding of the letters."""
        return "cp1252" if self.width == 1 else "utf-16-le"


@dataclass(slots=True)
class ShownSymbols:
    """A Word 97 file, given as `content`, with its symbols as text.

    `stand_ins`: letter → the symbol for which it stands in until the text has been read.
    """

    content: bytes
    stand_ins: dict[str, str] = field(default_factory=dict)

    def replace_in(self, text: str) -> str:
        """Return a text that was read from the file, with symbols in place of their stand-ins."""
        if not self.stand_ins:
            return text
        symbols = {ord(letter): symbol for letter, symbol in self.stand_ins.items()}
        return text.translate(symbols)


def write_shown_symbols(content: bytes) -> ShownSymbols:
    """Return a Word 97 file with what its symbol fonts show.

    A damaged file, or one without symbols, is returned unchanged.
    """
    try:
        file = open_compound(content)
        stream = file.read(_STREAM)
        if struct.unpack_from("<H", stream)[0] != _MAGIC or not _MAY_SHOW_SYMBOLS.search(stream):
            return ShownSymbols(content)
        (flags,) = struct.unpack_from("<H", stream, _FLAGS_AT)
        table = file.read("1Table" if flags & _USES_TABLE_1 else "0Table")
        fonts = _read_fonts(_read_structure(stream, table, _FONTS_AT))
        runs = list(_read_runs(stream, _read_structure(stream, table, _RUNS_AT), fonts))
        if not runs:
            return ShownSymbols(content)
        pieces = _read_pieces(_read_structure(stream, table, _PIECES_AT))
        return _rewrite(content, stream, runs, pieces)
    except (ValueError, struct.error, IndexError):
        return ShownSymbols(content)


def _read_structure(
    stream: bytes,
    table: bytes,
    at: int,
) -> bytes:
    """Return a structure of the table stream; the header names its offset and length at `at`."""
    start, length = struct.unpack_from("<II", stream, at)
    return table[start : start + length]


def _read_fonts(names: bytes) -> dict[int, str]:
    """Return the symbol fonts of a file by number, from the list of all its fonts."""
    fonts: dict[int, str] = {}
    if len(names) < 4:
        return fonts
    (count,) = struct.unpack_from("<H", names)
    at = 4
    for number in range(count):
        if at >= len(names):
            break
        # An entry begins with the length of its rest; other names may follow the first.
        end = at + names[at] + 1
        name, _, _ = names[at + _FONT_NAME_AT : end].decode("utf-16-le", "replace").partition("\0")
        font = find_symbol_font(name)
        if font:
            fonts[number] = font
        at = end
    return fonts


def _read_runs(
    stream: bytes,
    pages: bytes,
    fonts: Mapping[int, str],
) -> Iterator[_Run]:
    """Yield the runs of letters that are raised or in symbol fonts, and of inserted symbols.

    `pages` lists the pages of formatted runs: their bounds, of 4 bytes each, then their numbers.
    """
    count = (len(pages) - 4) // 8
    for (number,) in struct.iter_unpack("<I", pages[4 * (count + 1) : 4 * (2 * count + 1)]):
        page_start = (number & 0x3FFFFF) * _PAGE
        page = stream[page_start : page_start + _PAGE]
        if len(page) < _PAGE:
            continue
        # A page begins with the bounds of its runs, then a byte for each run: half the offset in
        # the page at which it has the run's properties, after their length. It ends in their count.
        run_count = page[-1]
        bounds = struct.unpack_from(f"<{run_count + 1}I", page)
        for index, (start, end) in enumerate(pairwise(bounds), 4 * (run_count + 1)):
            at = 2 * page[index]
            if not at:
                continue
            properties = page[at + 1 : at + 1 + page[at]]
            run = _read_run(
                start,
                end,
                properties,
                fonts,
            )
            if run.font or run.symbol or run.is_raised:
                yield run


def _read_run(
    start: int,
    end: int,
    properties: bytes,
    fonts: Mapping[int, str],
) -> _Run:
    """Return the run between two offsets with its properties."""
    font = ""
    symbol = ""
    is_raised = False
    for number, operand in _split_properties(properties):
        if number == _SUPERSCRIPT:
            is_raised = operand[0] == 1
        elif number == _LIFT:
            is_raised = int.from_bytes(operand, "little", signed=True) >= _MIN_LIFT
        elif number == _FONT:
            font = fonts.get(int.from_bytes(operand, "little"), "")
        elif number == _SYMBOL:
            symbol_font, code = struct.unpack("<HH", operand)
            if symbol_font in fonts:
                symbol = show_symbols(fonts[symbol_font], chr(code))
            else:
                symbol = remove_private_letters(chr(code))
            if not symbol or not symbol.isprintable():
                symbol = " "
    return _Run(
        start,
        end,
        font,
        symbol,
        is_raised,
    )


def _split_properties(properties: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (number, operand) of each property of a run, but not one that is cut off."""
    at = 0
    while at + 2 < len(properties):
        (number,) = struct.unpack_from("<H", properties, at)
        start = at + 2
        length = _OPERAND_LENGTHS.get(number >> 13)
        if length is None:
            # The first byte of the operand is the length of the others.
            length = properties[start] + 1
        at = start + length
        if at <= len(properties):
            yield number, properties[start:at]


def _read_pieces(structure: bytes) -> list[_Piece]:
    """Return the pieces of the text, from the structure that lists them."""
    # Properties that are of no interest here come first, each a 1, its length and its bytes.
    at = 0
    while structure[at] == 1:
        at += 3 + struct.unpack_from("<H", structure, at + 1)[0]
    (length,) = struct.unpack_from(
        "<I",
        structure,
        at + 1,
    )
    table = structure[at + 5 : at + 5 + length]
    # The table has the bounds of pieces in characters, of 4 bytes each, then 8 bytes for each
    # piece, of which the middle 4 are its offset.
    count = (len(table) - 4) // 12
    bounds = struct.unpack_from(f"<{count + 1}I", table)
    pieces: list[_Piece] = []
    for number in range(count):
        (offset,) = struct.unpack_from(
            "<I",
            table,
            4 * (count + 1) + 8 * number + 2,
        )
        width = 2
        start = offset & 0x3FFFFFFF
        # Letters of one byte have twice their offset, with this mark.
        if offset & 0x40000000:
            width = 1
            start //= 2
        end = start + width * (bounds[number + 1] - bounds[number])
        pieces.append(_Piece(start, end, width))
    return pieces


def _rewrite(
    content: bytes,
    stream: bytes,
    runs: list[_Run],
    pieces: list[_Piece],
) -> ShownSymbols:
    """Write symbols and superscripts in place of the letters that show them."""
    new_stream = bytearray(stream)
    unused = _find_unused_letters(stream, pieces)
    # What is written for each symbol that does not fit into the bytes of its letter.
    letters: dict[str, str] = {}
    for run, piece in _find_overlaps(runs, pieces):
        for at, symbol in _find_symbols(stream, run, piece):
            if piece.width == 1 or ord(symbol) > 0xFFFF:
                if symbol not in letters:
                    letters[symbol] = _take_letter(symbol, unused)
                symbol = letters[symbol]
            new_stream[at : at + piece.width] = symbol.encode(piece.codec)
    if new_stream == stream:
        return ShownSymbols(content)
    stand_ins = {
        letter: symbol for symbol, letter in letters.items() if letter not in (" ", symbol)
    }
    return ShownSymbols(_replace_stream(content, bytes(new_stream)), stand_ins)


def _find_symbols(
    stream: bytes,
    run: _Run,
    piece: _Piece,
) -> Iterator[tuple[int, str]]:
    """Yield (offset, symbol) for each character in a run and a piece that shows another one."""
    start = max(run.start, piece.start)
    end = min(
        run.end,
        piece.end,
        len(stream),
    )
    raised = ""
    if run.is_raised and not run.font and not run.symbol:
        before = stream[max(piece.start, start - _BEFORE) : start].decode(piece.codec, "replace")
        text = stream[start:end].decode(piece.codec, "replace")
        raised = write_superscript(text, before)
        # It has become longer by a blank, for which the stream has no place.
        if len(raised) != len(text):
            return
    for at in range(start, end - piece.width + 1, piece.width):
        char = stream[at : at + piece.width].decode(piece.codec, "replace")
        # Control characters end paragraphs and cells.
        if char < " " and not run.symbol:
            continue
        if raised:
            symbol = raised[(at - start) // piece.width]
        else:
            symbol = run.symbol or show_symbols(run.font, char) or " "
        if symbol != char:
            yield at, symbol


def _find_overlaps(runs: list[_Run], pieces: list[_Piece]) -> Iterator[tuple[_Run, _Piece]]:
    """Yield each run with each piece into which it reaches."""
    pieces = sorted(pieces, key=lambda piece: piece.start)
    starts = [piece.start for piece in pieces]
    for run in runs[:_MAX_RUNS]:
        # The piece in which the run begins is the last one that starts before it.
        first = max(0, bisect_right(starts, run.start) - 1)
        for piece in pieces[first : bisect_left(starts, run.end)]:
            yield run, piece


def _take_letter(symbol: str, unused: list[str]) -> str:
    """Return what is written for a symbol: itself, or a letter that the file does not use.

    The letter is removed from `unused`. It is a blank if none is left.
    """
    if symbol.encode("cp1252", "ignore"):
        return symbol
    if unused:
        return unused.pop(0)
    return " "


def _find_unused_letters(stream: bytes, pieces: list[_Piece]) -> list[str]:
    """Return letters of 8 bits that no piece of the file holds."""
    used: set[str] = set()
    for piece in pieces:
        used.update(stream[piece.start : piece.end].decode(piece.codec, "replace"))
    return [letter for letter in _STAND_INS if letter not in used]


def _replace_stream(content: bytes, stream: bytes) -> bytes:
    """Return a compound file with another stream of the same length for its text."""
    from olefile import OleFileIO

    file = BytesIO(content)
    new_file = OleFileIO(file, write_mode=True)
    new_file.write_stream(_STREAM, stream)
    return file.getvalue()
