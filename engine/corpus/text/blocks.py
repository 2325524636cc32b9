"""Blocks, slides, pages and rows → text with its headings and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from types import MappingProxyType

from engine.core.characters import visible
from engine.core.records import Heading, Page, ReadDocument
from engine.corpus.text.furniture import without_furniture
from engine.corpus.text.hyphens import put_together, unwrapped

NOTES = "Notes:"
"""The line above the notes of a slide; it is no heading for a slide that only has notes."""
MAX_HEADING_LENGTH = 300
_MAX_SLIDE_TITLE_LENGTH = 120
_WORD = re.compile(r"\w+")
_SENTENCE = 4  # words
_MANY_ROWS = 6
# Maximum length of a column's name, which is repeated with each of its cells.
_MAX_NAME_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Text:
    """A text, and where its headings and pages begin."""

    text: str
    headings: tuple[Heading, ...] = ()
    pages: tuple[Page, ...] = ()


class Builder:
    """A builder that joins blocks with blank lines and notes where headings and pages begin."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._headings: list[Heading] = []
        self._pages: list[Page] = []
        self._length = 0
        self._list = False

    def page(self, number: int, name: str) -> None:
        """Begin a page with the next block."""
        self._pages.append(Page(self._length + (2 if self._parts else 0), number, name))

    def next_page(self) -> None:
        """Begin the next page in number with the next block."""
        number = self._pages[-1].number + 1 if self._pages else 1
        self.page(number, f"page {number}")

    def heading(self, level: int, title: str) -> None:
        """Add a heading as a block of its own."""
        line = " ".join(title.split())
        if line:
            start = self._add(line)
            self._headings.append(Heading(start, max(1, level), line[:MAX_HEADING_LENGTH]))

    def block(self, text: str) -> None:
        """Add a paragraph or the rows of a table."""
        if text.strip():
            self._add(text.strip("\n"))

    def item(self, text: str, label: str = "-") -> None:
        """Add a list item."""
        if text.strip():
            self._add(f"{label} {text.strip()}", item=True)

    def _add(self, text: str, *, item: bool = False) -> int:
        if not self._parts:
            gap = ""
        elif item and self._list:
            gap = "\n"
        else:
            gap = "\n\n"
        self._parts += (gap, text)
        start = self._length + len(gap)
        self._length = start + len(text)
        self._list = item
        return start

    def done(self) -> Text:
        """Return all that was added.

        Pages that turned out to be empty begin where the next page does.
        """
        text = "".join(self._parts)
        pages = tuple(
            Page(min(page.start, len(text)), page.number, page.name) for page in self._pages
        )
        return Text(text, tuple(self._headings), pages)


