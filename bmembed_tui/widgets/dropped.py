"""Files and folders dropped on the app: terminals and the window paste their path."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

MAX_PATH_LENGTH = 4096  # characters of a path


def find_dropped_path(text: str) -> Path | None:
    """Return the file or folder that a pasted text names by its absolute path, else None.

    The path may be bare, quoted for a shell or a file:// address. Never raises. It may take as
    long as the disk takes to answer.
    """
    for name in _list_possible_paths(text.strip()):
        path = Path(name)
        try:
            if path.is_absolute() and path.exists():
                return path
        except (OSError, ValueError):
            continue
    return None


def _list_possible_paths(text: str) -> Iterator[str]:
    """Return what the text may stand for: itself, without quotes, or what its address names."""
    if not text or len(text) > MAX_PATH_LENGTH or "\n" in text:
        return
    yield text
    # Windows Terminal quotes paths with blanks, and a backslash in them escapes nothing.
    yield text.removeprefix('"').removesuffix('"')
    if text.startswith("file://"):
        from urllib.request import url2pathname

        # What it raises for an invalid address depends on the system.
        with suppress(ValueError, OSError, IndexError):
            yield url2pathname(urlsplit(text).path)
    try:
        parts = shlex.split(text)
    except ValueError:  # a quote that is not closed
        return
    if len(parts) == 1:
        yield parts[0]
