"""Limits for the files in an archive of any kind, and reports on files that are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.corpus.formats import LeftOut
from engine.corpus.formats.recognition import MAX_UNPACKED
from engine.corpus.scan.formats import is_hidden_name

MAX_MEMBER = 256 * 2**20  # bytes
_PIECE_SIZE = 2**20  # bytes
NO_FILES = "an archive without files"
HIDDEN_ONLY = "an archive of hidden files only"


def is_hidden(name: str) -> bool:
    """Return whether a member is hidden as a file or folder is on the disk."""
    parts = name.replace("\\", "/").split("/")
    return any(is_hidden_name(part) for part in parts if part != ".")


def refuse_outside(name: str) -> LeftOut | None:
    """Return why a member whose name leads out of the archive is refused, None for any other."""
    path = name.replace("\\", "/")
    has_drive = path[1:3] == ":/"
    if path.startswith("/") or has_drive or ".." in path.split("/"):
        reason = "its name leads out of the archive"
        return LeftOut(
            path.strip("/"),
            "quarantined",
            "refused",
            reason,
        )
    return None


def report_link(name: str) -> LeftOut:
    """Report a member that is a link to another file."""
    return LeftOut(name, "skipped", "link", "a link inside an archive")


def report_bomb(name: str, size: int) -> LeftOut:
    """Report a member that unpacks to `size` bytes, many times its packed size."""
    reason = f"a decompression bomb, of {size / 1e6:,.0f} MB unpacked"
    return LeftOut(name, "quarantined", "too large", reason)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How many bytes a member, and a whole archive, may unpack to."""

    member: int = MAX_MEMBER
    unpacked: int = MAX_UNPACKED


LIMITS = ArchiveLimits()


class UnpackBudget:
    """The number of bytes to which an archive may still unpack."""

    def __init__(self, limits: ArchiveLimits) -> None:
        self._limits = limits
        self._remaining = limits.unpacked

    @property
    def max_member_size(self) -> int:
        """The number of bytes that the next member may have."""
        return min(self._remaining, self._limits.member)

    def spend(self, size: int) -> None:
        """Deduct a member of `size` bytes that was unpacked."""
        self._remaining -= size

    def report_too_large(self, name: str) -> LeftOut:
        """Report a member with more than `max_member_size` bytes, and which limit it exceeds."""
        if self._remaining >= self._limits.member:
            reason = f"it unpacks to more than {self._limits.member // 2**20:,} MB"
        else:
            reason = f"the archive unpacks to more than {self._limits.unpacked // 2**20:,} MB"
        return LeftOut(name, "quarantined", "too large", reason)


def read_bounded(read: Callable[[int], bytes], max_size: int) -> bytes:
    """Read a stream to its end, a piece at a time, since the size that it declares may be wrong.

    `read` takes a number of bytes, as `BinaryIO.read` does. Raises OverflowError if there are more
    than `max_size` bytes.
    """
    pieces: list[bytes] = []
    size = 0
    while piece := read(_PIECE_SIZE):
        size += len(piece)
        if size > max_size:
            raise OverflowError
        pieces.append(piece)
    return b"".join(pieces)
