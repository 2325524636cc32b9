"""Where in its document a chunk begins, as a reader would say it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


def page_at(pages: Sequence[tuple[int, int, str]], offset: int) -> tuple[int, str]:
    """(number, name) of the page, slide or sheet, of at least one, that an offset within a chunk stands on."""
    _, number, name = pages[max(0, bisect_right(pages, offset, key=lambda page: page[0]) - 1)]
    return number, name
