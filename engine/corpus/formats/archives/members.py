"""What holds for the files in an archive of any kind: their limits, and which are left out."""

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
    """Whether a member is none that a person put there: hidden, or left by a system."""
    return (
        name.rpartition("/")[2].startswith(".")
        or name.startswith(_LITTER)
        or name.endswith(_LITTER)
    )


def leads_out(name: str) -> LeftOut | None:
    """Why a member is refused whose name leads out of the archive; None for any other."""
    if (
        name.startswith(("/", "\\"))
        or ".." in name.replace("\\", "/").split("/")
        or name[1:3] in (":\\", ":/")
    ):
        shown = name.replace("\\", "/").strip("/")
        return LeftOut(shown, "quarantined", "refused", "its name leads out of the archive")
    return None


def link(name: str) -> LeftOut:
    """A member that only names another file."""
    return LeftOut(name, "skipped", "link", "a link inside an archive")


def bomb(name: str, size: int) -> LeftOut:
    """A member that unpacks to many times more than documents do."""
    return LeftOut(
        name, "quarantined", "too large", f"a decompression bomb, of {size / 1e6:,.0f} MB unpacked"
    )


def too_large(name: str, left: int) -> LeftOut:
    """A member that is larger than one may be, or than what is `left` of all that an archive may
    unpack to.
    """
    what, most = (
        ("it unpacks", MAX_MEMBER) if left >= MAX_MEMBER else ("the archive unpacks", MAX_UNPACKED)
    )
    return LeftOut(name, "quarantined", "too large", f"{what} to more than {most // 2**20:,} MB")


def read_bounded(read: Callable[[int], bytes], most: int) -> bytes:
    """All that a reader gives, whatever size is claimed.

    Raises OverflowError where there are more than `most` bytes.
    """
    pieces: list[bytes] = []
    size = 0
    while piece := read(PIECE):
        size += len(piece)
        if size > most:
            raise OverflowError
        pieces.append(piece)
    return b"".join(pieces)
