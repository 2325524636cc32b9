"""ZIP packages, which office files are: opened once for all that look into one, and put together anew with some parts changed."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO

from engine.corpus.last import Last

_KEPT = 2**22  # bytes of a part that is read once for all
_LOCAL, _CENTRAL, _END = struct.Struct("<4s5H3I2H"), struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s4H2IH")
_LOCKED, _UTF8 = 0x1, 0x800
_MAX_SIZE = 2**30
_PLAIN = 0x80E  # flags: how hard it was packed, sizes behind it, names in UTF-8: what is read alike

DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    EOFError,
    ValueError,
    OSError,
    struct.error,
)
"""What looking into a damaged package, or one that is locked, may raise."""


class Package:
    """A package in memory. Raises zipfile.BadZipFile for what is none."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.archive = zipfile.ZipFile(BytesIO(content))
        self._parts: dict[str, bytes] = {}

    def read(self, name: str) -> bytes:
        """A part's bytes. Raises KeyError for one that is not there, one of `DAMAGED`."""
        data = self._parts.get(name)
        if data is None:
            data = self._unpacked(self.archive.getinfo(name))
            if data is None:
                data = self.archive.read(name)
            if len(data) <= _KEPT:
                self._parts[name] = data
        return data

    def changed(self, parts: Mapping[str, bytes]) -> bytes:
        """The package with other bytes in some parts; the others are taken as they are packed. Raises one of `DAMAGED`."""
        file, directory = BytesIO(), BytesIO()
        members = self.archive.NameToInfo
        for name, member in members.items():
            data = parts.get(name)
            packed = self._packed(member) if data is None else data
            method, check = (member.compress_type, member.CRC) if data is None else (0, zlib.crc32(data))
            size = member.file_size if data is None else len(data)
            encoded = name.encode()
            fields = (0 if name.isascii() else _UTF8, method, 0, 33, check, len(packed), size, len(encoded), 0)
            directory.write(_CENTRAL.pack(b"PK\1\2", 20, 20, *fields, 0, 0, 0, 0, file.tell()) + encoded)
            file.write(_LOCAL.pack(b"PK\3\4", 20, *fields) + encoded + packed)
        place, size = file.tell(), directory.tell()
        file.write(directory.getvalue())
        file.write(_END.pack(b"PK\5\6", 0, 0, len(members), len(members), size, place, 0))
        return file.getvalue()

    def _unpacked(self, member: zipfile.ZipInfo) -> bytes | None:
        """A part's bytes, in a fraction of the time that `zipfile` takes; None where anything is not as it should be: what such
        a part is worth, `zipfile` says.
        """
        start = member.header_offset + _LOCAL.size
        name = member.orig_filename.encode("ascii", "replace")
        plain = self.content[start - 4 : start - 2] == len(name).to_bytes(2, "little") and self.content.startswith(
            name, start
        )
        if (
            not plain
            or not member.orig_filename.isascii()
            or member.flag_bits & ~_PLAIN
            or member.file_size > _MAX_SIZE
        ):
            return None
        try:
            data = self._packed(member)
            if member.compress_type == zipfile.ZIP_DEFLATED:
                reading = zlib.decompressobj(-15)
                data = reading.decompress(data, member.file_size + 1)
                plain = reading.eof and not reading.unused_data
        except (zipfile.BadZipFile, zlib.error, struct.error):
            return None
        plain = plain and member.compress_type in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED)
        return data if plain and len(data) == member.file_size and zlib.crc32(data) == member.CRC else None

    def _packed(self, member: zipfile.ZipInfo) -> bytes:
        start = member.header_offset
        signature, *_, name, extra = _LOCAL.unpack_from(self.content, start)
        start += _LOCAL.size + name + extra
        packed = self.content[start : start + member.compress_size]
        end = getattr(member, "_end_offset", None)  # of newer versions of Python: where the next part begins
        if end is not None and start + member.compress_size > end:
            raise zipfile.BadZipFile(f"a part that reaches into the next: {member.filename}")
        if member.flag_bits & _LOCKED or signature != b"PK\3\4" or len(packed) != member.compress_size:
            raise zipfile.BadZipFile(f"a part that cannot be taken: {member.filename}")
        return packed


_last = Last(Package)


def package_of(content: bytes) -> Package:
    """The package that some bytes are; the same for the same bytes until `forget`. Raises as `Package`."""
    return _last.of(content)


def forget() -> None:
    """Let go of the package that was opened last."""
    _last.forget()
