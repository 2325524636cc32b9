"""Limits of the files in an archive of any kind, and reasons to leave files out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.corpus.formats import LeftOut
from engine.corpus.formats.recognition import MAX_UNPACKED

MAX_MEMBER = 256 * 2**20
PIECE = 2**20
NO_FILES = "an archive without files"
HIDDEN_ONLY = "an archive of hidden files only"
_LITTER = ("__MACOSX/", ".DS_Store", "Thumbs.db")


def is_hidden(name: str) -> bool:
    """Tell whether a member is hidden or was left by a system, so no person put it there."""
    file_name = name.rpartition("/")[2]
    return file_name.startswith(".") or name.startswith(_LITTER) or name.endswith(_LITTER)


def refuse_outside(name: str) -> LeftOut | None:
    """Return why a member whose name leads out of the archive is refused, None for any other."""
    path = name.replace("\\", "/")
    if path.startswith("/") or ".." in path.split("/") or path[1:3] == ":/":
        reason = "its name leads out of the archive"
        return LeftOut(path.strip("/"), "quarantined", "refused", reason)
    return None


def report_link(name: str) -> LeftOut:
    """Report a member that only names another file."""
    return LeftOut(name, "skipped", "link", "a link inside an archive")


def report_bomb(name: str, size: int) -> LeftOut:
    """Report a member that unpacks to many times more than documents do."""
    reason = f"a decompression bomb, of {size / 1e6:,.0f} MB unpacked"
    return LeftOut(name, "quarantined", "too large", reason)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How many bytes a member, and a whole archive, may unpack to."""

    member: int = MAX_MEMBER
    unpacked: int = MAX_UNPACKED


LIMITS = ArchiveLimits()


class Room:
    """How many bytes an archive may still unpack to."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._left = limits.unpacked

    @property
    def for_member(self) -> int:
        """The number of bytes that the next member may have."""
        return min(self._left, self._limits.member)

    def take(self, size: int) -> None:
        """Note that a member of `size` bytes was unpacked."""
        self._left -= size

    def report_too_large(self, name: str) -> LeftOut:
        """Report a member that has more bytes than it may."""
        if self._left >= self._limits.member:
            reason = f"it unpacks to more than {self._limits.member // 2**20:,} MB"
        else:
            reason = f"the archive unpacks to more than {self._limits.unpacked // 2**20:,} MB"
        return LeftOut(name, "quarantined", "too large", reason)


def read_bounded(read: Callable[[int], bytes], most: int) -> bytes:
    """Return all that a reader gives, whatever size is claimed.

    Raises OverflowError if there are more than `most` bytes.
    """
    pieces: list[bytes] = []
    size = 0
    while piece := read(PIECE):
        size += len(piece)
        if size > most:
            raise OverflowError
        pieces.append(piece)
    return b"".join(pieces)
