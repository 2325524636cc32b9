"""Blocks, slides, pages and rows → text with its headings and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from types import MappingProxyType

from engine.core.characters import drop_invisible
from engine.core.records import Heading, Page, ReadDocument
from engine.corpus.text.furniture import remove_furniture
from engine.corpus.text.hyphens import join_split_words, mark_split_words

NOTES = "Notes:"
"""The line above the notes of a slide; it is no heading for a slide that only has notes."""
MAX_HEADING_LENGTH = 300
_MAX_SLIDE_TITLE_LENGTH = 120
_WORD = re.compile(r"\w+")
_SENTENCE = 4  # words
# A word of single letters with blanks between them; the second pattern is faster, and finds more.
_SPACED = re.compile(r"\b[^\W\d_](?:[ \u00a0][^\W\d_]\b){3,}")
_MAY_BE_SPACED = re.compile(r"[ \u00a0]\w[ \u00a0]\w[ \u00a0]\w\b")
_MIN_SPACED = 4  # letters
_MANY_ROWS = 6
_MAX_ROWS_ABOVE = 20
_MIN_COLUMNS = 3
_MANY_CELLS = 4
# The least share of columns that a header names.
_MIN_FILLED = 0.8
_MAX_HEADER_LENGTH = 60
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
        gap = 2 if self._parts else 0
        self._pages.append(Page(self._length + gap, number, name))

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
        pages = [replace(page, start=min(page.start, len(text))) for page in self._pages]
        return Text(text, tuple(self._headings), tuple(pages))


def format_table(rows: Sequence[Sequence[str]], *, headed: bool | None = None) -> str:
    """Return a table as text, one row per line.

    If the first row names the columns, or the first one below a title, every cell after it is given
    with its column's name, so that a row can be understood wherever the table is cut. `headed` says
    whether the first row does, if known.
    """
    filled = [row for row in rows if any(cell.strip() for cell in row)]
    if not filled:
        return ""
    header = 0 if headed else None
    if headed is None:
        header = _find_header(filled)
    if header is None:
        return "\n".join(" | ".join(filter(None, row)) for row in filled)
    names = [_shorten_name(name) for name in filled[header]]
    lines = [" | ".join(filter(None, row)) for row in filled[: header + 1]]
    for row in filled[header + 1 :]:
        named_cells = zip(names, row, strict=False)
        cells = [f"{name}: {cell}" if name else cell for name, cell in named_cells if cell]
        line = " | ".join(cells)
        for cell in filter(None, row[len(names) :]):
            line += f" | {cell}"
        lines.append(line)
    return "\n".join(filter(None, lines))


def _find_header(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the place of the row that names the columns, None if no row does.

    Rows above it, such as a title, fill fewer columns of a table that has at least three, and most
    rows below it fill half of them, or several.
    """
    widest = max(map(len, rows))
    for at, row in enumerate(rows[:_MAX_ROWS_ABOVE]):
        if _count_filled(row) < max(2, _MIN_FILLED * widest):
            continue
        below = rows[at + 1 :]
        full = [row for row in below if _count_filled(row) >= min(widest / 2, _MANY_CELLS)]
        is_table = widest >= _MIN_COLUMNS and 2 * len(full) >= len(below)
        return at if (at == 0 or is_table) and _is_header(rows[at:]) else None
    return None


def _count_filled(row: Sequence[str]) -> int:
    return sum(map(bool, row))


