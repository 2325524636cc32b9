"""Word documents of before 2007 as they are printed: kreuzberg leaves out hyphens that do not break, and tells what fields are made
of (`PAGEREF _Toc1 \\h 3`) beside what they show.

[MS-DOC] 2.4.1 (where the text stands), 2.8.25 (marks of fields) and 2.9.177 (a piece of the text).
"""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from engine.corpus.compound import CompoundFile, compound_of

_COMPRESSED = 0x40000000
_CLX_AT = 0x01A2  # of the place and length of the table of pieces, in the file's information block
_SECOND_TABLE = 0x02
_BEGIN, _SHOWS, _END, _HYPHEN = 0x13, 0x14, 0x15, 0x1E
_MARKS = (re.compile(rb"[\x13-\x15\x1e]\x00"), re.compile(rb"[\x13-\x15\x1e]"))
_UNSEEN = 0x1F  # a hyphen that is seen at the end of a line only
_DRAWN = re.compile(r"\s*(?:EQ|MACROBUTTON|GOTOBUTTON)\b", re.IGNORECASE)  # these fields show what they hold
_LONGEST = 4000  # characters of a field that are not shown; more are no field


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the text: its first character's number and its place in the stream; `width`: bytes of a character."""

    first: int
    count: int
    start: int
    width: int

    def text(self, word: bytes, first: int, end: int) -> str:
        """Its characters of those from the `first` to before the `end` of the document."""
        first, end = max(first, self.first) - self.first, min(end, self.first + self.count) - self.first
        found = word[self.start + first * self.width : self.start + max(first, end) * self.width]
        return found.decode("cp1252" if self.width == 1 else "utf-16-le", "replace")


def as_printed(content: bytes) -> bytes:
    """The bytes of a document whose text is as it is printed; the same where nothing is to be changed, or where it is damaged."""
    try:
        compound = compound_of(content)
        word = bytearray(compound.read("WordDocument"))
        changed = _changed(word, list(pieces_of(compound, bytes(word))))
        return compound.with_stream("WordDocument", bytes(word)) if changed else content
    except (ValueError, OverflowError, struct.error, IndexError):
        return content


def _changed(word: bytearray, pieces: list[Piece]) -> bool:
    """Puts the text of a stream into what is printed; returns whether anything was changed."""
    former = bytes(word)
    begun: list[int] = []  # of the fields around a place, where each began; -1 where what it shows has begun
    for character, place, mark in _marks(former, pieces):
        if mark == _HYPHEN:
            word[place] = ord("-")
        elif mark == _BEGIN:
            begun.append(character)
        elif begun:
            start = begun.pop()
            if start >= 0 and character - start <= _LONGEST:
                _hide(word, pieces, start + 1, character)
            begun += [-1] if mark == _SHOWS else []
    return word != former


def _hide(word: bytearray, pieces: list[Piece], start: int, end: int) -> None:
    """Puts what is never seen in the place of a field's characters, unless it shows what it holds; paragraphs stay."""
    for piece in pieces[max(0, bisect_right(pieces, start, key=lambda piece: piece.first) - 1) :]:
        at = piece.start + (start - piece.first) * piece.width
        if piece.first >= end or (piece.first <= start and _DRAWN.match(_decoded(word[at : at + 64], piece.width))):
            return
        first, last = max(start, piece.first), min(end, piece.first + piece.count)
        for place in range(
            piece.start + (first - piece.first) * piece.width,
            piece.start + (last - piece.first) * piece.width,
            piece.width,
        ):
            if word[place : place + piece.width].rstrip(b"\0") != b"\r":
                word[place : place + piece.width] = _UNSEEN.to_bytes(piece.width, "little")


def _decoded(data: bytes | bytearray, width: int) -> str:
    return data.decode("latin-1" if width == 1 else "utf-16-le", "replace")


def _marks(word: bytes, pieces: list[Piece]) -> Iterator[tuple[int, int, int]]:
    """(number of the character, its place in the stream, its code) of the marks in the text, in order."""
    for piece in pieces:
        end = piece.start + piece.count * piece.width
        for found in _MARKS[piece.width == 1].finditer(word, piece.start, end):
            along, odd = divmod(found.start() - piece.start, piece.width)
            if not odd:
                yield piece.first + along, found.start(), found[0][0]


def pieces_of(compound: CompoundFile, word: bytes) -> Iterator[Piece]:
    """The pieces of all text of a document, in order; `word`: its stream. Raises struct.error or IndexError where it is damaged."""
    table = compound.read("1Table" if word[11] & _SECOND_TABLE else "0Table")
    at, length = struct.unpack_from("<II", word, _CLX_AT)
    end = min(len(table), at + length)
    while at < end and table[at] == 1:
        at += 3 + struct.unpack_from("<H", table, at + 1)[0]
    if at >= end or table[at] != 2:
        return
    count = (min(struct.unpack_from("<I", table, at + 1)[0], end - at - 5) - 4) // 12
    if count <= 0:
        return
    bounds = struct.unpack_from(f"<{count + 1}I", table, at + 5)
    for number in range(count):
        place = struct.unpack_from("<I", table, at + 5 + 4 * (count + 1) + 8 * number + 2)[0]
        width = 1 if place & _COMPRESSED else 2
        start = (place & ~_COMPRESSED) // (3 - width)
        most = max(0, len(word) - start) // width
        yield Piece(bounds[number], min(most, max(0, bounds[number + 1] - bounds[number])), start, width)
