"""What stands on every page but belongs to none: running headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

# Number of lines at the top and at the bottom of a page that may be furniture.
_EDGE = 2
# Number of pages that must show a line before it counts as furniture.
_MIN_PAGES = 3
# Share of the pages that must show a line that is the same on each.
_SHARE = 0.6
# Share of the pages, from the first numbered to the last, with a number on a line of its own.
_NUMBERED = 0.4
# A page of at most so many lines has no edges: what it repeats may be its content.
_SHORT = 5
_BARE = re.compile(
    r"(?P<sign>[-\u2013\u2014|\u00b7\u2022~]?) ?(?P<number>\d{1,5}) ?(?P=sign)$|(?P<first>\d{1,5})"
    r" ?/ ?\d{1,5}$"
)
PAGE_NUMBER = re.compile(
    r"\b(?:page|pg\.?|p\.|seite|s\.|blatt|pagina|p\u00e1gina|p\u00e1g\.?|strona|str\.|strana|side|sida|sivu|oldal|sayfa|halaman|"
    r"trang|\u0441\u0442\u0440\u0430\u043d\u0438\u0446\u0430|\u0441\u0442\u0440\.|\u03c3\u03b5\u03bb\u03af\u03b4\u03b1|\u7b2c)\s*(\d{1,5})(?!\d)(?:\s*(?:of|von|de|di|van|sur|\u0438\u0437|/)\s*\d+|\s*[\u9875\u9801])?|(?<!\d)(\d{1,5})\s*(?:\u9875|\u9801|\u30da\u30fc\u30b8|\ud398\uc774\uc9c0)",
    re.IGNORECASE,
)
"""A page's number after a word such as "page", in many languages."""
_DIGIT = re.compile(r"\d")
# A label that asks for the number in the next line.
_ASKS = re.compile(r"(?:[:#\u2116\u00b0]|\b(?:no|nr|number|nummer)\.?)$", re.IGNORECASE)

Lines = list[str]


@dataclass(frozen=True, slots=True)
class _NumberedLine:
    """A line that may hold the number of its page, alone or with a word such as "page".

    `rest` is the line without the number, and `ahead` how far the number is ahead of the page.
    """

    rest: str
    ahead: int


@dataclass
class _Edge:
    """The furniture at the top or at the bottom of the pages.

    `shown` holds what was left in place once.
    """

    same: set[str] = field(default_factory=set)
    counting: set[_NumberedLine] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)


def remove_furniture(pages: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """Return the pages' texts without lines that recur at their edges.

    `numbers` are the numbers of the pages. A line is furniture if it is the same at the same edge
    of most pages, or if it holds the number of its page. The first of each kind stays, so that no
    word is lost; only numbers that stand alone, or are called a page, are removed everywhere. Pages
    of few lines are not changed, since what they repeat may be all that they say.
    """
    if len(pages) < _MIN_PAGES:
        return list(pages)
    split_pages = [[line.rstrip() for line in page.strip("\n").split("\n")] for page in pages]
    heads = _find_furniture([_edge_lines(lines) for lines in split_pages], numbers)
    feet = _find_furniture([_edge_lines(lines[::-1]) for lines in split_pages], numbers)
    stripped = []
    for lines, number in zip(split_pages, numbers, strict=True):
        at_top = _find_removable(_edge_lines(lines), number, heads)
        at_bottom = _find_removable(_edge_lines(lines[::-1]), number, feet)
        last = len(lines) - 1
        removable = at_top | {last - index for index in at_bottom}
        kept = [line for index, line in enumerate(lines) if index not in removable]
        stripped.append("\n".join(kept))
    return stripped


def _edge_lines(lines: Lines) -> Lines:
    """Return the first lines with single spaces, none of a short page."""
    if len(list(filter(str.strip, lines))) <= _SHORT:
        return []
    return [" ".join(line.split()) for line in lines[:_EDGE]]


def _find_furniture(edges: Sequence[Lines], numbers: Sequence[int]) -> _Edge:
    """Return the lines that most pages show at one edge, and the lines that number the pages.

    Each page's outermost line comes first.
    """
    edge = _Edge()
    counts: Counter[str] = Counter()
    pages_by_line: dict[_NumberedLine, list[int]] = defaultdict(list)
    for lines, page in zip(edges, numbers, strict=True):
        counts.update(set(filter(None, lines)))
        for index in range(len(lines)):
            if numbered := _read_page_number(lines, index, page):
                pages_by_line[numbered].append(page)
    min_pages = max(_MIN_PAGES, _SHARE * len(edges))
    edge.same = {line for line, count in counts.items() if count >= min_pages}
    for numbered, pages in pages_by_line.items():
        min_pages = _MIN_PAGES
        if not numbered.rest:
            min_pages = max(min_pages, _NUMBERED * (max(pages) - min(pages) + 1))
        if len(pages) >= min_pages:
            edge.counting.add(numbered)
    return edge


def _read_page_number(lines: Lines, index: int, page: int) -> _NumberedLine | None:
    """Return what may be the number of the page in a line.

    A number alone on its line counts only at the very edge, and if it answers no label.
    """
    line = lines[index]
    if not _DIGIT.search(line):
        return None
    if bare := _BARE.match(line):
        if index > 0 or any(map(_ASKS.search, lines[1:2])):
            return None
        return _NumberedLine("", int(bare["number"] or bare["first"]) - page)
    called = PAGE_NUMBER.search(line)
    if called is None:
        return None
    group = 1 if called[1] else 2
    rest = f"{line[: called.start(group)]}#{line[called.end(group) :]}"
    return _NumberedLine(rest, int(called[group]) - page)


def _find_removable(lines: Lines, page: int, edge: _Edge) -> set[int]:
    """Return the indices of the lines of furniture, except those shown for the first time."""
    removable: set[int] = set()
    for index in range(len(lines)):
        rest = _read_furniture(lines, index, page, edge)
        if rest is None:
            break
        if rest and rest not in edge.shown:
            edge.shown.add(rest)
        else:
            removable.add(index)
    return removable


def _read_furniture(lines: Lines, index: int, page: int, edge: _Edge) -> str | None:
    """Return what a line of furniture says besides its page's number, None for any other line."""
    if lines[index] in edge.same:
        return lines[index]
    numbered = _read_page_number(lines, index, page)
    if numbered is None or numbered not in edge.counting:
        return None
    words = PAGE_NUMBER.sub("", numbered.rest.replace("#", "0"))
    return numbered.rest if any(map(str.isalpha, words)) else ""
