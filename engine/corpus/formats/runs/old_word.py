"""Word 97 files with superscripts and what symbol fonts show ([MS-DOC] 2.4.1, 2.6.1).

office_oxide takes them for letters. A symbol replaces its letter where the file stores 16 bits per
character. Where it stores 8, a letter that the file does not use stands in for the symbol until the
text has been read.
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from io import BytesIO

from engine.corpus.formats.containers import open_compound
from engine.corpus.formats.runs.superscripts import write_superscript
from engine.corpus.formats.runs.symbols import (
    find_symbol_font,
    remove_private_letters,
    show_symbols,
)

_STREAM = "WordDocument"
_MAGIC = 0xA5EC
_PAGE = 512
_SYMBOL = 0x6A09
_FONT = 0x4A4F
_HEIGHT = 0x2A48
_LIFT = 0x4845
_MIN_LIFT = 3  # half points
_BEFORE = 40  # bytes
_LENGTHS = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
"""Bytes of what follows a property's number, by its three highest bits; 6 gives its own length."""
_MAY_SHOW_SYMBOLS = re.compile(rb"\x09\x6a|\x4f\x4a|\x48\x2a\x01|\x45\x48|[\x00-\xff]\xf0")
_MAX_RUNS = 100_000
_NAME_AT = 40
_HIGH_CHARACTERS = bytes(range(0xFF, 0x7F, -1)).decode("cp1252", "ignore")
_STAND_INS = [char for char in _HIGH_CHARACTERS if char.isalpha()]


@dataclass(frozen=True, slots=True)
class _Run:
    """Letters with the same properties, as places in the stream.

    `font` is their symbol font, and `symbol` the symbol that stands in each place.
    """

    start: int
    end: int
    font: str
    symbol: str = ""
    is_raised: bool = False


@dataclass(frozen=True, slots=True)
class _Piece:
    """Letters that are stored alike, as places in the stream."""

    start: int
    end: int
    width: int


@dataclass(slots=True)
class ShownSymbols:
    """A Word 97 file whose symbols are characters.

    `stand_ins` are letters of its text to replace after reading.
    """

    content: bytes
    stand_ins: dict[str, str] = field(default_factory=dict)

    def replace_in(self, text: str) -> str:
        """Write the symbols into a text of the file."""
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
        flags = struct.unpack_from("<H", stream, 0x0A)[0]
        table = file.read("1Table" if flags & 0x0200 else "0Table")
        fonts = _read_fonts(_read_part(stream, table, 0x0112))
        runs = list(_read_runs(stream, _read_part(stream, table, 0x00FA), fonts))
        if not runs:
            return ShownSymbols(content)
        pieces = _read_pieces(_read_part(stream, table, 0x01A2))
        return _rewrite(content, stream, runs, pieces)
    except (ValueError, struct.error, IndexError):
        return ShownSymbols(content)


def _read_part(stream: bytes, table: bytes, at: int) -> bytes:
    """Return a structure of the table stream whose place and length are in the header at `at`."""
    start, length = struct.unpack_from("<II", stream, at)
    return table[start : start + length]


def _read_fonts(names: bytes) -> dict[int, str]:
    """Return the symbol fonts of a file by number."""
    fonts: dict[int, str] = {}
    if len(names) < 4:
        return fonts
    (count,) = struct.unpack_from("<H", names)
    at = 4
    for number in range(count):
        if at >= len(names):
            break
        length = names[at] + 1
        name = names[at + _NAME_AT : at + length].decode("utf-16-le", "replace").partition("\0")[0]
        if font := find_symbol_font(name):
            fonts[number] = font
        at += length
    return fonts


def _read_runs(stream: bytes, places: bytes, fonts: Mapping[int, str]) -> Iterator[_Run]:
    """Yield the runs of letters that are raised or in symbol fonts, and of inserted symbols."""
    count = (len(places) - 4) // 8
    for (page,) in struct.iter_unpack("<I", places[4 * (count + 1) : 4 * (2 * count + 1)]):
        start = (page & 0x3FFFFF) * _PAGE
        formatted = stream[start : start + _PAGE]
        if len(formatted) < _PAGE:
            continue
        runs = formatted[-1]
        bounds = struct.unpack_from(f"<{runs + 1}I", formatted)
        for number in range(runs):
            at = 2 * formatted[4 * (runs + 1) + number]
            if not at:
                continue
            properties = formatted[at + 1 : at + 1 + formatted[at]]
            run = _read_run(bounds[number], bounds[number + 1], properties, fonts)
            if run.font or run.symbol or run.is_raised:
                yield run


