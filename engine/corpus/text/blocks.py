"""Blocks, slides, pages and rows → text with its headings and pages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from types import MappingProxyType

from engine.core.characters import drop_invisible, replace_radicals
from engine.core.records import Heading, Page, ReadDocument
from engine.corpus.text.furniture import remove_furniture
from engine.corpus.text.hyphens import join_split_words, mark_split_words

NOTES = "Notes:"
"""The line above the notes of a slide, which is no heading even if it is the first line."""
MAX_HEADING_LENGTH = 300
_MAX_SLIDE_TITLE_LENGTH = 120
# A word, or a tick, which says something even if a text has the words behind it.
_WORD = re.compile(r"\w+|\u2611")
# A word written with a blank after each letter: R E C H N U N G.
_SPACED_LETTERS = re.compile(r"\b[^\W\d_](?:[ \u00a0][^\W\d_]\b){3,}")
# A faster pattern, which matches in every text with spaced letters, and in some others.
_MAY_BE_SPACED_LETTERS = re.compile(r"[ \u00a0]\w[ \u00a0]\w[ \u00a0]\w\b")
# Chinese, Japanese and Korean characters that stand alone between blanks: `請　求　書`, `계 약 서`.
# Two are a word only if the wide blank of these scripts parts them.
_CHARACTER = "[\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3]"
_SPACED_CHARACTERS = re.compile(
    rf"(?<!{_CHARACTER}){_CHARACTER}(?:(?:\u3000{{1,4}}{_CHARACTER}(?!{_CHARACTER}))+"
    rf"|(?:[ \u00a0]{{1,4}}{_CHARACTER}(?!{_CHARACTER})){{2,}})"
)
# All of them, and radicals.
_EASTERN = re.compile("[\u2e80-\ud7a3]")
_HANGUL = re.compile("[\uac00-\ud7a3]")
# What stands beside words of a sentence: letters, digits, and the ends of sentences and clauses.
_OF_SENTENCE = re.compile(r"[\w.,!?~…]")
_BLANKS = re.compile(r"\s+")
_LINE_BLANKS = " \u00a0\u3000"
_MAX_BLANKS_BESIDE = 8
_MIN_LETTERS_OF_NAME = 5  # An initial capital may be four spaced letters by chance: A b c d.
_MIN_WORDS_OF_SENTENCE = 4
# Values that recur show a column of categories only if it has at least this many rows.
_MIN_ROWS_OF_CATEGORIES = 6
_MAX_ROWS_ABOVE_HEADER = 20
_MIN_COLUMNS_BELOW_TITLE = 3
# A row of so many cells is full, however many columns the table has.
_MANY_CELLS = 4
# The least share of columns that a header names.
_MIN_NAMED_SHARE = 0.8
_MAX_HEADER_LENGTH = 60  # characters of a name in a header that is guessed
_YEAR = re.compile(r"(?:19|20)\d\d")
# Signs of addresses, which no name of a column has.
_ADDRESS_SIGNS = ("@", "://")
_MAX_NAME_LENGTH = 200  # characters of a name that is repeated with each cell


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
        self._ends_in_item = False

    def page(self, number: int, name: str) -> None:
        """Begin a page with the next block."""
        # A page begins after the blank line that precedes its first block.
        gap_length = 2 if self._parts else 0
        self._pages.append(Page(self._length + gap_length, number, name))

    def next_page(self) -> None:
        """Begin the page that follows the last one, or page 1, with the next block."""
        number = 1
        if self._pages:
            number = self._pages[-1].number + 1
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
            self._add(f"{label} {text.strip()}", is_item=True)

    def _add(self, text: str, *, is_item: bool = False) -> int:
        """Add a block, and return the offset at which it starts."""
        if not self._parts:
            gap = ""
        elif is_item and self._ends_in_item:
            gap = "\n"
        else:
            gap = "\n\n"
        self._parts += (gap, text)
        start = self._length + len(gap)
        self._length = start + len(text)
        self._ends_in_item = is_item
        return start

    def done(self) -> Text:
        """Return all that was added.

        Pages that turned out to be empty begin where the next page does.
        """
        text = "".join(self._parts)
        pages = [replace(page, start=min(page.start, len(text))) for page in self._pages]
        return Text(
            text,
            tuple(self._headings),
            tuple(pages),
        )


def format_table(rows: Sequence[Sequence[str]], *, headed: bool | None = None) -> str:
    """Return a table as text, one row per line, its cells separated by ` | `.

    If a row names the columns, each cell below it is written as `name: cell`, so that every row can
    be understood if the table is cut into chunks. `headed` says whether the first row names the
    columns; if it is None, the text of the cells decides whether a row does, and which.
    """
    filled_rows = [row for row in rows if any(cell.strip() for cell in row)]
    if not filled_rows:
        return ""
    header_index = 0 if headed else None
    if headed is None:
        header_index = _find_header(filled_rows)
    if header_index is None:
        return "\n".join(map(_join_cells, filled_rows))
    names = [_shorten_name(name) for name in filled_rows[header_index]]
    lines = [_join_cells(row) for row in filled_rows[: header_index + 1]]
    for row in filled_rows[header_index + 1 :]:
        cells: list[str] = []
        # A row may be shorter or longer than the header.
        for name, cell in zip(names, row, strict=False):
            cells.append(f"{name}: {cell}" if name and cell else cell)
        lines.append(_join_cells([*cells, *row[len(names) :]]))
    return "\n".join(filter(None, lines))


def _join_cells(cells: Sequence[str]) -> str:
    """Return the cells of a row as a line, without empty ones."""
    return " | ".join(filter(None, cells))


def _find_header(rows: Sequence[Sequence[str]]) -> int | None:
    """Return the index of the row that names the columns, None if no row does.

    It is the first row that fills most columns. If other rows precede it, such as a title, the
    table must have at least three columns, and most rows below must be full: they fill half of the
    columns or `_MANY_CELLS`.
    """
    width = max(map(len, rows))
    for index, row in enumerate(rows[:_MAX_ROWS_ABOVE_HEADER]):
        if _count_filled(row) < max(2, _MIN_NAMED_SHARE * width):
            continue
        if index > 0:
            below = rows[index + 1 :]
            min_cells_of_full_row = min(width / 2, _MANY_CELLS)
            full_rows = sum(_count_filled(row) >= min_cells_of_full_row for row in below)
            if width < _MIN_COLUMNS_BELOW_TITLE or 2 * full_rows < len(below):
                return None
        return index if _is_header(rows[index:]) else None
    return None


def _count_filled(row: Sequence[str]) -> int:
    """Return the number of cells of a row that are not empty."""
    return sum(map(bool, row))


def _shorten_name(name: str) -> str:
    """Return the name of a column, cut off if it is long."""
    if len(name) <= _MAX_NAME_LENGTH:
        return name
    return f"{name[:_MAX_NAME_LENGTH].rstrip()}…"


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is a header.

    A header names most columns, none of its cells is a number, unless they are years in order, and
    the cells of at least one column are of another sort than its name. A doubtful row, as in a
    table of words alone, is not taken for a header: a wrong header would make every row below it
    wrong.
    """
    header = rows[0]
    width = max(map(len, rows))
    if _count_filled(header) < max(2, _MIN_NAMED_SHARE * width):
        return False
    # Exports repeat the name of a column that has several values.
    names = [name for name, _ in groupby(filter(None, header))]
    if len(set(names)) < len(names):
        return False
    has_years = _are_years_in_order([name for name in names if not _has_letter(name)])
    if any(len(name) > _MAX_HEADER_LENGTH for name in names):
        return False
    if not has_years and not all(map(_has_letter, names)):
        return False
    has_column_name = has_years
    for column, name in enumerate(header):
        if not name:
            continue
        cells = [row[column] for row in rows[1:] if len(row) > column and row[column]]
        if name in cells or (_YEAR.fullmatch(name) and any(map(_YEAR.fullmatch, cells))):
            return False
        if not has_column_name:
            has_column_name = _is_column_name(name, cells)
        # A table of two columns may be a list of names and values, such as `Contract: C-4`.
        if not has_column_name and width >= _MIN_COLUMNS_BELOW_TITLE:
            has_column_name = _is_above_numbers_or_addresses(name, cells)
    return has_column_name


