"""ZIP archives."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

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
from engine.corpus.formats.locked import explain_lock, known_passwords
from engine.corpus.formats.plain import guess_encoding_of_names
from engine.corpus.formats.recognition import is_bomb, open_zip

# Bits of a member's flags (APPNOTE 4.4.4): it is encrypted, and its name is in UTF-8.
_ENCRYPTED = 1
_UTF8_NAME = 0x800
# The id of an extra field with a member's name in UTF-8 (APPNOTE 4.6.9). It holds its version, the
# checksum of the name that it replaces, and the name.
_UNICODE_NAME = 0x7075
_EXTRA_HEAD = struct.Struct("<HH")
_UNICODE_HEAD = struct.Struct("<BI")
# Stands for the packing method if WinZip or 7-Zip encrypted a member by AES.
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
            budget = UnpackBudget(self._limits)
            are_all_hidden = True
            for member, name in zip(members, _decode_names(members), strict=True):
                finding = _read_member(
                    archive,
                    member,
                    name,
                    budget,
                )
                if finding is not None:
                    are_all_hidden = False
                    if isinstance(finding, Member):
                        budget.spend(len(finding.data))
                    yield finding
            if are_all_hidden:
                raise UnreadableFileError(path, HIDDEN_ONLY, "empty")


READER = ZipReader()


def _read_member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, budget: UnpackBudget
) -> Finding | None:
    """Return a member's bytes, or why it is left out; None if it is hidden."""
    if refused := refuse_outside(name):
        return refused
    if is_hidden(name):
        return None
    unix_mode = member.external_attr >> 16
    if stat.S_ISLNK(unix_mode):
        return report_link(name)
    if is_bomb(member.compress_size, member.file_size):
        return report_bomb(name, member.file_size)
    passwords: Sequence[str | None] = (None,)
    if member.flag_bits & _ENCRYPTED:
        passwords = known_passwords()
    try:
        content = _unpack_with_passwords(
            archive,
            member,
            budget.max_member_size,
            passwords,
        )
        if content is None:
            return LeftOut(
                name,
                "quarantined",
                "encrypted",
                explain_lock(),
            )
        return Member(name, content)
    except OverflowError:
        return budget.report_too_large(name)
    except NotImplementedError:
        reason = f"its packing method {member.compress_type} is not known"
        return LeftOut(name, "quarantined", "unsupported", reason)
    except MemoryError:
        raise
    # A damaged archive may lead to any error.
    except Exception as error:
        return LeftOut(
            name,
            "quarantined",
            "damaged",
            describe_damage(error),
        )


def _unpack_with_passwords(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    max_size: int,
    passwords: Sequence[str | None],
) -> bytes | None:
    """Return the bytes of a member with the first password that opens it, None if none does.

    The password None reads a member that is not encrypted. Raises what reading a damaged archive
    raises, and OverflowError if there are more than `max_size` bytes.
    """
    if member.compress_type == _AES:
        archive, member = _reopen_with_pyzipper(archive, member)
    for password in passwords:
        try:
            return _unpack(archive, member, max_size, password)
        except (NotImplementedError, OverflowError, MemoryError):
            raise
        except Exception:
            # A wrong password may pass the check and only fail at the content, with any error.
            if password is None:
                raise
    return None


def _reopen_with_pyzipper(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> tuple[zipfile.ZipFile, zipfile.ZipInfo]:
    """Return the same archive and member as objects of pyzipper, which can decrypt AES."""
    from pyzipper import AESZipFile

    assert archive.fp is not None
    reopened = AESZipFile(archive.fp)
    same_offset = (
        other for other in reopened.infolist() if other.header_offset == member.header_offset
    )
    return reopened, next(same_offset)


def _decode_names(members: Sequence[zipfile.ZipInfo]) -> list[str]:
    """Return the names of members, decoded from UTF-8 if that is declared or valid.

    The others are decoded from the one code page that fits all of them best.
    """
    stored_names = [_read_stored_name(member) for member in members]
    undecoded = {name for name in stored_names if isinstance(name, bytes)}
    encoding = guess_encoding_of_names(b"\n".join(sorted(undecoded))) or "cp437"
    names: list[str] = []
    for name in stored_names:
        if isinstance(name, bytes):
            name = _decode_name(name, encoding)
        names.append(name)
    return names


def _read_stored_name(member: zipfile.ZipInfo) -> str | bytes:
    """Return a member's name, as bytes if they are not UTF-8 and no encoding is declared."""
    try:
        # zipfile decodes names from CP437 unless UTF-8 is declared; this gives the bytes back.
        raw = member.orig_filename.partition("\0")[0].encode("cp437")
    except UnicodeError:
        return member.filename
    unicode_name = _read_unicode_name(member.extra, crc32(raw))
    if unicode_name:
        return unicode_name
    if member.flag_bits & _UTF8_NAME or raw.isascii():
        return member.filename
    with suppress(UnicodeError):
        return raw.decode("utf-8")
    return raw


def _read_unicode_name(extra: bytes, checksum: int) -> str:
    """Return the name in UTF-8 among a member's extra fields, empty if there is none.

    `checksum` is that of the member's other name. A program that renamed the member without knowing
    the field has left one of another name there.
    """
    start = 0
    with suppress(struct.error, UnicodeError):
        while start < len(extra):
            id, length = _EXTRA_HEAD.unpack_from(extra, start)
            start += _EXTRA_HEAD.size
            field = extra[start : start + length]
            start += length
            if id == _UNICODE_NAME and _UNICODE_HEAD.unpack_from(field) == (1, checksum):
                return field[_UNICODE_HEAD.size :].decode()
    return ""


def _decode_name(name: bytes, encoding: str) -> str:
    """Decode a name, from CP437 if it is not valid in `encoding`."""
    with suppress(UnicodeError):
        return name.decode(encoding)
    return name.decode("cp437")


def _unpack(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, max_size: int, password: str | None
) -> bytes:
    """Return the bytes of a member.

    Raises OverflowError if there are more than `max_size`, even if it declares fewer.
    """
    if member.file_size > max_size:
        raise OverflowError
    encoded_password = None if password is None else password.encode()
    with archive.open(member, pwd=encoded_password) as file:
        return read_bounded(file.read, max_size)