def _read_run(start: int, end: int, properties: bytes, fonts: Mapping[int, str]) -> _Run:
    """Return the run between two places with its properties."""
    font = ""
    symbol = ""
    is_raised = False
    at = 0
    while at + 2 < len(properties):
        (kind,) = struct.unpack_from("<H", properties, at)
        operand = at + 2
        length = _LENGTHS.get(kind >> 13)
        if length is None:
            length = properties[operand] + 1
        if kind == _HEIGHT:
            is_raised = properties[operand] == 1
        elif kind == _LIFT and operand + 2 <= len(properties):
            is_raised = struct.unpack_from("<h", properties, operand)[0] >= _MIN_LIFT
        elif kind == _FONT and operand + 2 <= len(properties):
            font = fonts.get(struct.unpack_from("<H", properties, operand)[0], "")
        elif kind == _SYMBOL and operand + 4 <= len(properties):
            number, code = struct.unpack_from("<HH", properties, operand)
            if number in fonts:
                symbol = show_symbols(fonts[number], chr(code))
            else:
                symbol = remove_private_letters(chr(code))
            if not symbol or not symbol.isprintable():
                symbol = " "
        at = operand + length
    return _Run(start, end, font, symbol, is_raised)


def _read_pieces(table: bytes) -> list[_Piece]:
    at = 0
    while table[at] == 1:
        at += 3 + struct.unpack_from("<H", table, at + 1)[0]
    (length,) = struct.unpack_from("<I", table, at + 1)
    places = table[at + 5 : at + 5 + length]
    count = (len(places) - 4) // 12
    bounds = struct.unpack_from(f"<{count + 1}I", places)
    pieces: list[_Piece] = []
    for number in range(count):
        (place,) = struct.unpack_from("<I", places, 4 * (count + 1) + 8 * number + 2)
        width = 2
        start = place & 0x3FFFFFFF
        if place & 0x40000000:
            width = 1
            start //= 2
        end = start + width * (bounds[number + 1] - bounds[number])
        pieces.append(_Piece(start, end, width))
    return pieces


def _rewrite(content: bytes, stream: bytes, runs: list[_Run], pieces: list[_Piece]) -> ShownSymbols:
    written = bytearray(stream)
    free = _find_unused_letters(stream, pieces)
    letters: dict[str, str] = {}
    for run, piece in _find_overlaps(runs, pieces):
        codec = "cp1252" if piece.width == 1 else "utf-16-le"
        for at, symbol in _find_symbols(stream, run, piece, codec):
            if piece.width == 1 or ord(symbol) > 0xFFFF:
                if symbol not in letters:
                    letters[symbol] = _take_letter(symbol, free)
                symbol = letters[symbol]
            written[at : at + piece.width] = symbol.encode(codec)
    if written == stream:
        return ShownSymbols(content)
    stand_ins = {
        letter: symbol for symbol, letter in letters.items() if letter not in (" ", symbol)
    }
    return ShownSymbols(_replace_stream(content, bytes(written)), stand_ins)


def _find_symbols(stream: bytes, run: _Run, piece: _Piece, codec: str) -> Iterator[tuple[int, str]]:
    """Yield the place of each character of a run that shows another one, and what it shows."""
    end = min(run.end, piece.end, len(stream)) - piece.width + 1
    start = max(run.start, piece.start)
    raised = ""
    if run.is_raised and not run.font and not run.symbol:
        before = stream[max(piece.start, start - _BEFORE) : start].decode(codec, "replace")
        text = stream[start : end + piece.width - 1].decode(codec, "replace")
        raised = write_superscript(text, before)
        if len(raised) != len(text):
            return
    for at in range(start, end, piece.width):
        char = stream[at : at + piece.width].decode(codec, "replace")
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
        first = max(0, bisect_right(starts, run.start) - 1)
        for piece in pieces[first : bisect_left(starts, run.end)]:
            yield run, piece


def _take_letter(symbol: str, free: list[str]) -> str:
    """Return what is written for a symbol: itself, or a letter that the file does not use.

    It is a blank if no such letter is left.
    """
    if symbol.encode("cp1252", "ignore"):
        return symbol
    if free:
        return free.pop(0)
    return " "


def _find_unused_letters(stream: bytes, pieces: list[_Piece]) -> list[str]:
    """Return letters of 8 bits that no piece of the file holds."""
    used: set[str] = set()
    for piece in pieces:
        text = stream[piece.start : piece.end]
        used.update(text.decode("cp1252" if piece.width == 1 else "utf-16-le", "replace"))
    return [letter for letter in _STAND_INS if letter not in used]


def _replace_stream(content: bytes, stream: bytes) -> bytes:
    from olefile import OleFileIO

    file = BytesIO(content)
    written = OleFileIO(file, write_mode=True)
    written.write_stream(_STREAM, stream)
    return file.getvalue()
