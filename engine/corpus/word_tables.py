"""Tables and headings of Word documents of before 2007: kreuzberg gives all rows of a table in a line, and headings as lines.

[MS-DOC] 2.4.3 (what a table is made of), 2.8.5 and 2.9.174 (where paragraphs begin and how they are), 2.6.2 (that they lie
in a table, and that they end a row), and 2.9.271 (the styles 1 to 9 are those of headings).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.corpus.compound import CompoundFile, compound_of
from engine.corpus.flattened_tables import Table
from engine.corpus.readers import clean
from engine.corpus.word_lists import Lists, lists_of
from engine.corpus.word_pieces import Pieces, pieces_of

_OWN_LENGTH_AT = 0x4C  # of the document's own text, in the file's information block
_BINS_AT = 0x0102  # of the place and length of the list of pages of paragraphs, in the file's information block
_PAGE = 512
_PLACE = 13  # bytes that a page has for where a paragraph's properties stand
_IN_TABLE, _ENDS_ROW, _HEADS = b"\x16\x24\x01", b"\x17\x24\x01", b"\x04\x34\x01"
_ELSEWHERE = re.compile(rb"[\x45\x46]\x66(.{4})", re.DOTALL)  # properties that do not fit into a page
_MAX_LEVEL = 9  # level of a heading
_MAX_HEADING_LENGTH = 1000  # characters of a heading that are looked at
_CELL = "\x07"
_ENDS = ("\r", _CELL, "\f")  # of paragraphs
_MARKS = (re.compile(rb"\x07\x00"), re.compile(rb"\x07"))
_WITHIN = (0x09, 0x0B, 0x0D)  # tabs and line ends within a cell
_UNSEEN = re.compile(r"[\x00-\x06\x08\x0e-\x1f]")


class Paragraph(NamedTuple):
    """A paragraph, by the numbers of its first character and of the one behind it; its style, whether it stands in a table, only
    ends a row there, and whether that row is repeated on each page; the operations that say how it is.
    """

    first: int
    end: int
    style: int
    in_table: bool
    ends_row: bool
    heads: bool
    properties: bytes


def paragraphs_in_tables(compound: CompoundFile, word: bytes, pieces: Pieces) -> list[Paragraph]:
    """Those paragraphs of a document that stand in tables. Raises as `paragraphs_of`."""
    if not any(_MARKS[piece.width == 1].search(word, piece.start, piece.stop) for piece in pieces):
        return []
    return [paragraph for paragraph in paragraphs_of(compound, word, pieces) if paragraph.in_table]


def paragraphs_of(compound: CompoundFile, word: bytes, pieces: Pieces) -> list[Paragraph]:
    """The paragraphs of a document, in the order of the text. Raises struct.error or IndexError where it is damaged."""
    table = compound.read("1Table" if word[11] & 0x02 else "0Table")
    at, length = struct.unpack_from("<II", word, _BINS_AT)
    count = max(0, (min(length, len(table) - at) - 4) // 8)
    pages = struct.unpack_from(f"<{count}I", table, at + 4 * (count + 1))
    found: list[Paragraph] = []
    for page in dict.fromkeys(number & 0x3FFFFF for number in pages):
        for start, end, properties in _of_page(compound, word[page * _PAGE : (page + 1) * _PAGE]):
            style = int.from_bytes(properties[:2], "little")
            kind = _IN_TABLE in properties, _ENDS_ROW in properties, _HEADS in properties
            operations = properties[2:]
            parts = pieces.characters(start, end)
            found += [Paragraph(first, last, style, *kind, operations) for first, last in parts]
    return sorted(found)


def _of_page(compound: CompoundFile, page: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(place of the first byte, of the one behind the last, properties) of the paragraphs of a page."""
    count = page[_PAGE - 1]
    places = struct.unpack_from(f"<{count + 1}I", page)
    for number, (start, end) in enumerate(pairwise(places)):
        at = 2 * page[4 * (count + 1) + _PLACE * number]
        if at:
            size, at = (2 * page[at] - 1, at + 1) if page[at] else (2 * page[at + 1], at + 2)
            properties = page[at : at + size]
            if found := _ELSEWHERE.search(properties):
                properties += _elsewhere(compound, int.from_bytes(found[1], "little"))
            yield start, end, properties