def rows_as_text(rows: Sequence[Sequence[str]], *, headed: bool | None = None) -> str:
    """Return a table as text, one row per line.

    If the first row names the columns, every cell after it is given with its column's name, so that
    a row can be understood wherever the table is cut. `headed` says whether it does, if known.
    """
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    if not filled:
        return ""
    if not (_is_header(filled) if headed is None else headed):
        return "\n".join(" | ".join(filter(None, row)) for row in filled)
    lines = [" | ".join(filter(None, filled[0]))]
    names = [
        name if len(name) <= _MAX_NAME_LENGTH else f"{name[:_MAX_NAME_LENGTH].rstrip()}…"
        for name in filled[0]
    ]
    for row in filled[1:]:
        lines.append(
            " | ".join(
                f"{name}: {cell}" if name else cell
                for name, cell in zip(names, row, strict=False)
                if cell
            )
            + "".join(f" | {cell}" for cell in row[len(names) :] if cell)
        )
    return "\n".join(filter(None, lines))


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first row is a header.

    It names most columns, none of its cells is a number, and the cells of some column are of
    another sort than its name. A table of words alone shows no header, and a first row wrongly
    taken for a header makes every row false.
    """
    first = [cell for cell in rows[0] if cell]
    named = (
        len(first) >= 2
        and len(set(first)) == len(first)
        and len(first) >= 0.8 * max(len(row) for row in rows)
    )
    if not named or not all(any(map(str.isalpha, cell)) and len(cell) <= 60 for cell in first):
        return False
    columns = [
        [row[at] for row in rows[1:] if at < len(row) and row[at]] for at in range(len(rows[0]))
    ]
    again = any(name and name in cells for name, cells in zip(rows[0], columns, strict=True))
    return not again and any(
        name and _names(name, cells) for name, cells in zip(rows[0], columns, strict=True)
    )


def _names(name: str, cells: Sequence[str]) -> bool:
    """Tell whether a cell stands over cells of another sort.

    These are numbers, sentences, or a few values that recur.
    """
    if (
        cells
        and not any(map(str.isdigit, name))
        and all(any(map(str.isdigit, cell)) for cell in cells)
    ):
        return True
    sentences = all(len(cell.split()) >= _SENTENCE and len(cell) > 3 * len(name) for cell in cells)
    if len(cells) >= 2 and sentences and len(name.split()) < _SENTENCE:
        return True
    return len(cells) >= _MANY_ROWS and 2 * len(set(cells)) <= len(cells)


def with_more(text: Text, more: str) -> Text:
    """Add what stands beside a text, on a page of its own if the text has pages."""
    if not more:
        return text
    if text.text:
        start = len(text.text) + 2
    else:
        start = 0
    last = text.pages[-1:]
    pages = (*text.pages, *(Page(start, page.number + 1, "beside the text") for page in last))
    return Text("\n\n".join(filter(None, (text.text, more))), text.headings, pages)


def lacking_in(text: str, lines: Iterable[str]) -> str:
    """Return the lines that have a word which the text lacks, each once."""
    known = set(_WORD.findall(text.casefold()))
    return "\n".join(
        dict.fromkeys(
            line for line in lines if not known.issuperset(_WORD.findall(line.casefold()))
        )
    )


def from_slides(slides: Mapping[int, str]) -> Text:
    """Return slides by number as a text.

    A slide's first line is its heading if it is short.
    """
    built = Builder()
    for number, text in slides.items():
        if not text.strip():
            continue
        built.page(number, f"slide {number}")
        title, _, rest = text.strip().partition("\n")
        if title != NOTES and len(title) <= _MAX_SLIDE_TITLE_LENGTH:
            built.heading(1, title)
            text = rest
        built.block(text)
    return built.done()


def from_pages(pages: Mapping[int, str], beside: Mapping[int, str] = MappingProxyType({})) -> Text:
    """Return the pages of a document by number as a text.

    A `BREAK` marks where a line end splits a word. Content that stands on every page is removed,
    and split words are joined. What stands `beside` the text of a page follows it.
    """
    built = Builder()
    texts = without_furniture(list(pages.values()), list(pages))
    for number, text in zip(pages, put_together([unwrapped(page) for page in texts]), strict=True):
        more = beside.get(number, "")
        if text.strip() or more:
            built.page(number, f"page {number}")
            built.block(text)
            built.block(more)
    return built.done()


def made_visible(document: ReadDocument) -> ReadDocument:
    """Return a document without invisible characters, its headings and pages still in place."""
    texts = (document.text, document.title, document.author, document.tags)
    if all(visible(text) == text for text in texts):
        return document
    text = document.text
    cuts = sorted(
        {
            0,
            len(text),
            *(one.start for one in document.headings),
            *(one.start for one in document.pages),
        }
    )
    pieces = [visible(text[start:end]) for start, end in pairwise(cuts)]
    places = dict(zip(cuts, accumulate(map(len, pieces), initial=0), strict=True))
    headings = (
        replace(one, start=places[one.start], title=visible(one.title)) for one in document.headings
    )
    pages = (
        replace(one, start=places[one.start], name=visible(one.name)) for one in document.pages
    )
    return replace(
        document,
        title=visible(document.title),
        author=visible(document.author),
        tags=visible(document.tags),
        text="".join(pieces),
        headings=tuple(headings),
        pages=tuple(pages),
    )