def _is_column_name(name: str, cells: Sequence[str]) -> bool:
    """Return whether the cells below a name are of another sort than the name.

    They are if they are numbers, sentences, or a few values that recur.
    """
    if cells and not _has_digit(name) and all(map(_has_digit, cells)):
        return True
    if len(cells) >= 2 and len(name.split()) < _MIN_WORDS_OF_SENTENCE:
        fewest_words = min(len(cell.split()) for cell in cells)
        shortest = min(map(len, cells))
        if fewest_words >= _MIN_WORDS_OF_SENTENCE and shortest > 3 * len(name):
            return True
    return len(cells) >= _MIN_ROWS_OF_CATEGORIES and 2 * len(set(cells)) <= len(cells)


def _is_above_numbers_or_addresses(name: str, cells: Sequence[str]) -> bool:
    """Return whether all cells below a name are numbers or addresses, which the name is not.

    The name may hold digits, as does `Q1 2031` above `12.5`.
    """
    if cells and _has_letter(name) and all(map(_is_number, cells)):
        return True
    for sign in _ADDRESS_SIGNS:
        if cells and sign not in name and all(sign in cell for cell in cells):
            return True
    return False


def _are_years_in_order(names: Sequence[str]) -> bool:
    """Return whether at least two names are years, each the one after or before the last."""
    if len(names) < 2 or not all(map(_YEAR.fullmatch, names)):
        return False
    steps = {int(after) - int(before) for before, after in pairwise(names)}
    return steps in ({1}, {-1})


