"""The records of a PowerPoint presentation of before 2007, and the texts among them. Nothing here trusts a number that they give.

[MS-PPT] 2.1.2 (how the parts are found), 2.3.1 (a record's head), 2.9 (texts).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.corpus.margins import FIELD, without_fields
from engine.corpus.readers import clean

TITLES = (0, 6)
"""The kinds of text that titles are."""
OTHER = 4
"""The kind of text that is neither title nor body."""
_EDIT, _DIRECTORY = 0x0FF5, 0x1772
_HEADER, _WIDE, _NARROW = 0x0F9F, 0x0FA0, 0x0FA8
_FIELDS = frozenset(
    {0x0FD8, 0x0FF7, 0x0FF8, 0x0FF9, 0x0FFA, 0x1015}
)  # number, dates, header, footer: signs in the text
_LINE_BREAK = 0x0B
_UNPRINTED = dict.fromkeys(code for code in range(0x20) if chr(code) not in "\t\n")
_MAX_DEPTH = 64
_OVERLAP = 4  # no more is walked through than so many times the stream's length


class Record(NamedTuple):
    """What lies between two places of the stream, behind its head."""

    kind: int
    instance: int
    start: int
    end: int


@dataclass(slots=True)
class PptText:
    """A text; `kind` is that of its header."""

    kind: int
    units: bytearray = field(default_factory=bytearray)  # UTF-16

    def paragraphs(self) -> str:
        """The text with a blank line between paragraphs, without fields."""
        text = clean(self.units.decode("utf-16-le", "replace").rstrip("\0"))
        if FIELD in text:
            text = "\n".join(without_fields(text))
        breaks = {**_UNPRINTED, _LINE_BREAK: " " if self.kind in TITLES else "\n"}
        return "\n\n".join(filter(None, (line.strip().translate(breaks) for line in text.split("\n"))))


class Records:
    """The records of a stream. Raises ValueError once more of them were read than a sound stream has."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.whole = True
        self._left = _OVERLAP * len(data)

    def at(self, place: int, end: int) -> Record:
        """The record at a place, cut where it says that it is longer than what it lies in."""
        head, kind, size = struct.unpack_from("<HHI", self.data, place)
        self.spend(8)
        self.whole = self.whole and place + 8 + size <= end
        return Record(kind, head >> 4, place + 8, min(place + 8 + size, end))

    def inside(self, record: Record) -> Iterator[Record]:
        """The records in a record."""
        at = record.start
        while at + 8 <= record.end:
            inner = self.at(at, record.end)
            yield inner
            at = inner.end

    def under(self, record: Record, through: frozenset[int]) -> Iterator[Record]:
        """The records in a record and, after each of the kinds that are gone `through`, those in it."""
        stack = [self.inside(record)]
        while stack:
            for inner in stack[-1]:
                yield inner
                if inner.kind in through:
                    self.whole = self.whole and len(stack) < _MAX_DEPTH
                    stack += [self.inside(inner)] if len(stack) < _MAX_DEPTH else []
                    break
            else:
                stack.pop()

    def read(self, record: Record) -> bytes:
        """The bytes of a record."""
        self.spend(record.end - record.start)
        return self.data[record.start : record.end]

    def numbers(self, record: Record, form: str, offset: int = 0) -> tuple[int, ...]:
        """Numbers in a record. Raises struct.error where it is too short for them."""
        if record.start + offset + struct.calcsize(form) > record.end:
            raise struct.error("a record that is too short")
        return struct.unpack_from(form, self.data, record.start + offset)

    def texts(self, records: Iterable[Record]) -> list[PptText]:
        """The texts among records, each after its header, with a mark for each field."""
        texts: list[PptText] = []
        for record in records:
            if record.kind == _HEADER:
                texts.append(PptText(self.numbers(record, "<I")[0]))
            elif record.kind in (_WIDE, _NARROW):
                data = self.read(record)
                texts = texts or [PptText(OTHER)]
                texts[-1].units += data if record.kind == _WIDE else data.decode("latin-1").encode("utf-16-le")
            elif record.kind in _FIELDS and texts:
                at = 2 * self.numbers(record, "<I")[0]
                if texts[-1].units[at : at + 2] == b"*\0":
                    texts[-1].units[at : at + 2] = FIELD.encode("utf-16-le")
        return texts

    def spend(self, size: int) -> None:
        """Counts what is read. Raises ValueError where that is too much."""
        self._left -= size
        if self._left < 0:
            raise ValueError("records that are read again and again")


def places_in(records: Records, edit: int) -> dict[int, int]:
    """Where each container begins, by its number: of several directories the one that was written last counts."""
    places: dict[int, int] = {}
    seen: set[int] = set()
    every = Record(0, 0, 0, len(records.data))
    if edit + 8 > every.end or records.at(edit, every.end).kind != _EDIT:
        edit = max((record.start - 8 for record in records.inside(every) if record.kind == _EDIT), default=every.end)
    while edit not in seen and edit + 8 <= every.end:
        seen.add(edit)
        record = records.at(edit, every.end)
        if record.kind != _EDIT:
            break
        edit, directory = records.numbers(record, "<II", 8)
        for number, place in _entries(records, directory):
            places.setdefault(number, place)
        if not edit:
            break
    return places


def _entries(records: Records, directory: int) -> Iterator[tuple[int, int]]:
    record = records.at(directory, len(records.data))
    if record.kind != _DIRECTORY:
        return
    data = records.read(record)
    at = 0
    while at + 4 <= len(data):
        (packed,) = struct.unpack_from("<I", data, at)
        first, count = packed & 0xFFFFF, min(packed >> 20, (len(data) - at - 4) // 4)
        yield from enumerate(struct.unpack_from(f"<{count}I", data, at + 4), first)
        at += 4 + 4 * count
