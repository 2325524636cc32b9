"""ZIP archives: every file in them is read for itself. Nothing is ever unpacked to the disk."""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from engine.corpus import zip_aes
from engine.corpus.formats import MOST_UNPACKED, open_zip, refuse_bomb
from engine.corpus.passwords import known, why_closed
from engine.corpus.readers import Found, LeftOut, Member, UnreadableFileError

LARGEST_MEMBER = 256 * 2**20
_PIECE = 2**20
_LITTER = ("__MACOSX/", ".DS_Store", "Thumbs.db")
_ENCRYPTED = 1
_UTF8_NAME = 0x800
_COMPRESSIONS = {
    1: "Shrink", 6: "Implode", 9: "Deflate64", 93: "Zstandard", 95: "XZ", 96: "JPEG", 97: "WavPack", 98: "PPMd",
    zip_aes.METHOD: "AES and a compression",
}  # fmt: skip


class ZipReader:
    """Reads .zip files."""

    formats = frozenset({"zip"})

    def read(self, path: Path, data: bytes | None = None) -> Iterator[Found]:
        """See `Reader.read`."""
        with open_zip(path, data) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            refuse_bomb(path, members)
            if not members:
                raise UnreadableFileError(path, "an archive without files", "empty")
            left, hidden = MOST_UNPACKED, True
            for member in members:
                found = _member(archive, member, left)
                if found is not None:
                    hidden = False
                    left -= len(found.data) if isinstance(found, Member) else 0
                    yield found
            if hidden:
                raise UnreadableFileError(path, "an archive of hidden files only", "empty")


READER = ZipReader()


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int) -> Found | None:
    name = _name(member)
    if name.startswith(("/", "\\")) or ".." in name.replace("\\", "/").split("/") or name[1:3] == ":\\":
        shown = name.replace("\\", "/").strip("/")
        return LeftOut(shown, "quarantined", "refused", "its name leads out of the archive")
    if name.rpartition("/")[2].startswith(".") or name.startswith(_LITTER) or name.endswith(_LITTER):
        return None
    if stat.S_ISLNK(member.external_attr >> 16):
        return LeftOut(name, "skipped", "refused", "a link inside an archive")
    locked = bool(member.flag_bits & _ENCRYPTED)
    try:
        content = _unlocked(archive, member, min(left, LARGEST_MEMBER), known() if locked else (None,))
        if content is None:
            return LeftOut(name, "quarantined", "encrypted", why_closed())
        return Member(name, content)
    except OverflowError:
        return LeftOut(name, "quarantined", "too large", f"it unpacks to more than {LARGEST_MEMBER // 2**20} MB")
    except NotImplementedError:  # a RuntimeError as well
        how = _COMPRESSIONS.get(member.compress_type, f"method {member.compress_type}")
        return LeftOut(name, "quarantined", "unsupported", f"packed with {how}, which is not unpacked")
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, OSError, RuntimeError) as error:
        return LeftOut(name, "quarantined", "damaged", f"damaged: {str(error).rstrip('.')}")


def _unlocked(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int, passwords: Sequence[str | None]
) -> bytes | None:
    """The bytes of a member with the first password that opens it; None where none does."""
    if member.compress_type == zip_aes.METHOD:
        return zip_aes.opened(archive, member, most, [password for password in passwords if password is not None])
    for password in passwords:
        try:
            return _unpacked(archive, member, most, password)
        except NotImplementedError:
            raise
        except (RuntimeError, zipfile.BadZipFile, zlib.error):  # a wrong one, that may pass the first check by chance
            if password is None:
                raise
    return None


def _name(member: zipfile.ZipInfo) -> str:
    """A member's name; one that its archive does not call UTF-8 may still be that."""
    if member.flag_bits & _UTF8_NAME:
        return member.filename
    try:
        return member.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return member.filename


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int, password: str | None = None) -> bytes:
    """The bytes of a member, whatever size it claims. Raises OverflowError where there are more than `most`."""
    pieces, size = [], 0
    with archive.open(member, pwd=None if password is None else password.encode()) as file:
        while piece := file.read(_PIECE):
            size += len(piece)
            if size > most:
                raise OverflowError
            pieces.append(piece)
    return b"".join(pieces)
