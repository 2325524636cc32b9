"""Limits of the files in an archive of any kind, and reasons to leave files out."""

from __future__ import annotations

from collections.abc import Callable

from engine.corpus.formats import LeftOut
from engine.corpus.formats.recognition import MAX_UNPACKED

MAX_MEMBER = 256 * 2**20
PIECE = 2**20
NO_FILES = "an archive without files"
HIDDEN_ONLY = "an archive of hidden files only"
_LITTER = ("__MACOSX/", ".DS_Store", "Thumbs.db")


def is_hidden(name: str) -> bool:
    """Tell whether a member is hidden or was left by a system, so no person put it there."""
    return (
        name.rpartition("/")[2].startswith(".")
        or name.startswith(_LITTER)
        or name.endswith(_LITTER)
    )


def refuse_outside(name: str) -> LeftOut | None:
    """Return why a member whose name leads out of the archive is refused, None for any other."""
    if (
        name.startswith(("/", "\\"))
        or ".." in name.replace("\\", "/").split("/")
        or name[1:3] in (":\\", ":/")
    ):
        shown = name.replace("\\", "/").strip("/")
        return LeftOut(shown, "quarantined", "refused", "its name leads out of the archive")
    return None


def report_link(name: str) -> LeftOut:
    """Report a member that only names another file."""
    return LeftOut(name, "skipped", "link", "a link inside an archive")


def report_bomb(name: str, size: int) -> LeftOut:
    """Report a member that unpacks to many times more than documents do."""
    return LeftOut(
        name, "quarantined", "too large", f"a decompression bomb, of {size / 1e6:,.0f} MB unpacked"
    )


def report_too_large(name: str, left: int) -> LeftOut:
    """Report a member that is too large.

    It is larger than a member may be, or than what is `left` of all that an archive may unpack to.
    """
    what, most = (
        ("it unpacks", MAX_MEMBER) if left >= MAX_MEMBER else ("the archive unpacks", MAX_UNPACKED)
    )
    return LeftOut(name, "quarantined", "too large", f"{what} to more than {most // 2**20:,} MB")


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
