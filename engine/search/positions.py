"""Where in its document a chunk begins, as a reader would say it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


def position(text: str, chunk: str, start: int) -> tuple[int, int | None]:
    """(line, page) of a document's `text`, both from 1, where the first character to see of a chunk at `start` stands.

    Lines end with \\n, pages with \\f; the page is None where the text has no \\f.
    """
    at = start + len(chunk) - len(chunk.lstrip())
    page = text.count("\f", 0, at) + 1 if "\f" in text else None
    return text.count("\n", 0, at) + 1, page


def page_at(pages: Sequence[tuple[int, int, str]], offset: int) -> tuple[int, str]:
    """(number, name) of the page, slide or sheet, of at least one, that an offset within a chunk stands on."""
    _, number, name = pages[max(0, bisect_right(pages, offset, key=lambda page: page[0]) - 1)]
    return number, name
