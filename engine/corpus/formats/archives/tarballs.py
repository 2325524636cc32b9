"""Tar archives, plain or compressed, and single compressed files.

They are read as a stream, a member at a time.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, cast

from engine.corpus.formats import Finding, LeftOut, Member, UnreadableFileError
from engine.corpus.formats.archives.members import (
    HIDDEN_ONLY,
    LIMITS,
    NO_FILES,
    ArchiveLimits,
    Room,
    is_hidden,
    read_bounded,
    refuse_outside,
    report_bomb,
    report_link,
)
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.plain import guess_encoding_of_names
from engine.corpus.formats.recognition import is_bomb
from engine.corpus.formats.source import get_content_size, open_content
from engine.corpus.scan.formats import COMPRESSED

_DAMAGED = (
    tarfile.TarError,
    EOFError,
    OSError,
    ValueError,
    zlib.error,
    lzma.LZMAError,
    OverflowError,
)
_REST = "the rest of the archive"
_BLOCK = 512


class TarReader:
    """A reader of .tar, .tar.gz and the like, and .gz, .xz, .bz2 and .zst of one file."""

    def __init__(self, limits: ArchiveLimits = LIMITS) -> None:
        self._limits = limits

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with open_content(path, data) as file:
            size = get_content_size(path, data)
            kind = _find_compression(file)
            try:
                pieces = _Pieces(_open_decompressed(file, kind))
            except _list_errors(kind) as error:
                raise UnreadableFileError(path, describe_damage(error)) from error
            content = cast(IO[bytes], BufferedReader(pieces))
            room = Room(self._limits)
            if kind and not _is_archive(pieces.head):
                yield _read_only_file(path, content, size, kind, room)
            else:
                yield from _read_members(path, content, size, kind, room)


READER = TarReader()


class _Pieces(RawIOBase):
    """Unpacked bytes as they come, so that what precedes damage is not lost with it.

    `head` is the first block.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.head = b""
        while len(self.head) < _BLOCK and (piece := stream.read1(_BLOCK - len(self.head))):
            self.head += piece
        self._left = self.head

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Put the next bytes into a buffer, and return how many."""
        piece = self._left or self._stream.read1(len(buffer))
        kept = piece[: len(buffer)]
        self._left = piece[len(kept) :]
        buffer[: len(kept)] = kept
        return len(kept)


def _find_compression(file: IO[bytes]) -> str:
    """Return how a file is compressed, empty if it is not."""
    head = file.read(8)
    file.seek(0)
    for magic, kind in COMPRESSED.items():
        if head.startswith(magic):
            return kind
    return ""


def _open_decompressed(file: IO[bytes], kind: str) -> IO[bytes]:
    match kind:
        case "gz":
            return cast(IO[bytes], gzip.GzipFile(fileobj=file))
        case "xz":
            return cast(IO[bytes], lzma.LZMAFile(file))
        case "bz2":
            return cast(IO[bytes], bz2.BZ2File(file))
        case "zst":
            return cast(IO[bytes], _import_zstd().ZstdFile(file))
    return file


def _import_zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _list_errors(kind: str) -> tuple[type[BaseException], ...]:
    """Return the errors that reading a damaged file raises."""
    if kind == "zst":
        return (*_DAMAGED, _import_zstd().ZstdError)
    return _DAMAGED


def _is_archive(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        # An archive without files consists of zeros.
        return len(head) == _BLOCK and not any(head)
    return True


def _read_only_file(path: Path, content: IO[bytes], size: int, kind: str, room: Room) -> Finding:
    """Return a single compressed file, named like the whole without the ending."""
    name = path.stem
    try:
        unpacked = read_bounded(content.read, room.for_member)
    except OverflowError:
        return room.report_too_large(name)
    except _list_errors(kind) as error:
        raise UnreadableFileError(path, describe_damage(error)) from error
    if is_bomb(size, len(unpacked)):
        return report_bomb(name, len(unpacked))
    return Member(name, unpacked)


def _read_members(
    path: Path, content: IO[bytes], size: int, kind: str, room: Room
) -> Iterator[Finding]:
    """Yield the files of an archive.

    What follows damage is lost, what precedes it is not.
    """
    has_files = False
    are_all_hidden = True
    try:
        with tarfile.open(
            fileobj=content, mode="r|", bufsize=_BLOCK, encoding="utf-8", errors="surrogateescape"
        ) as archive:
            for member in archive:
                has_files = has_files or not member.isdir()
                if is_bomb(size, member.size):
                    yield report_bomb(_decode_name(member.name), member.size)
                    yield LeftOut(
                        _REST, "quarantined", "too large", "it comes after a decompression bomb"
                    )
                    return
                finding = _read_member(archive, member, room)
                if finding is not None:
                    are_all_hidden = False
                    if isinstance(finding, Member):
                        room.take(len(finding.data))
                    yield finding
    except _list_errors(kind) as error:
        if are_all_hidden:
            raise UnreadableFileError(path, describe_damage(error)) from error
        yield LeftOut(_REST, "quarantined", "damaged", describe_damage(error))
        return
    if are_all_hidden:
        raise UnreadableFileError(path, HIDDEN_ONLY if has_files else NO_FILES, "empty")


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, room: Room) -> Finding | None:
    name = _decode_name(member.name)
    if refused := refuse_outside(name):
        return refused
    name = name.removeprefix("./")
    if member.isdir() or is_hidden(name):
        return None
    if member.issym() or member.islnk():
        return report_link(name)
    if not member.isfile():
        return LeftOut(name, "skipped", "unsupported", "a device or a pipe, not a file")
    if member.size > room.for_member:
        return room.report_too_large(name)
    file = archive.extractfile(member)
    if file is None:
        content = b""
    else:
        content = file.read()
    if len(content) < member.size:
        raise EOFError("the archive ends in the middle of a file")
    return Member(name, content)


def _decode_name(name: str) -> str:
    """Return a member's name, read as UTF-8, else in the code page that fits it best."""
    raw = name.encode("utf-8", "surrogateescape")
    with suppress(UnicodeError):
        return raw.decode("utf-8")
    with suppress(UnicodeError, LookupError):
        return raw.decode(guess_encoding_of_names(raw) or "cp1252")
    return raw.decode("cp1252", "replace")
