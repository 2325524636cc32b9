"""The line and the page that a chunk begins on, counted once, when it is stored."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable

Position = tuple[int, int | None]


def positions(text: str, chunks: Iterable[tuple[int, str]]) -> list[Position]:
    """(line, page) of a document's `text`, both from 1, where the first visible character of each chunk (start, text) stands.

    Lines end with \\n, pages with \\f; the page is None where the text has no \\f.
    """
    lines, pages = ([end.start() for end in re.finditer(sign, text)] for sign in ("\n", "\f"))
    found: list[Position] = []
    for start, chunk in chunks:
        at = start + len(chunk) - len(chunk.lstrip())
        found.append((bisect_left(lines, at) + 1, bisect_left(pages, at) + 1 if pages else None))
    return found