def _elsewhere(compound: CompoundFile, at: int) -> bytes:
    data = compound.read("Data")
    return data[at + 2 : at + 2 + int.from_bytes(data[at : at + 2], "little")]


def lay_out(word: bytearray, pieces: Pieces, paragraphs: list[Paragraph]) -> bool:
    """Puts the text of a stream so that each row of a table is a line; returns whether anything was changed."""
    changed = False
    for paragraph in paragraphs:
        first = paragraph.end - 1 if paragraph.ends_row else paragraph.first
        for place, width in pieces.places(first, paragraph.end):
            code = int.from_bytes(word[place : place + width], "little")
            put = ord("\r") if paragraph.ends_row and code == ord(_CELL) else ord(" ") if code in _WITHIN else code
            changed = changed or put != code
            word[place : place + width] = put.to_bytes(width, "little")
    return changed


class Layout(NamedTuple):
    """The tables of a document, its headings as (level, title), and all paragraphs outside tables as (number that Word counts,
    line); none of these where it counts nothing.
    """

    tables: Sequence[Table] = ()
    headings: Sequence[tuple[int, str]] = ()
    numbered: Sequence[tuple[str, str]] = ()


def layout_of(content: bytes) -> Layout:
    """How a document is laid out whose rows are lines; of a damaged one nothing."""
    try:
        compound = compound_of(content)
        word = compound.read("WordDocument")
        pieces = pieces_of(compound, word)
        own: int = struct.unpack_from("<I", word, _OWN_LENGTH_AT)[0]
        paragraphs = [paragraph for paragraph in paragraphs_of(compound, word, pieces) if paragraph.first < own]
        lists = lists_of(compound, word, [paragraph.properties for paragraph in paragraphs])
        labels = _labels(word, pieces, paragraphs, lists) if lists else [""] * len(paragraphs)
        labelled = [
            (paragraph, label, _line(word, pieces, paragraph))
            for paragraph, label in zip(paragraphs, labels, strict=True)
            if not paragraph.in_table and (any(labels) or 1 <= paragraph.style <= _MAX_LEVEL)
        ]
        return Layout(
            list(_tables(word, pieces, [paragraph for paragraph in paragraphs if paragraph.in_table])),
            [
                (paragraph.style, f"{label} {line}".strip())
                for paragraph, label, line in labelled
                if 1 <= paragraph.style <= _MAX_LEVEL
            ],
            [(label, line) for _, label, line in labelled] if any(labels) else [],
        )
    except (ValueError, OverflowError, struct.error, IndexError):
        return Layout()


def _labels(word: bytes, pieces: Pieces, paragraphs: Sequence[Paragraph], lists: Lists) -> list[str]:
    """The numbers that Word counts for the paragraphs, empty for those that have none. A paragraph that stands in several pieces
    has one where it begins.
    """
    labels: list[str] = []
    for paragraph in paragraphs:
        number, level = lists.named_by(paragraph.style, paragraph.properties)
        first = paragraph.first
        begins = number and (not first or pieces.text(word, first - 1, first) in _ENDS)
        labels.append(lists.counting.label(f"{number}", level) if begins else "")
    return labels


def _line(word: bytes, pieces: Pieces, paragraph: Paragraph) -> str:
    """The first line of a paragraph."""
    text = pieces.text(word, paragraph.first, min(paragraph.end, paragraph.first + _MAX_HEADING_LENGTH))
    return _shown(text.split("\v")[0])


def _shown(text: str) -> str:
    return " ".join(clean(_UNSEEN.sub("", text)).split())


def _tables(word: bytes, pieces: Pieces, paragraphs: list[Paragraph]) -> Iterator[Table]:
    rows: list[list[str]] = []
    headed: bool | None = None
    text = ""
    for number, paragraph in enumerate(paragraphs):
        if not paragraph.ends_row:
            text += pieces.text(word, paragraph.first, paragraph.end)
        else:
            rows.append([_shown(cell) for cell in text.split(_CELL)[:-1]])
            headed, text = (True if paragraph.heads and len(rows) == 1 else headed), ""
        if number + 1 == len(paragraphs) or paragraphs[number + 1].first != paragraph.end:
            yield Table(rows, headed)
            rows, headed, text = [], None, ""
