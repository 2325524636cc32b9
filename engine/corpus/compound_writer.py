"""Compound files, written: a folder of one that holds a document is that document once it is a file of its own. [MS-CFB]"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.corpus.compound import MAGIC, CompoundFile

_SECTOR, _SMALL = 512, 64  # bytes
_CUTOFF = 4096  # bytes; streams below it lie in small sectors, which are a stream of their own
_ROOM = _SECTOR // 4  # numbers that a sector holds
_IN_HEADER = 109  # sectors of the table that the header lists
_END, _FREE, _OF_TABLE, _OF_LIST = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD, 0xFFFFFFFC
_FOLDER, _STREAM, _ROOT, _BLACK = 1, 2, 5, 1
_DIRECTORY_ENTRY = struct.Struct("<64sHBBIII36xIQ")


@dataclass(slots=True)
class _Entry:
    name: str
    kind: int
    content: bytes = b""
    inside: dict[str, _Entry] = field(default_factory=dict)
    left: int = _FREE
    right: int = _FREE
    child: int = _FREE
    start: int = _END

    def packed(self) -> bytes:
        name = self.name.encode("utf-16-le")
        start = 0 if self.kind == _FOLDER else self.start
        links = (self.left, self.right, self.child)
        return _DIRECTORY_ENTRY.pack(name, len(name) + 2, self.kind, _BLACK, *links, start, len(self.content))


class _Sectors:
    """Sectors of one size, and which of them follows each."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.content, self.table = bytearray(), list[int]()

    def place(self, data: bytes) -> int:
        """Put some bytes into sectors; returns the first, which nothing has none of."""
        if not data:
            return _END
        first, count = len(self.table), -(-len(data) // self._size)
        self.content += data.ljust(count * self._size, b"\0")
        self.table += [*range(first + 1, first + count), _END]
        return first


def taken_out(compound: CompoundFile, folder: str, most: int) -> bytes:
    """A file of the streams in a folder of another (`ObjectPool/_1/`). Raises OverflowError as `streams_in`."""
    return compound_file(streams_in(compound, folder, most))


def streams_in(compound: CompoundFile, folder: str, most: int) -> dict[str, bytes]:
    """The streams in a folder, by their paths from there. Raises OverflowError where they hold more than `most` bytes."""
    streams: dict[str, bytes] = {}
    left = most
    for name in compound.names():
        if name.startswith(folder):
            streams[name.removeprefix(folder)] = content = compound.read(name, left + 1)
            left -= len(content)
            if left < 0:
                raise OverflowError(f"streams of more than {most} bytes")
    return streams


def compound_file(streams: Mapping[str, bytes]) -> bytes:
    """A compound file of streams by path, as programs before 2007 write them."""
    entries = _directory(streams)
    large, small = _Sectors(_SECTOR), _Sectors(_SMALL)
    for entry in entries[1:]:
        entry.start = (small if len(entry.content) < _CUTOFF else large).place(entry.content)
    entries[0].content = bytes(small.content)
    entries[0].start = large.place(entries[0].content)
    small_table = struct.pack(f"<{len(small.table)}I", *small.table)
    listed = b"".join(entry.packed() for entry in entries)
    unused = _DIRECTORY_ENTRY.pack(b"", 0, 0, 0, _FREE, _FREE, _FREE, 0, 0)
    listed += unused * (-len(entries) % (_SECTOR // len(unused)))
    return _assembled(large, listed, small_table)


def _assembled(sectors: _Sectors, listed: bytes, small_table: bytes) -> bytes:
    small_count = -(-len(small_table) // _SECTOR)
    small_start = sectors.place(small_table.ljust(small_count * _SECTOR, b"\xff"))
    directory = sectors.place(listed)
    used = len(sectors.table)
    tables, lists = _counted(used)
    table = [*sectors.table, *[_OF_TABLE] * tables, *[_OF_LIST] * lists]
    table += [_FREE] * (tables * _ROOM - len(table))
    places = [*range(used, used + tables), *[_FREE] * max(0, _IN_HEADER - tables)]
    header = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII", MAGIC, 0x3E, 3, 0xFFFE, 9, 6, 0, tables, directory, 0, _CUTOFF, small_start, small_count,
        used + tables if lists else _END, lists,
    )  # fmt: skip
    header += struct.pack(f"<{_IN_HEADER}I", *places[:_IN_HEADER])
    more = _lists(places[_IN_HEADER:], used + tables, lists)
    return b"".join((header, sectors.content, struct.pack(f"<{len(table)}I", *table), more))


def _counted(used: int) -> tuple[int, int]:
    """How many sectors the table takes that links each to the next, and how many the list of its own sectors."""
    tables = lists = 0
    while used + tables + lists > tables * _ROOM:
        tables = -(-(used + tables + lists) // _ROOM)
        lists = -(-max(0, tables - _IN_HEADER) // (_ROOM - 1))
    return tables, lists


def _lists(places: list[int], first: int, count: int) -> bytes:
    """The sectors, from the `first` on, that list those of the table for which the header has no room."""
    packed = b""
    for number in range(count):
        listed = places[number * (_ROOM - 1) : (number + 1) * (_ROOM - 1)]
        following = first + number + 1 if number + 1 < count else _END
        packed += struct.pack(f"<{_ROOM}I", *listed, *[_FREE] * (_ROOM - 1 - len(listed)), following)
    return packed


def _directory(streams: Mapping[str, bytes]) -> list[_Entry]:
    root = _Entry("Root Entry", _ROOT)
    for path, content in streams.items():
        *folders, name = path.split("/")
        at = root
        for folder in folders:
            at = at.inside.setdefault(folder, _Entry(folder, _FOLDER))
        at.inside[name] = _Entry(name, _STREAM, content)
    entries = [root]
    for entry in entries:  # it grows meanwhile
        first = len(entries)
        entries += sorted(entry.inside.values(), key=_order)
        entry.child = _linked(entries, first, len(entries))
    return entries


def _order(entry: _Entry) -> tuple[int, str]:
    return len(entry.name.encode("utf-16-le")), entry.name.upper()


def _linked(entries: list[_Entry], first: int, end: int) -> int:
    """Make entries that stand in order a balanced tree; returns its root."""
    if first == end:
        return _FREE
    middle = (first + end) // 2
    entries[middle].left = _linked(entries, first, middle)
    entries[middle].right = _linked(entries, middle + 1, end)
    return middle
