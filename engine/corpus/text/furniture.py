"""What stands on every page but belongs to none: running headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

# Number of lines at the top and at the bottom of a page that may be furniture.
_MAX_EDGE_LINES = 2
# Number of pages that must show a line before it counts as furniture.
_MIN_PAGES = 3
# Share of the pages that must show the same line before it counts as furniture.
_MIN_SHARE = 0.6
# Share of the pages that must have their number on a line of its own, counted from the first page
# with such a number to the last.
_MIN_NUMBERED_SHARE = 0.4
# A page of at most so many lines has no edges: what it repeats may be its content.
_MAX_SHORT_PAGE = 5
# `7`, `- 7 -` or `7 / 12`.
_NUMBER_ALONE = re.compile(
    r"(?P<sign>[-–—|·•~]?) ?(?P<number>\d{1,5}) ?(?P=sign)$|(?P<first>\d{1,5}) ?/ ?\d{1,5}$"
)
# `Page 7`, `Seite 7 von 12`, `第7页` or `7页`.
PAGE_NUMBER = re.compile(
    r"\b(?:page|pg\.?|p\.|seite|s\.|blatt|pagina|página|pág\.?|strona|str\.|strana|side|sida|sivu"
    r"|oldal|sayfa|halaman|trang|страница|стр\.|σελίδα|第)\s*(\d{1,5})(?!\d)"
    r"(?:\s*(?:of|von|de|di|van|sur|из|/)\s*\d+|\s*[页頁])?"
    r"|(?<!\d)(\d{1,5})\s*(?:页|頁|ページ|페이지)",
    re.IGNORECASE,
)
"""A page's number with a word such as "page", in many languages, as group 1 or 2."""
_DIGIT = re.compile(r"\d")
# The end of a label whose number is in the next line, as in `Invoice no.`
_LABEL_END = re.compile(r"(?:[:#№°]|\b(?:no|nr|number|nummer)\.?)$", re.IGNORECASE)

Lines = list[str]


@dataclass(frozen=True, slots=True)
class _NumberedLine:
    """A line that may hold the number of its page, alone or with a word such as "page"."""

    # The line with `#` in place of the number: `Report, page #`; empty for a number alone.
    rest: str
    # The number minus the page's number in the file.
    ahead: int


@dataclass
class _Furniture:
    """The furniture at the top or at the bottom of the pages."""

    # Lines that are the same on most pages.
    repeated: set[str] = field(default_factory=set)
    # Lines that hold the number of their page.
    numbered: set[_NumberedLine] = field(default_factory=set)
    # The kinds of lines, as `_read_furniture` returns them, of which the first was left in place.
    shown: set[str] = field(default_factory=set)


def remove_furniture(pages: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """Return the pages' texts without lines that recur at their edges.

    `numbers` are the numbers of the pages. A line is furniture if it is the same at the same edge
    of most pages, or if it holds the number of its page.

    The first line of each kind stays, so that no word is lost; only lines such as `7` and `Page 7`
    are removed from every page. Pages of few lines are not changed, since what they repeat may be
    all that they say.
    """
    if len(pages) < _MIN_PAGES:
        return list(pages)
    split_pages = [[line.rstrip() for line in page.strip("\n").split("\n")] for page in pages]
    tops = [_list_edge_lines(lines) for lines in split_pages]
    bottoms = [_list_edge_lines(lines[::-1]) for lines in split_pages]
    heads = _find_furniture(tops, numbers)
    feet = _find_furniture(bottoms, numbers)
    stripped = []
    for lines, top, bottom, number in zip(split_pages, tops, bottoms, numbers, strict=True):
        removable_at_top = _find_removable(top, number, heads)
        removable_at_bottom = _find_removable(bottom, number, feet)
        last = len(lines) - 1
        removable = removable_at_top | {last - index for index in removable_at_bottom}
        remaining_lines = [line for index, line in enumerate(lines) if index not in removable]
        stripped.append("\n".join(remaining_lines))
    return stripped


def _list_edge_lines(lines: Lines) -> Lines:
    """Return the first lines of a page with single spaces, none of a short page."""
    if len(list(filter(str.strip, lines))) <= _MAX_SHORT_PAGE:
        return []
    return [" ".join(line.split()) for line in lines[:_MAX_EDGE_LINES]]


def _find_furniture(edges: Sequence[Lines], numbers: Sequence[int]) -> _Furniture:
    """Return the furniture at one edge of the pages, from the lines of each page at that edge.

    Each page's outermost line comes first.
    """
    counts: Counter[str] = Counter()
    pages_by_line: dict[_NumberedLine, list[int]] = defaultdict(list)
    for lines, page in zip(edges, numbers, strict=True):
        counts.update(set(filter(None, lines)))
        for index in range(len(lines)):
            line = _read_page_number(lines, index, page)
            if line:
                pages_by_line[line].append(page)
    furniture = _Furniture()
    min_pages = max(_MIN_PAGES, _MIN_SHARE * len(numbers))
    furniture.repeated = {line for line, count in counts.items() if count >= min_pages}
    for numbered, pages in pages_by_line.items():
        min_pages = _MIN_PAGES
        if not numbered.rest:
            # Numbers alone may be content, so that few of them between many pages do not count.
            numbered_range = max(pages) - min(pages) + 1
            min_pages = max(min_pages, _MIN_NUMBERED_SHARE * numbered_range)
        if len(pages) >= min_pages:
            furniture.numbered.add(numbered)
    return furniture


def _read_page_number(
    lines: Lines,
    index: int,
    page: int,
) -> _NumberedLine | None:
    """Return the line at `index` if it may hold the number of its page, None for any other.

    `lines` are those at an edge of the page, the outermost first. A number alone on its line counts
    only if that is the outermost line, and if the line next to it is not its label.
    """
    line = lines[index]
    if not _DIGIT.search(line):
        return None
    alone = _NUMBER_ALONE.match(line)
    if alone:
        if index > 0 or any(map(_LABEL_END.search, lines[1:2])):
            return None
        return _NumberedLine("", int(alone["number"] or alone["first"]) - page)
    page_number = PAGE_NUMBER.search(line)
    if page_number is None:
        return None
    start, end = page_number.span(1 if page_number[1] else 2)
    return _NumberedLine(f"{line[:start]}#{line[end:]}", int(line[start:end]) - page)


def _find_removable(
    lines: Lines,
    page: int,
    furniture: _Furniture,
) -> set[int]:
    """Return the indices of the lines of furniture at an edge, except the first of each kind."""
    removable: set[int] = set()
    for index in range(len(lines)):
        kind = _read_furniture(
            lines,
            index,
            page,
            furniture,
        )
        if kind is None:
            # All lines from here to the middle of the page are content.
            break
        if kind and kind not in furniture.shown:
            furniture.shown.add(kind)
        else:
            removable.add(index)
    return removable


def _read_furniture(
    lines: Lines,
    index: int,
    page: int,
    furniture: _Furniture,
) -> str | None:
    """Return the kind of the line at `index`: what it says besides the page's number.

    The kind is empty for lines such as `7` and `Page 7`. None if the line is not furniture.
    """
    if lines[index] in furniture.repeated:
        return lines[index]
    line = _read_page_number(lines, index, page)
    if line is None or line not in furniture.numbered:
        return None
    # Without the number and the word for "page"; the pattern of these needs a digit.
    words = PAGE_NUMBER.sub("", line.rest.replace("#", "0"))
    return line.rest if any(map(str.isalpha, words)) else ""
