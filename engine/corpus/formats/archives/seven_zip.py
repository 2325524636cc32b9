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
    UnpackBudget,
    is_hidden,
    refuse_outside,
    report_bomb,
    report_link,
)
from engine.corpus.formats.damage import describe_damage
from engine.corpus.formats.locked import explain_lock, known_passwords
from engine.corpus.formats.recognition import is_bomb
from engine.corpus.formats.source import get_content_size, open_content
from engine.corpus.scan.formats import FORMATS, IMAGES, SERVED, ending_of, names_no_format


class SevenZipReader:
    """A reader of .7z files."""

    def __init__(self, limits: ArchiveLimits = LIMITS) -> None:
        self._limits = limits

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with open_content(path, data) as file:
            archive_size = get_content_size(path, data)
            archive, password = _open(path, file)
            members = [member for member in archive.files if not member.is_directory]
            if not members:
                raise UnreadableFileError(path, NO_FILES, "empty")
            accepted: list[Any] = []
            budget = UnpackBudget(self._limits)
            are_all_hidden = True
            for member in members:
                refused = _refuse(member, archive_size, budget)
                if refused is not None:
                    are_all_hidden = False
                    yield refused
                elif not is_hidden(member.filename):
                    are_all_hidden = False
                    budget.spend(member.uncompressed)
                    accepted.append(member)
            if are_all_hidden:
                raise UnreadableFileError(path, HIDDEN_ONLY, "empty")
            yield from _unpack(
                file,
                password,
                accepted,
                max_batch_size=self._limits.member,
            )


READER = SevenZipReader()


def _open(path: Path, file: IO[bytes]) -> tuple[Any, str | None]:
    """Return the archive as py7zr's SevenZipFile, and the password that opens it, None if unlocked.

    Raises UnreadableFileError if it is damaged, or if no known password opens it.
    """
    from py7zr import SevenZipFile
    from py7zr.exceptions import PasswordRequired, UnsupportedCompressionMethodError

    is_locked = False
    for password in (None, *known_passwords()):
        file.seek(0)
        try:
            archive = SevenZipFile(
                file,
                "r",
                password=password,
            )
            if not archive.needs_password():
                return archive, password
            if password is not None and _fits(password, file, archive):
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


def _fits(
    password: str,
    file: IO[bytes],
    archive: Any,
) -> bool:
    """Return whether a password unpacks the smallest file of an archive that is not empty.

    Any password does if all files are empty.

    py7zr opens an archive with any password, unless its list of files is encrypted, too.
    """
    files = [member for member in archive.files if not member.is_directory and member.uncompressed]
    smallest = min(
        files,
        key=lambda member: member.uncompressed,
        default=None,
    )
    if smallest is None:
        return True
    if smallest.uncompressed > LIMITS.member:
        return False
    unpacked = _unpack(
        file,
        password,
        [smallest],
        max_batch_size=LIMITS.member,
    )
    return isinstance(next(unpacked, None), Member)


def _refuse(
    member: Any,
    archive_size: int,
    budget: UnpackBudget,
) -> LeftOut | None:
    """Return why a member must not be unpacked, None if it may be, or if it is hidden.

    `member` is py7zr's ArchiveFile. `archive_size` is the number of bytes of the whole archive,
    which stands for the packed size of the member: files are packed together, so that is not known.
    """
    name = member.filename
    if refused := refuse_outside(name):
        return refused
    if is_hidden(name):
        return None
    if member.is_symlink or member.is_junction:
        return report_link(name)
    if is_bomb(archive_size, member.uncompressed):
        return report_bomb(name, member.uncompressed)
    if member.uncompressed > budget.max_member_size:
        return budget.report_too_large(name)
    return None


def _unpack(
    file: IO[bytes],
    password: str | None,
    members: Sequence[Any],
    *,
    max_batch_size: int,
) -> Iterator[Finding]:
    """Yield members of an archive, unpacked in batches of at most `max_batch_size` bytes.

    The files of an archive are packed together, so py7zr unpacks it from its beginning for each
    batch. Large batches are therefore fast; their maximum size bounds the memory. `members` are
    py7zr's ArchiveFiles, whose `uncompressed` is a number of bytes.
    """
    batch: list[Any] = []
    batch_size = 0
    for member in members:
        ending = ending_of(member.filename)
        is_read = ending in FORMATS or ending in IMAGES or ending in SERVED
        if not (is_read or names_no_format(ending)):
            # The caller reports such a file by its name alone, so it need not be unpacked.
            yield Member(member.filename, b"")
            continue
        if batch and batch_size + member.uncompressed > max_batch_size:
            yield from _unpack_batch(file, password, batch)
            batch = []
            batch_size = 0
        batch.append(member)
        batch_size += member.uncompressed
    if batch:
        yield from _unpack_batch(file, password, batch)


def _unpack_batch(
    file: IO[bytes],
    password: str | None,
    batch: Sequence[Any],
) -> Iterator[Finding]:
    """Yield each file of a batch, or report that it is damaged if some of its bytes are missing."""
    from py7zr import SevenZipFile

    from engine.corpus.formats.archives.unpacked import UnpackedFiles

    unpacked = UnpackedFiles()
    names = [member.filename for member in batch]
    failure: Exception | None = None
    file.seek(0)
    try:
        with SevenZipFile(file, "r", password=password) as archive:
            archive.extract(targets=names, factory=unpacked)
    except MemoryError:
        raise
    # A damaged archive may lead to any error.
    except Exception as error:
        failure = error
    for member, data in zip(batch, unpacked.read_contents(names), strict=True):
        if data is not None and len(data) == member.uncompressed:
            yield Member(member.filename, data)
        else:
            reason = describe_damage(failure or "it ends too early")
            yield LeftOut(
                member.filename,
                "quarantined",
                "damaged",
                reason,
            )
