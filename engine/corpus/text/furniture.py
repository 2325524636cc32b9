"""What stands on every page but belongs to none: running headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

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
_CALLED = re.compile(
    r"\b(?:page|pg\.?|p\.|seite|s\.|blatt|pagina|p\u00e1gina|p\u00e1g\.?|strona|str\.|strana|side|sida|sivu|oldal|sayfa|halaman|"
    r"trang|\u0441\u0442\u0440\u0430\u043d\u0438\u0446\u0430|\u0441\u0442\u0440\.|\u03c3\u03b5\u03bb\u03af\u03b4\u03b1|\u7b2c)\s*(\d{1,5})(?!\d)(?:\s*(?:of|von|de|di|van|sur|\u0438\u0437|/)\s*\d+|\s*[\u9875\u9801])?|(?<!\d)(\d{1,5})\s*(?:\u9875|\u9801|\u30da\u30fc\u30b8|\ud398\uc774\uc9c0)",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
# A label that asks for the number in the next line.
_ASKS = re.compile(r"(?:[:#\u2116\u00b0]|\b(?:no|nr|number|nummer)\.?)$", re.IGNORECASE)

Lines = list[str]


@dataclass(frozen=True, slots=True)
class _Numbered:
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
    counting: set[_Numbered] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)


def without_furniture(pages: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """Return the pages' texts without lines that recur at their edges.

    `numbers` are the numbers of the pages. A line is furniture if it is the same at the same edge
    of most pages, or if it holds the number of its page. The first of each kind stays, so that no
    word is lost; only numbers that stand alone, or are called a page, are removed everywhere. Pages
    of few lines are not changed, since what they repeat may be all that they say.
    """
    if len(pages) < _MIN_PAGES:
        return list(pages)
    split = [[*map(str.rstrip, page.strip("\n").split("\n"))] for page in pages]
    heads = _furniture(list(map(_top, split)), numbers)
    feet = _furniture(list(map(_bottom, split)), numbers)
    return [
        _stripped(lines, number, heads, feet) for lines, number in zip(split, numbers, strict=True)
    ]


def _top(lines: Lines) -> Lines:
    if _is_short(lines):
        return []
    return [_squeezed(line) for line in lines[:_EDGE]]


def _bottom(lines: Lines) -> Lines:
    if _is_short(lines):
        return []
    return [_squeezed(line) for line in lines[: -_EDGE - 1 : -1]]


def _is_short(lines: Lines) -> bool:
    return next(islice(filter(str.strip, lines), _SHORT, None), None) is None


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _furniture(edges: Sequence[Lines], numbers: Sequence[int]) -> _Edge:
    """Return the lines that most pages show at one edge, and the lines that number the pages.

    Each page's outermost line comes first.
    """
    found = _Edge()
    count = Counter(line for lines in edges for line in set(lines) if line)
    least = max(_MIN_PAGES, _SHARE * len(edges))
    found.same = {line for line, times in count.items() if times >= least}
    alone: dict[_Numbered, list[int]] = defaultdict(list)
    for lines, page in zip(edges, numbers, strict=True):
        for at, line in enumerate(lines):
            for numbered in _numbered(line, page):
                if numbered.rest or _is_alone(lines, at):
                    alone[numbered].append(page)
    found.counting = {
        numbered for numbered, shown in alone.items() if _goes_on(shown, dense=not numbered.rest)
    }
    return found


def _is_alone(lines: Lines, at: int) -> bool:
    """Tell whether a number on its own line is at the edge of its page and answers no label."""
    return at == 0 and not any(_ASKS.search(line) for line in lines[1:2])


def _goes_on(pages: Sequence[int], *, dense: bool) -> bool:
    return len(pages) >= _MIN_PAGES and (
        not dense or len(pages) >= _NUMBERED * (max(pages) - min(pages) + 1)
    )


def _numbered(line: str, page: int) -> Iterator[_Numbered]:
    """Yield what in a line may be the number of its page."""
    if not _DIGIT.search(line):
        return
    bare = _BARE.match(line)
    if bare:
        yield _Numbered("", int(bare["number"] or bare["first"]) - page)
        return
    if called := _CALLED.search(line):
        group = 1 if called[1] else 2
        yield _Numbered(
            f"{line[: called.start(group)]}#{line[called.end(group) :]}", int(called[group]) - page
        )


def _stripped(lines: Lines, page: int, heads: _Edge, feet: _Edge) -> str:
    gone: set[int] = set()
    for edge, shown, step in ((heads, _top(lines), 1), (feet, _bottom(lines), -1)):
        for at in range(len(shown)):
            rest = _rest_of(shown, at, page, edge)
            if rest is None:
                break
            if rest and rest not in edge.shown:
                edge.shown.add(rest)
            else:
                gone.add(at if step > 0 else len(lines) - 1 - at)
    return "\n".join(line for place, line in enumerate(lines) if place not in gone)


def _rest_of(lines: Lines, at: int, page: int, edge: _Edge) -> str | None:
    """Return what a line of furniture says besides its page's number, None for any other line."""
    if lines[at] in edge.same:
        return lines[at]
    for numbered in _numbered(lines[at], page):
        if numbered in edge.counting and (numbered.rest or _is_alone(lines, at)):
            words = _CALLED.sub("", numbered.rest.replace("#", "0"))
            if any(map(str.isalpha, words)):
                return numbered.rest
            return ""
    return None
