"""The outline of a PDF (its bookmarks) as headings, if the text repeats the bookmarks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

from engine.core.characters import clean_line
from engine.core.records import Heading, Page
from engine.corpus.formats.pdf.pdfium import read_string

_MAX_BOOKMARKS = 10_000
_MAX_LEVELS = 6
# Maximum length of a title in characters.
_MAX_TITLE_LENGTH = 300
_MAX_SEARCHED = 2 * 10**7  # characters, for all bookmarks together
# The number of a heading before its title, as in `2.1 Berths`, `A.3. Berths` or `IV. Berths`.
_NUMBER_IN_OUTLINE = re.compile(r"(?:(?:\d+|[A-Z])(?:\.\d+)*\.?|[IVXLC]+\.)\s+(?=\S)")
# The same at the beginning of a line, perhaps after a word, as in `Chapter 2: Berths`.
_NUMBER_IN_TEXT = r"^(?:(?:[^\W\d_]{1,8}[ \t]+)?(?:\d[\d.]*[.:)]?\s+|[A-Z](?:\.\d+)*[.:)]?[ \t]+))?"


@dataclass(frozen=True, slots=True)
class Bookmark:
    """A line of an outline.

    `level` 1 is the outermost, and `page` the number of the page to which it leads, from 1.
    """

    level: int
    title: str
    page: int


def read_outline(document: Any) -> list[Bookmark]:
    """Return the bookmarks that lead to a page of a document of pypdfium2."""
    bookmarks: list[Bookmark] = []
    for bookmark in islice(document.get_toc(max_depth=_MAX_LEVELS), _MAX_BOOKMARKS):
        title = clean_line(read_string(bookmark.get_title))
        destination = bookmark.get_dest()
        index = destination.get_index() if destination else None
        if title and index is not None:
            bookmarks.append(Bookmark(bookmark.level + 1, title[:_MAX_TITLE_LENGTH], index + 1))
    return bookmarks


def find_headings(
    bookmarks: Iterable[Bookmark], text: str, pages: Sequence[Page]
) -> tuple[Heading, ...]:
    """Return a heading for each bookmark whose title is a line of its page, in order.

    The numbers before the two titles may differ. `pages` say where each page begins in `text`.
    """
    starts = [page.start for page in pages]
    # By start, as a page without text begins where the next one does.
    ends = dict(pairwise([*starts, len(text)]))
    spans = {page.number: (page.start, ends[page.start]) for page in pages}
    headings: dict[int, Heading] = {}
    for heading in _find_titles(bookmarks, text, spans):
        headings.setdefault(heading.start, heading)
    return tuple(headings[start] for start in sorted(headings))


def _find_titles(
    bookmarks: Iterable[Bookmark], text: str, spans: dict[int, tuple[int, int]]
) -> Iterator[Heading]:
    """Yield a heading for each bookmark that is found in the text of its page.

    `spans` say where the text of a page begins and ends, by the number of the page.
    """
    characters_left = _MAX_SEARCHED
    # Where the search in each page goes on, and the words of each page.
    search_starts: dict[int, int] = {}
    words_of_page: dict[int, set[str]] = {}
    for bookmark in bookmarks:
        start, end = spans.get(bookmark.page, (0, 0))
        if bookmark.page not in words_of_page:
            words_of_page[bookmark.page] = set(text[start:end].lower().split())
        words = _NUMBER_IN_OUTLINE.sub("", bookmark.title, count=1).split()
        if not words_of_page[bookmark.page].issuperset(map(str.lower, words)):
            # Compiling a pattern takes longer than all else here, so none is made in vain.
            continue
        start = max(start, search_starts.get(bookmark.page, 0))
        characters_left -= end - start
        if characters_left < 0:
            return
        pattern = _NUMBER_IN_TEXT + r"\s+".join(map(re.escape, words)) + r"[ \t]*$"
        match = re.compile(pattern, re.MULTILINE | re.IGNORECASE).search(text, start, end)
        if match:
            search_starts[bookmark.page] = match.end()
            yield Heading(
                match.start(),
                bookmark.level,
                bookmark.title,
            )