def _shorten_name(name: str) -> str:
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    return f"{name[:_MAX_NAME_LENGTH].rstrip()}…"


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first row is a header.

    It names most columns, none of its cells is a number, and the cells of some column are of
    another sort than its name. A table of words alone shows no header, and a first row wrongly
    taken for a header makes every row false.
    """
    filled = [cell for cell in rows[0] if cell]
    # Exports repeat the name of a column that has several values.
    names = [name for name, _ in groupby(filled)]
    if len(filled) < max(2, _MIN_FILLED * max(map(len, rows))) or len(set(names)) < len(names):
        return False
    if max(map(len, names)) > _MAX_HEADER_LENGTH or not all(map(_has_letter, names)):
        return False
    differs = False
    for column, name in enumerate(rows[0]):
        cells = [row[column] for row in rows[1:] if len(row) > column and row[column]]
        if name and name in cells:
            return False
        differs = differs or (bool(name) and _is_column_name(name, cells))
    return differs


def _is_column_name(name: str, cells: Sequence[str]) -> bool:
    """Tell whether a cell stands over cells of another sort.

    These are numbers, sentences, or a few values that recur.
    """
    if cells and not _has_digit(name) and all(map(_has_digit, cells)):
        return True
    if len(cells) >= 2 and len(name.split()) < _SENTENCE:
        shortest = min(len(cell.split()) for cell in cells)
        if shortest >= _SENTENCE and min(map(len, cells)) > 3 * len(name):
            return True
    return len(cells) >= _MANY_ROWS and 2 * len(set(cells)) <= len(cells)


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def append_side_text(text: Text, more: str) -> Text:
    """Add text from outside the flow, on a page of its own if the text has pages."""
    if not more:
        return text
    separator = "\n\n" if text.text else ""
    pages = text.pages
    if pages:
        start = len(text.text) + len(separator)
        pages = (*pages, Page(start, pages[-1].number + 1, "beside the text"))
    return Text(f"{text.text}{separator}{more}", text.headings, pages)


def find_missing_lines(text: str, lines: Iterable[str]) -> str:
    """Return the lines that have a word which the text lacks, each once."""
    words = set(_WORD.findall(text.casefold()))
    missing = [line for line in lines if not words.issuperset(_WORD.findall(line.casefold()))]
    return "\n".join(dict.fromkeys(missing))


def join_slides(slides: Mapping[int, str]) -> Text:
    """Return slides by number as a text.

    A slide's first line is its heading if it is short.
    """
    builder = Builder()
    for number, text in slides.items():
        if not text.strip():
            continue
        builder.page(number, f"slide {number}")
        title, _, rest = text.strip().partition("\n")
        if title != NOTES and len(title) <= _MAX_SLIDE_TITLE_LENGTH:
            builder.heading(1, title)
            builder.block(rest)
        else:
            builder.block(text)
    return builder.done()


def join_pages(pages: Mapping[int, str], beside: Mapping[int, str] = MappingProxyType({})) -> Text:
    """Return the pages of a document by number as a text.

    A `BREAK` marks where a line end splits a word. Content that stands on every page is removed,
    and split words are joined. What stands `beside` the text of a page follows it.
    """
    builder = Builder()
    texts = remove_furniture(list(pages.values()), list(pages))
    texts = join_split_words(list(map(mark_split_words, texts)))
    for number, text in zip(pages, texts, strict=True):
        side_text = beside.get(number, "")
        if text.strip() or side_text:
            builder.page(number, f"page {number}")
            builder.block(text)
            builder.block(side_text)
    return builder.done()


def restore_text(text: str) -> str:
    """Return a text without what divides its words: invisible characters, and blanks of style.

    `R E C H N U N G` becomes `RECHNUNG`.
    """
    visible = drop_invisible(text)
    if _MAY_BE_SPACED.search(visible):
        return _SPACED.sub(_join_letters, visible)
    return visible


def _join_letters(match: re.Match[str]) -> str:
    word = "".join(match[0].split())
    is_one_word = word.isupper() or (len(word) > _MIN_SPACED and word[1:].islower())
    # The letters of an index are in the order of the alphabet; those that tick cells are the same.
    is_listed = all(before < after for before, after in pairwise(word.lower()))
    if is_one_word and not is_listed and len(set(word)) > 2:
        return word
    return match[0]


def restore_words(document: ReadDocument) -> ReadDocument:
    """Return a document with its texts as `restore_text` returns them.

    Its headings and pages still begin where they did.
    """
    texts = (document.text, document.title, document.author, document.tags)
    if all(restore_text(text) == text for text in texts):
        return document
    starts = {heading.start for heading in document.headings}
    starts.update(page.start for page in document.pages)
    cuts = sorted({0, len(document.text)} | starts)
    pieces = [restore_text(document.text[start:end]) for start, end in pairwise(cuts)]
    positions = dict(zip(cuts, accumulate(map(len, pieces), initial=0), strict=True))
    headings = []
    for heading in document.headings:
        title = restore_text(heading.title)
        headings.append(replace(heading, start=positions[heading.start], title=title))
    pages = []
    for page in document.pages:
        pages.append(replace(page, start=positions[page.start], name=drop_invisible(page.name)))
    return replace(
        document,
        title=restore_text(document.title),
        author=drop_invisible(document.author),
        tags=drop_invisible(document.tags),
        text="".join(pieces),
        headings=tuple(headings),
        pages=tuple(pages),
    )
