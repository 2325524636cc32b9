"""Where the content of a file is: in memory, at its path, or in an open descriptor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

# The open file that this process may read, if it may not open files itself.
_descriptor: int | None = None


@contextmanager
def read_from(descriptor: int | None) -> Iterator[None]:
    """Read files from an open descriptor within the context, which closes it at its end.

    If the descriptor is None, they are opened at their paths.
    """
    global _descriptor
    _descriptor = descriptor
    try:
        yield
    finally:
        _descriptor = None
        if descriptor is not None:
            os.close(descriptor)


def open_content(path: Path, data: bytes | None) -> BinaryIO:
    """Open the content of a file, or `data` if that is its content.

    Files opened from a descriptor share its position, so that only one may be open at a time.
    Raises OSError.
    """
    if data is not None:
        return BytesIO(data)
    if _descriptor is None:
        return path.open("rb")
    os.lseek(
        _descriptor,
        0,
        os.SEEK_SET,
    )
    return os.fdopen(os.dup(_descriptor), "rb")


def get_content_size(path: Path, data: bytes | None) -> int:
    """Return the number of bytes of a file, or of `data`. Raises OSError."""
    if data is not None:
        return len(data)
    if _descriptor is None:
        return path.stat().st_size
    return os.fstat(_descriptor).st_size
