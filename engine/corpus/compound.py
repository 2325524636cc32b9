"""Compound files, the containers of the office formats before 2007 and of .msg: names and bytes of their streams.

[MS-CFB]. Chains that loop, or lead out of the file, end the stream: nothing here trusts a number that the file gives.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from engine.corpus.last import Last

MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_NO_STREAM = 0xFFFFFFFF
_LAST_SECTOR = 0xFFFFFFFA
_ENTRY = 128
_MAX_ENTRIES = 200_000


class _Entry(NamedTuple):
    name: str
    kind: int
    left: int
    right: int
    child: int
    start: int
    size: int


class CompoundFile:
    """The streams of a compound file by path (`__attach_version1.0_#00000000/__substg1.0_3707001F`), whatever its case.

    Raises ValueError where it is none.
    """

    def __init__(self, data: bytes) -> None:
        if len(data) < 512 or not data.startswith(MAGIC):
            raise ValueError("not a compound file")
        self._data = data
        shift, mini_shift = struct.unpack_from("<HH", data, 30)
        if shift not in (9, 12) or mini_shift != 6:
            raise ValueError("a compound file with impossible sector sizes")
        self._sector, self._mini = 1 << shift, 1 << mini_shift
        directory, self._cutoff, mini_start = struct.unpack_from("<I4xII", data, 48)
        self._table = self._allocation_table()
        raw = self._chain(directory, _MAX_ENTRIES * _ENTRY)
        self._entries = [_entry(raw[at : at + _ENTRY]) for at in range(0, len(raw) - _ENTRY + 1, _ENTRY)]
        if not self._entries:
            raise ValueError("a compound file without a directory")
        mini_table = self._chain(mini_start, len(data))
        self._mini_table = struct.unpack(f"<{len(mini_table) // 4}I", mini_table[: len(mini_table) // 4 * 4])
        self._mini_stream = self._chain(self._entries[0].start, self._entries[0].size)
        self._named = dict(self._walk())
        self._streams = {path.lower(): entry for path, entry in self._named.items()}

    def names(self) -> list[str]:
        """Paths of all streams."""
        return list(self._named)

    def __contains__(self, path: str) -> bool:
        return path.lower() in self._streams

    def read(self, path: str, most: int | None = None) -> bytes:
        """The bytes of a stream, or its first `most`; empty where there is no such stream."""
        entry = self._streams.get(path.lower())
        if entry is None:
            return b""
        size = entry.size if most is None else min(entry.size, most)
        return self._mini_chain(entry.start, size) if entry.size < self._cutoff else self._chain(entry.start, size)

    def _places(self, path: str) -> tuple[list[int], int]:
        """Where in the file each sector of a stream begins, and how large it is; small streams have small sectors."""
        entry = self._streams.get(path.lower())
        if entry is None:
            return [], self._sector
        if entry.size >= self._cutoff:
            numbers = self._numbers(self._table, entry.start, entry.size, self._sector)
            return [(number + 1) * self._sector for number in numbers], self._sector
        root = self._entries[0]
        around = [
            (number + 1) * self._sector for number in self._numbers(self._table, root.start, root.size, self._sector)
        ]
        places = (
            divmod(number * self._mini, self._sector)
            for number in self._numbers(self._mini_table, entry.start, entry.size, self._mini)
        )
        return [around[number] + along for number, along in places if number < len(around)], self._mini

    def _numbers(self, table: Sequence[int], start: int, size: int, width: int) -> list[int]:
        """The numbers of the parts of a `width` that a chain of some `size` takes, of which `table` holds the next."""
        found: list[int] = []
        number, most = start, min(size, len(self._data)) // width + 1
        while len(found) * width < size and number < len(table) and len(found) < most:
            found.append(number)
            number = table[number]
        return found

    def with_stream(self, path: str, stream: bytes) -> bytes:
        """The file with other bytes in the place of those of a stream, as many as there were."""
        places, size = self._places(path)
        changed = bytearray(self._data)
        for number, place in enumerate(places):
            part = stream[number * size : (number + 1) * size][: max(0, len(changed) - place)]
            changed[place : place + len(part)] = part
        return bytes(changed)

    def tidied(self) -> bytes:
        """The file with the sectors free in its table that it does not have, which stricter readers want."""
        size, count = self._sector, len(self._data) // self._sector - 1
        content = bytearray(self._data)
        for number, sector in enumerate(self._table_sectors()):
            place = (sector + 1) * size
            entries = len(self._sector_at(sector)) // 4
            first = min(entries, max(0, count - number * (size // 4)))
            content[place + 4 * first : place + 4 * entries] = _NO_STREAM.to_bytes(4, "little") * (entries - first)
        return bytes(content)

    def _allocation_table(self) -> tuple[int, ...]:
        table = b"".join(map(self._sector_at, self._table_sectors()))
        return struct.unpack(f"<{len(table) // 4}I", table[: len(table) // 4 * 4])

    def _table_sectors(self) -> list[int]:
        header = struct.unpack_from("<109I", self._data, 76)
        next_block, blocks = struct.unpack_from("<II", self._data, 68)
        sectors = [number for number in header if number < _LAST_SECTOR]
        for _ in range(min(blocks, len(self._data) // self._sector)):
            if next_block >= _LAST_SECTOR:
                break
            block = self._sector_at(next_block)
            if len(block) < self._sector:
                break
            *more, next_block = struct.unpack(f"<{self._sector // 4}I", block)
            sectors += [number for number in more if number < _LAST_SECTOR]
        return list(
            dict.fromkeys(sectors)
        )  # each once: a table that names one again and again would be many times the file

    def _sector_at(self, number: int) -> bytes:
        at = (number + 1) * self._sector
        return self._data[at : at + self._sector]

    def _chain(self, start: int, size: int) -> bytes:
        most = len(self._data) // self._sector + 1
        return _follow(self._table, self._data, self._sector, self._sector, start, size, most)

    def _mini_chain(self, start: int, size: int) -> bytes:
        return _follow(self._mini_table, self._mini_stream, 0, self._mini, start, size, len(self._mini_table))

    def _walk(self) -> Iterator[tuple[str, _Entry]]:
        stack = [(self._entries[0].child, "")]
        seen: set[int] = set()
        while stack:
            number, prefix = stack.pop()
            if number in seen or number >= len(self._entries):
                continue
            seen.add(number)
            entry = self._entries[number]
            stack += [(entry.left, prefix), (entry.right, prefix)]
            if entry.kind == 1:
                stack.append((entry.child, f"{prefix}{entry.name}/"))
            elif entry.kind == 2:
                yield f"{prefix}{entry.name}", entry


def _follow(table: Sequence[int], data: bytes, offset: int, width: int, start: int, size: int, most: int) -> bytes:
    """`size` bytes of a chain of parts of a `width`, the first of which lies at an `offset`; `table` holds which part comes next,
    and those that lie one after the other are taken at once. A chain in a circle ends after `most` parts.
    """
    pieces: list[bytes] = []
    left, number, count, known = size, start, 0, len(table)
    while left > 0 and number < known and count <= most:
        first, end = number, number + min(-(-left // width), most + 1 - count)
        while (following := table[number]) == number + 1 and following < end and following < known:
            number = following
        count += number + 1 - first
        pieces.append(data[offset + first * width : offset + (number + 1) * width][:left])
        left -= len(pieces[-1])
        if offset + number * width >= len(data):
            break
        number = following
    return b"".join(pieces)


def _entry(raw: bytes) -> _Entry:
    length, kind, left, right, child = struct.unpack_from("<HBxIII", raw, 64)
    start, size = struct.unpack_from("<IQ", raw, 116)
    name = raw[: max(0, min(length, 64) - 2)].decode("utf-16-le", "replace")
    return _Entry(name, kind, left, right, child, start, size & 0x7FFFFFFF)


_last = Last(CompoundFile)


def compound_of(content: bytes) -> CompoundFile:
    """The compound file that some bytes are; the same for the same bytes until `forget`. Raises as `CompoundFile`."""
    return _last.of(content)


def forget() -> None:
    """Let go of the compound file that was opened last."""
    _last.forget()
