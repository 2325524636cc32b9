"""Word documents of before 2007 as they are printed: kreuzberg leaves out hyphens that do not break, gives what fields are made of
(`PAGEREF _Toc1 \\h 3`) beside what they show, and the rows of a table in one line.

[MS-DOC] 2.4.1 (where the text stands), 2.8.25 (marks of fields) and 2.9.177 (a piece of the text).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress

from engine.corpus.compound import compound_of
from engine.corpus.word_pieces import Pieces, pieces_of
from engine.corpus.word_tables import lay_out, paragraphs_in_tables

_BEGIN, _SHOWS, _END, _HYPHEN = 0x13, 0x14, 0x15, 0x1E
_MARKS = (re.compile(rb"[\x13-\x15\x1e]\x00"), re.compile(rb"[\x13-\x15\x1e]"))
_UNSEEN = 0x1F  # a hyphen that is seen at the end of a line only
_DRAWN = re.compile(r"\s*(?:EQ|MACROBUTTON|GOTOBUTTON)\b", re.IGNORECASE)  # these fields show what they hold
_MAX_FIELD_LENGTH = 4000  # characters of a field that are not shown; more are no field


def as_printed(content: bytes) -> bytes:
    """The bytes of a document whose text is as it is printed; the same where nothing is to be changed, or where it is damaged."""
    try:
        compound = compound_of(content)
        word = bytearray(compound.read("WordDocument"))
        pieces = pieces_of(compound, bytes(word))
        changed = _changed(word, pieces)
        with suppress(struct.error, IndexError):  # of a table that is not found the rest is printed
            changed = lay_out(word, pieces, paragraphs_in_tables(compound, bytes(word), pieces)) or changed
        return compound.with_stream("WordDocument", bytes(word)) if changed else content
    except (ValueError, OverflowError, struct.error, IndexError):
        return content


def _changed(word: bytearray, pieces: Pieces) -> bool:
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
            if start >= 0 and character - start <= _MAX_FIELD_LENGTH:
                _hide(word, pieces, start + 1, character)
            begun += [-1] if mark == _SHOWS else []
    return word != former


def _hide(word: bytearray, pieces: Pieces, start: int, end: int) -> None:
    """Puts what is never seen in the place of a field's characters, unless it shows what it holds; paragraphs stay."""
    for piece in pieces.of(start, end):
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


def _marks(word: bytes, pieces: Pieces) -> Iterator[tuple[int, int, int]]:
    """(number of the character, its place in the stream, its code) of the marks in the text, in order."""
    for piece in pieces:
        end = piece.start + piece.count * piece.width
        for found in _MARKS[piece.width == 1].finditer(word, piece.start, end):
            along, odd = divmod(found.start() - piece.start, piece.width)
            if not odd:
                yield piece.first + along, found.start(), found[0][0]
