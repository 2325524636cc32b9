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
from typing import IO, Any

from engine.corpus.formats import Finding, LeftOut, Member, UnreadableFileError
from engine.corpus.formats.archives.members import (
    HIDDEN_ONLY,
    LIMITS,
    NO_FILES,
    ArchiveLimits,
    UnpackBudget,
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
# Number of bytes of a header in a tar archive; contents are padded to a multiple of it.
_BLOCK = 512


class TarReader:
    """A reader of .tar, .tar.gz and the like, and .gz, .xz, .bz2 and .zst of one file."""

    def __init__(self, limits: ArchiveLimits = LIMITS) -> None:
        self._limits = limits

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with open_content(path, data) as file:
            packed_size = get_content_size(path, data)
            compression = _find_compression(file)
            try:
                stream = _DecompressedStream(_open_decompressed(file, compression))
            except _list_errors(compression) as error:
                raise UnreadableFileError(path, describe_damage(error)) from error
            content = BufferedReader(stream)
            budget = UnpackBudget(self._limits)
            if compression and not _is_archive(stream.head):
                yield _read_single_file(
                    path,
                    content,
                    packed_size,
                    compression,
                    budget,
                )
            else:
                yield from _read_members(
                    path,
                    content,
                    packed_size,
                    compression,
                    budget,
                )


READER = TarReader()


class _DecompressedStream(RawIOBase):
    """The unpacked bytes of a file; `head` is the first block of them.

    A read returns what one call of `read1` unpacks, even if that is less than was asked for.
    Reading on until the buffer is full would lose these bytes if damage follows.
    """

    def __init__(self, decompressor: Any) -> None:
        self._decompressor = decompressor
        self.head = b""
        while len(self.head) < _BLOCK:
            piece = decompressor.read1(_BLOCK - len(self.head))
            if not piece:
                break
            self.head += piece
        self._pending = self.head

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Put the next bytes into a buffer, and return how many."""
        piece = self._pending or self._decompressor.read1(len(buffer))
        fitting = piece[: len(buffer)]
        self._pending = piece[len(fitting) :]
        buffer[: len(fitting)] = fitting
        return len(fitting)


def _find_compression(file: IO[bytes]) -> str:
    """Return how a file is compressed, by its first bytes: gz, xz, bz2, zst, or empty if it is not.

    Leaves the file at its beginning.
    """
    head = file.read(8)
    file.seek(0)
    for magic, compression in COMPRESSED.items():
        if head.startswith(magic):
            return compression
    return ""


def _open_decompressed(file: IO[bytes], compression: str) -> Any:
    """Open the unpacked content of a file, or the file itself if it is not compressed."""
    match compression:
        case "gz":
            return gzip.GzipFile(fileobj=file)
        case "xz":
            return lzma.LZMAFile(file)
        case "bz2":
            return bz2.BZ2File(file)
        case "zst":
            return _import_zstd().ZstdFile(file)
    return file


def _import_zstd() -> Any:
    """Return the module `zstd` of the standard library, or its backport for older versions."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _list_errors(compression: str) -> tuple[type[BaseException], ...]:
    """Return the errors that reading a damaged file of this compression may raise."""
    if compression == "zst":
        return (*_DAMAGED, _import_zstd().ZstdError)
    return _DAMAGED


def _is_archive(head: bytes) -> bool:
    """Return whether the first block of an unpacked file is the header of a tar archive."""
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        # A tar archive without files consists of zeros, and `frombuf` refuses those.
        return len(head) == _BLOCK and not any(head)
    return True


def _read_single_file(
    path: Path, content: IO[bytes], packed_size: int, compression: str, budget: UnpackBudget
) -> Finding:
    """Return the file in a .gz, .xz, .bz2 or .zst file: `notes.txt` in `notes.txt.gz`."""
    name = path.stem
    try:
        unpacked = read_bounded(content.read, budget.max_member_size)
    except OverflowError:
        return budget.report_too_large(name)
    except _list_errors(compression) as error:
        raise UnreadableFileError(path, describe_damage(error)) from error
    if is_bomb(packed_size, len(unpacked)):
        return report_bomb(name, len(unpacked))
    return Member(name, unpacked)


def _read_members(
    path: Path, content: IO[bytes], packed_size: int, compression: str, budget: UnpackBudget
) -> Iterator[Finding]:
    """Yield the files of an archive, up to damage or a decompression bomb.

    `packed_size` is the number of bytes of the whole compressed archive. Raises UnreadableFileError
    if there is nothing before the damage, or if the archive holds no files or only hidden ones.
    """
    has_files = False
    are_all_hidden = True
    try:
        with tarfile.open(
            fileobj=content, mode="r|", bufsize=_BLOCK, encoding="utf-8", errors="surrogateescape"
        ) as archive:
            for member in archive:
                has_files = has_files or not member.isdir()
                if is_bomb(packed_size, member.size):
                    yield report_bomb(_decode_name(member.name), member.size)
                    yield LeftOut(
                        _REST, "quarantined", "too large", "it comes after a decompression bomb"
                    )
                    return
                finding = _read_member(archive, member, budget)
                if finding is not None:
                    are_all_hidden = False
                    if isinstance(finding, Member):
                        budget.spend(len(finding.data))
                    yield finding
    except _list_errors(compression) as error:
        if are_all_hidden:
            raise UnreadableFileError(path, describe_damage(error)) from error
        yield LeftOut(
            _REST,
            "quarantined",
            "damaged",
            describe_damage(error),
        )
        return
    if are_all_hidden:
        raise UnreadableFileError(
            path,
            HIDDEN_ONLY if has_files else NO_FILES,
            "empty",
        )


def _read_member(
    archive: tarfile.TarFile, member: tarfile.TarInfo, budget: UnpackBudget
) -> Finding | None:
    """Return a member's bytes, or why it is left out; None for a folder or a hidden file.

    Raises EOFError if the archive ends within it.
    """
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
    if member.size > budget.max_member_size:
        return budget.report_too_large(name)
    file = archive.extractfile(member)
    content = b"" if file is None else file.read()
    if len(content) < member.size:
        raise EOFError("the archive ends in the middle of a file")
    return Member(name, content)


def _decode_name(name: str) -> str:
    """Decode a member's name from UTF-8, else from the code page that fits it best.

    `name` has a lone surrogate for each byte that is not UTF-8, as `_read_members` opens archives.
    """
    raw = name.encode("utf-8", "surrogateescape")
    with suppress(UnicodeError):
        return raw.decode("utf-8")
    with suppress(UnicodeError, LookupError):
        return raw.decode(guess_encoding_of_names(raw) or "cp1252")
    return raw.decode("cp1252", "replace")