def _is_number(text: str) -> bool:
    return _has_digit(text) and not _has_letter(text)


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


def append_side_text(text: Text, more: str) -> Text:
    """Append text that stands beside the main text, such as headers, footers and drawings.

    It gets a page of its own if the main text has pages.
    """
    if not more:
        return text
    separator = "\n\n" if text.text else ""
    pages = text.pages
    if pages:
        start = len(text.text) + len(separator)
        pages = (*pages, Page(start, pages[-1].number + 1, "beside the text"))
    return Text(
        f"{text.text}{separator}{more}",
        text.headings,
        pages,
    )


def find_missing_lines(text: str, lines: Iterable[str]) -> str:
    """Return those of `lines` that have a word which `text` lacks, each once, as one text."""
    words = set(_WORD.findall(text.casefold()))
    missing = [line for line in lines if not words.issuperset(_WORD.findall(line.casefold()))]
    return "\n".join(dict.fromkeys(missing))


def join_slides(slides: Mapping[int, str]) -> Text:
    """Return the texts of slides, by number, as one text with a page for each.

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
    """Return the texts of a document's pages, by number, as one text.

    Running headers and footers are removed, and words that are split at a line end are joined; some
    of them are already marked by a `BREAK`. `beside` holds, by number of the page, text that is to
    follow that of the page, such as comments.
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
    """Return a text without invisible characters and radicals, or blanks between spaced letters.

    `R E C H N U N G` → `RECHNUNG`, `請　求　書` → `請求書`; see `replace_radicals`.
    """
    visible = drop_invisible(text)
    if _MAY_BE_SPACED_LETTERS.search(visible):
        visible = _SPACED_LETTERS.sub(_join_letters, visible)
    if visible.isascii() or not _EASTERN.search(visible):
        return visible
    return _SPACED_CHARACTERS.sub(_join_characters, replace_radicals(visible))


def _join_characters(match: re.Match[str]) -> str:
    """Return spaced characters as one word, but leave words of one syllable in Korean sentences.

    `계 약 서` → `계약서`, but not `잘 할 수 있다`. Wider blanks part words in lists of names:
    `王　明　　李　华` → `王明　　李华`.
    """
    spaced = match[0]
    if _HANGUL.search(spaced) and _is_in_sentence(match):
        return spaced
    shortest = min(map(len, _BLANKS.findall(spaced)))
    parted = re.sub(
        rf"(?<!\s)\s{{{shortest}}}(?!\s)",
        "",
        spaced,
    )
    words = parted.split()
    if min(map(len, words)) > 1:
        return parted
    return "".join(words)


def _is_in_sentence(match: re.Match[str]) -> bool:
    """Return whether other words or the end of a sentence stand beside a match in its line."""
    text = match.string
    start, end = match.span()
    before = text[max(0, start - _MAX_BLANKS_BESIDE) : start].rstrip(_LINE_BLANKS)
    after = text[end : end + _MAX_BLANKS_BESIDE].lstrip(_LINE_BLANKS)
    beside = before[-1:] + after[:1]
    return _OF_SENTENCE.search(beside) is not None


def _join_letters(match: re.Match[str]) -> str:
    """Return spaced letters as one word, or unchanged if they do not seem to be a word."""
    word = "".join(match[0].split())
    is_one_word = word.isupper() or (len(word) >= _MIN_LETTERS_OF_NAME and word[1:].islower())
    # The letters of an index (A B C D) are in the order of the alphabet. Fewer than three different
    # letters may be marks in cells (X X X X).
    is_index = all(before < after for before, after in pairwise(word.lower()))
    if is_one_word and not is_index and len(set(word)) > 2:
        return word
    return match[0]


def restore_words(document: ReadDocument) -> ReadDocument:
    """Return a document with its texts as `restore_text` returns them.

    Its headings and pages begin at the same words as before.
    """
    texts = (
        document.text,
        document.title,
        document.author,
        document.tags,
    )
    if all(restore_text(text) == text for text in texts):
        return document
    starts = {heading.start for heading in document.headings}
    starts.update(page.start for page in document.pages)
    # The text is restored in pieces that begin at headings and pages, to know where these move.
    cuts = sorted({0, len(document.text)} | starts)
    pieces = [restore_text(document.text[start:end]) for start, end in pairwise(cuts)]
    new_starts = dict(zip(cuts, accumulate(map(len, pieces), initial=0), strict=True))
    headings = []
    for heading in document.headings:
        title = restore_text(heading.title)
        headings.append(replace(heading, start=new_starts[heading.start], title=title))
    pages = []
    for page in document.pages:
        name = drop_invisible(page.name)
        pages.append(replace(page, start=new_starts[page.start], name=name))
    return replace(
        document,
        title=restore_text(document.title),
        author=drop_invisible(document.author),
        tags=drop_invisible(document.tags),
        text="".join(pieces),
        headings=tuple(headings),
        pages=tuple(pages),
    )
