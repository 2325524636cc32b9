"""What stands on every page but belongs to none: running headers, footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

_EDGE = 2  # lines at the top and at the bottom of a page that may be furniture
_FEWEST = 3  # pages that show a line before it is taken for one
_SHARE = 0.6  # of the pages, for a line without a number that counts the pages
_NUMBER = re.compile(r"\d+")

Lines = list[str]


def without_furniture(pages: Sequence[str], numbers: Sequence[int]) -> list[str]:
    """The pages' texts (`numbers`: which pages they are) without lines that come again at their edges.

    A line is furniture where it stands at the same edge of most pages, or where a number in it counts the pages along. A
    page is never left empty.
    """
    if len(pages) < _FEWEST:
        return list(pages)
    split = [page.strip("\n").split("\n") for page in pages]
    heads = _repeated([lines[:_EDGE] for lines in split], numbers)
    feet = _repeated([lines[-_EDGE:] for lines in split], numbers)
    return [_stripped(lines, number, heads, feet) for lines, number in zip(split, numbers, strict=True)]


def _shape(line: str) -> str:
    return _NUMBER.sub("#", " ".join(line.split()))


def _counting(line: str, page: int) -> set[tuple[str, int, int]]:
    """(shape, which number, how far it is ahead of the page) for every number in a line."""
    return {(_shape(line), at, int(found) - page) for at, found in enumerate(_NUMBER.findall(line)) if len(found) < 6}


def _repeated(edges: Sequence[Lines], numbers: Sequence[int]) -> tuple[set[str], set[tuple[str, int, int]]]:
    """Lines that most pages show, and shapes whose number counts the pages."""
    whole = Counter(line for lines in edges for line in {" ".join(line.split()) for line in lines} if line)
    least = max(_FEWEST, _SHARE * len(edges))
    seen: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for lines, page in zip(edges, numbers, strict=True):
        for line in lines:
            for key in _counting(line, page):
                seen[key].add(page)
    counting = {key for key, pages in seen.items() if len(pages) >= _FEWEST}
    return {line for line, count in whole.items() if count >= least}, counting


def _stripped(
    lines: Lines,
    page: int,
    heads: tuple[set[str], set[tuple[str, int, int]]],
    feet: tuple[set[str], set[tuple[str, int, int]]],
) -> str:
    def is_one(line: str, known: tuple[set[str], set[tuple[str, int, int]]]) -> bool:
        return " ".join(line.split()) in known[0] or bool(_counting(line, page) & known[1])

    top = 0
    while top < min(_EDGE, len(lines)) and is_one(lines[top], heads):
        top += 1
    bottom = len(lines)
    while bottom > max(top, len(lines) - _EDGE) and is_one(lines[bottom - 1], feet):
        bottom -= 1
    kept = "\n".join(lines[top:bottom])
    return kept if kept.strip() else "\n".join(lines)
