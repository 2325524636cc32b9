"""The line and the page that a chunk begins on, counted once, when it is stored."""

from __future__ import annotations

import re
import sqlite3
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


def fill_positions(connection: sqlite3.Connection) -> None:
    """Count the positions of all chunks of a database that was made before they were stored."""
    for document, text in connection.execute("SELECT id, text FROM documents"):
        rows = connection.execute("SELECT id, start, text FROM chunks WHERE document_id = ?", (document,)).fetchall()
        found = zip(rows, positions(text, ((start, chunk) for _, start, chunk in rows)), strict=True)
        connection.executemany(
            "UPDATE chunks SET line = ?, page = ? WHERE id = ?",
            [(line, page, row[0]) for row, (line, page) in found if (line, page) != (1, None)],
        )
