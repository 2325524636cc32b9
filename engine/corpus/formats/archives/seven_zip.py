"""Archives of 7-Zip, through py7zr."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from engine.corpus.formats import Finding, LeftOut, Member, UnreadableFileError
from engine.corpus.formats.archives.members import (
    HIDDEN_ONLY,
    LIMITS,
    NO_FILES,
    ArchiveLimits,
    Room,
    is_hidden,
    refuse_outside,
    report_bomb,
    report_link,
)
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.locked import explain_lock, known_passwords
from engine.corpus.formats.recognition import is_bomb
from engine.corpus.formats.source import get_content_size, open_content
from engine.corpus.scan.formats import FORMATS, IMAGES, ending_of, names_no_format


class SevenZipReader:
    """A reader of .7z files."""

    def __init__(self, limits: ArchiveLimits = LIMITS) -> None:
        self._limits = limits

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with open_content(path, data) as file:
            size = get_content_size(path, data)
            archive, password = _open(path, file)
            members = [member for member in archive.files if not member.is_directory]
            if not members:
                raise UnreadableFileError(path, NO_FILES, "empty")
            accepted: list[tuple[str, int]] = []
            room = Room(self._limits)
            are_all_hidden = True
            for member in members:
                refused = _refuse(member, size, room)
                if refused is not None:
                    are_all_hidden = False
                    yield refused
                elif not is_hidden(member.filename):
                    are_all_hidden = False
                    room.take(member.uncompressed)
                    accepted.append((member.filename, member.uncompressed))
            if are_all_hidden:
                raise UnreadableFileError(path, HIDDEN_ONLY, "empty")
            yield from _unpack(file, password, accepted, self._limits.member)


READER = SevenZipReader()


def _open(path: Path, file: IO[bytes]) -> tuple[Any, str | None]:
    """Return the archive, and the password that opens it.

    Raises UnreadableFileError.
    """
    from py7zr import SevenZipFile
    from py7zr.exceptions import PasswordRequired, UnsupportedCompressionMethodError

    is_locked = False
    for password in (None, *known_passwords()):
        file.seek(0)
        try:
            archive = SevenZipFile(file, "r", password=password)
            if not archive.needs_password():
                return archive, password
            if password is not None and _is_password(file, archive, password):
                return archive, password
            is_locked = True
        except PasswordRequired:
            is_locked = True
        except UnsupportedCompressionMethodError as error:
            reason = "its packing method is not known"
            raise UnreadableFileError(path, reason, "unsupported") from error
        except MemoryError:
            raise
        # A damaged archive or a wrong password may lead to any error.
        except Exception as error:
            if not is_locked:
                raise UnreadableFileError(path, describe_damage(error)) from error
    raise UnreadableFileError(path, explain_lock(), "encrypted")


def _is_password(file: IO[bytes], archive: Any, password: str) -> bool:
    """Tell whether a password opens the smallest file of an archive, if it has one."""
    files = [member for member in archive.files if not member.is_directory and member.uncompressed]
    smallest = min(files, key=lambda member: member.uncompressed, default=None)
    if smallest is None:
        return True
    size = smallest.uncompressed
    if size > LIMITS.member:
        return False
    finding = next(_unpack(file, password, [(smallest.filename, size)], size), None)
    return isinstance(finding, Member)


def _refuse(member: Any, size: int, room: Room) -> LeftOut | None:
    """Return why a member is left out before it is unpacked, or None."""
    name = member.filename
    if refused := refuse_outside(name):
        return refused
    if is_hidden(name):
        return None
    if member.is_symlink or member.is_junction:
        return report_link(name)
    if is_bomb(size, member.uncompressed):
        return report_bomb(name, member.uncompressed)
    if member.uncompressed > room.for_member:
        return room.report_too_large(name)
    return None


def _unpack(
    file: IO[bytes], password: str | None, members: Sequence[tuple[str, int]], at_once: int
) -> Iterator[Finding]:
    """Yield the files of these names and sizes, of `at_once` bytes at a time.

    They are packed together, and each start begins from the beginning of the archive.
    """
    batch: list[tuple[str, int]] = []
    held = 0
    for name, size in members:
        ending = ending_of(name)
        if not (ending in FORMATS or ending in IMAGES or names_no_format(ending)):
            # The file is not read: its name alone says why.
            yield Member(name, b"")
            continue
        if batch and held + size > at_once:
            yield from _unpack_batch(file, password, batch)
            batch = []
            held = 0
        batch.append((name, size))
        held += size
    yield from _unpack_batch(file, password, batch)


def _unpack_batch(
    file: IO[bytes], password: str | None, batch: Sequence[tuple[str, int]]
) -> Iterator[Finding]:
    if not batch:
        return
    from py7zr import SevenZipFile

    from engine.corpus.formats.archives.unpacked import UnpackedFiles

    files = UnpackedFiles()
    names = [name for name, _ in batch]
    failed: Exception | None = None
    file.seek(0)
    try:
        with SevenZipFile(file, "r", password=password) as archive:
            archive.extract(targets=names, factory=files)
    except MemoryError:
        raise
    # A damaged archive may lead to any error.
    except Exception as error:
        failed = error
    for (name, size), data in zip(batch, files.read_contents(names), strict=True):
        if data is not None and len(data) == size:
            yield Member(name, data)
        else:
            reason = describe_damage(failed or "it ends too early")
            yield LeftOut(name, "quarantined", "damaged", reason)
