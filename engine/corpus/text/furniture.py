"""What stands on every page but belongs to none: running headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

_EDGE = 2  # lines at the top and at the bottom of a page that may be furniture
_MIN_PAGES = 3  # pages that show a line before it is taken for one
_SHARE = 0.6  # of the pages, for a line that says the same on each
_NUMBERED = 0.4  # of the pages from the first numbered to the last, for numbers that stand alone
_SHORT = 5  # lines of a page that has no edges: what it repeats may be what it says
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
# what asks for the number in the next line
_ASKS = re.compile(r"(?:[:#\u2116\u00b0]|\b(?:no|nr|number|nummer)\.?)$", re.IGNORECASE)

Lines = list[str]


@dataclass(frozen=True, slots=True)
class _Numbered:
    """A line that may hold its page's number, which stands alone or is called a page: the line
    without it, and how far it is ahead of the page.
    """

    rest: str
    ahead: int


@dataclass
class _Edge:
    """What is furniture at the top of the pages, or at their bottom; `shown` has what was left
    in place once.
    """

    same: set[str] = field(default_factory=set)
    counting: set[_Numbered] = field(default_factory=set)
    shown: set[str] = field(default_factory=set)


def without_furniture(pages: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """The pages' texts (`numbers`: which pages they are) without lines that come again at their
    edges.

    A line is furniture where it says the same at the same edge of most pages, or where it holds the
    number of its page. The first of each kind stays, so that no word is lost; only numbers that
    stand alone, or are called a page, go altogether. Pages of few lines stay as they are: what they
    repeat may be all that they say.
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
    """The lines that most pages show at one edge (each page's outermost line first), and those
    that number them.
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
    """Whether a number that fills a line is at the very edge of its page, and answers to
    nothing.
    """
    return at == 0 and not any(_ASKS.search(line) for line in lines[1:2])


def _goes_on(pages: Sequence[int], *, dense: bool) -> bool:
    return len(pages) >= _MIN_PAGES and (
        not dense or len(pages) >= _NUMBERED * (max(pages) - min(pages) + 1)
    )


def _numbered(line: str, page: int) -> Iterator[_Numbered]:
    """What in a line may be the number of its page."""
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
    """What a line of furniture says beside its page's number; None for one that is none."""
    if lines[at] in edge.same:
        return lines[at]
    for numbered in _numbered(lines[at], page):
        if numbered in edge.counting and (numbered.rest or _is_alone(lines, at)):
            words = _CALLED.sub("", numbered.rest.replace("#", "0"))
            if any(map(str.isalpha, words)):
                return numbered.rest
            return ""
    return None
