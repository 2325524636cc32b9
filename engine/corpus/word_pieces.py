"""Where the text of Word documents of before 2007 stands: in pieces, of one or two bytes a character, in any order.

[MS-DOC] 2.4.1 and 2.9.177.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.corpus.compound import CompoundFile

_COMPRESSED = 0x40000000
_CLX_AT = 0x01A2  # of the place and length of the table of pieces, in the file's information block
_SECOND_TABLE = 0x02


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of the text: its first character's number and its place in the stream; `width`: bytes of a character."""

    first: int
    count: int
    start: int
    width: int

    @property
    def end(self) -> int:
        """The number of the character behind it."""
        return self.first + self.count

    @property
    def stop(self) -> int:
        """The place of the byte behind it."""
        return self.start + self.count * self.width


class Pieces(Sequence[Piece]):
    """The pieces of all text of a document, in its order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self._pieces = pieces
        self._firsts = [piece.first for piece in pieces]
        self._placed = sorted(pieces, key=lambda piece: piece.start)
        self._starts = [piece.start for piece in self._placed]

    def __getitem__(self, number: int) -> Piece:  # type: ignore[override]
        return self._pieces[number]

    def __len__(self) -> int:
        return len(self._pieces)

    def of(self, first: int, end: int) -> Iterator[Piece]:
        """Those that hold characters from the `first` to before the `end`."""
        number = max(0, bisect_right(self._firsts, first) - 1)
        while number < len(self._pieces) and self._firsts[number] < end:
            yield self._pieces[number]
            number += 1

    def text(self, word: bytes, first: int, end: int) -> str:
        """The characters from the `first` to before the `end`; never more, whatever the pieces say."""
        parts: list[str] = []
        left = end - first
        for piece in self.of(first, end):
            along, last = max(first, piece.first) - piece.first, min(end, piece.end) - piece.first
            found = word[piece.start + along * piece.width : piece.start + max(along, last) * piece.width]
            parts.append(found.decode("cp1252" if piece.width == 1 else "utf-16-le", "replace")[:left])
            left -= len(parts[-1])
            if left <= 0:
                break
        return "".join(parts)

    def places(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """(place of its bytes in the stream, how many they are) of each of these characters."""
        for piece in self.of(first, end):
            for number in range(max(first, piece.first) - piece.first, min(end, piece.end) - piece.first):
                yield piece.start + number * piece.width, piece.width

    def characters(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """(number of the first, number behind the last) of the characters that some bytes of the stream hold; bytes that were left
        out of the text hold none.
        """
        number = max(0, bisect_right(self._starts, start) - 1)
        while number < len(self._placed) and self._starts[number] < stop:
            piece = self._placed[number]
            first, last = max(start, piece.start), min(stop, piece.stop)
            if first < last:
                yield (
                    piece.first + (first - piece.start) // piece.width,
                    piece.first + (last - piece.start) // piece.width,
                )
            number += 1


def pieces_of(compound: CompoundFile, word: bytes) -> Pieces:
    """The pieces of all text of a document, in order; `word`: its stream. Raises struct.error or IndexError where it is damaged."""
    table = compound.read("1Table" if word[11] & _SECOND_TABLE else "0Table")
    at, length = struct.unpack_from("<II", word, _CLX_AT)
    end = min(len(table), at + length)
    while at < end and table[at] == 1:
        at += 3 + struct.unpack_from("<H", table, at + 1)[0]
    if at >= end or table[at] != 2:
        return Pieces(())
    count = (min(struct.unpack_from("<I", table, at + 1)[0], end - at - 5) - 4) // 12
    if count <= 0:
        return Pieces(())
    pieces: list[Piece] = []
    bounds = struct.unpack_from(f"<{count + 1}I", table, at + 5)
    for number in range(count):
        place = struct.unpack_from("<I", table, at + 5 + 4 * (count + 1) + 8 * number + 2)[0]
        width = 1 if place & _COMPRESSED else 2
        start = (place & ~_COMPRESSED) // (3 - width)
        most = max(0, len(word) - start) // width
        pieces.append(Piece(bounds[number], min(most, max(0, bounds[number + 1] - bounds[number])), start, width))
    return Pieces(pieces)
