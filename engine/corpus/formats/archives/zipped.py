"""ZIP archives."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

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
from engine.corpus.formats.locked import explain_lock, known_passwords
from engine.corpus.formats.plain import guess_encoding_of_names
from engine.corpus.formats.recognition import is_bomb, open_zip

_ENCRYPTED = 1
_UTF8_NAME = 0x800
# The encryption method of WinZip and 7-Zip.
_AES = 99


class ZipReader:
    """A reader of .zip files."""

    def __init__(self, limits: ArchiveLimits = LIMITS) -> None:
        self._limits = limits

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Finding]:
        """Read a file; see `Reader.read`."""
        with open_zip(path, data) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if not members:
                raise UnreadableFileError(path, NO_FILES, "empty")
            room = Room(self._limits)
            are_all_hidden = True
            for member, name in zip(members, decode_names(members), strict=True):
                finding = _read_member(archive, member, name, room)
                if finding is not None:
                    are_all_hidden = False
                    if isinstance(finding, Member):
                        room.take(len(finding.data))
                    yield finding
            if are_all_hidden:
                raise UnreadableFileError(path, HIDDEN_ONLY, "empty")


READER = ZipReader()


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, room: Room
) -> Finding | None:
    """Return a member's bytes, or why it is left out; None if it is hidden.

    `room`: how much may still be unpacked.
    """
    if refused := refuse_outside(name):
        return refused
    if is_hidden(name):
        return None
    if stat.S_ISLNK(member.external_attr >> 16):
        return report_link(name)
    if is_bomb(member.compress_size, member.file_size):
        return report_bomb(name, member.file_size)
    passwords: Sequence[str | None] = (None,)
    if member.flag_bits & _ENCRYPTED:
        passwords = known_passwords()
    try:
        content = _read_unlocked(archive, member, room.for_member, passwords)
        if content is None:  # no password opens it
            return LeftOut(name, "quarantined", "encrypted", explain_lock())
        return Member(name, content)
    except OverflowError:
        return room.report_too_large(name)
    except NotImplementedError:
        reason = f"its packing method {member.compress_type} is not known"
        return LeftOut(name, "quarantined", "unsupported", reason)
    except MemoryError:
        raise
    # A damaged archive may lead to any error.
    except Exception as error:
        return LeftOut(name, "quarantined", "damaged", describe_damage(error))


def _read_unlocked(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int, passwords: Sequence[str | None]
) -> bytes | None:
    """Return the bytes of a member with the first password that opens it, None if none does."""
    if member.compress_type == _AES:
        archive, member = _open_for_aes(archive, member)
    for password in passwords:
        try:
            return _unpack(archive, member, most, password)
        except (NotImplementedError, OverflowError, MemoryError):
            raise
        except Exception:
            # A wrong password may pass the first check by chance. pyzipper raises its own errors.
            if password is None:
                raise
    return None


def _open_for_aes(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
    """Return the archive and the member as pyzipper has them."""
    from pyzipper import AESZipFile

    assert archive.fp is not None
    reopened = AESZipFile(archive.fp)
    same_offset = (
        other for other in reopened.infolist() if other.header_offset == member.header_offset
    )
    return reopened, next(same_offset)


def decode_names(members: Sequence[zipfile.ZipInfo]) -> list[str]:
    """Return members' names, in UTF-8 if declared or valid.

    The others are read in the code page that fits all of them best.
    """
    stored_names = [_read_stored_name(member) for member in members]
    undeclared = {name for name in stored_names if isinstance(name, bytes)}
    encoding = guess_encoding_of_names(b"\n".join(sorted(undeclared)))
    names: list[str] = []
    for name in stored_names:
        if isinstance(name, bytes):
            names.append(_decode_name(name, encoding))
        else:
            names.append(name)
    return names


def _read_stored_name(member: zipfile.ZipInfo) -> str | bytes:
    """Return a member's name, as bytes if nothing declares their encoding."""
    try:
        raw = member.orig_filename.partition("\0")[0].encode("cp437")
    except UnicodeError:
        return member.filename
    if member.flag_bits & _UTF8_NAME or raw.isascii():
        return member.filename
    with suppress(UnicodeError):
        return raw.decode("utf-8")
    return raw


def _decode_name(name: bytes, encoding: str) -> str:
    with suppress(UnicodeError):
        return name.decode(encoding or "cp437")
    return name.decode("cp437")


def _unpack(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int, password: str | None = None
) -> bytes:
    """Return the bytes of a member, whatever size it claims.

    Raises OverflowError if there are more than `most`.
    """
    if member.file_size > most:
        raise OverflowError
    with archive.open(member, pwd=None if password is None else password.encode()) as file:
        return read_bounded(file.read, most)
