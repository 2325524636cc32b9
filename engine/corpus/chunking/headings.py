"""Headings as a tree: the path to a place in a text, and the sections between headings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.records import Heading, ReadDocument


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a text, text[start:end], from one heading to the next."""

    start: int
    end: int
    # The level of its heading, 0 before the first heading.
    level: int
    # The titles of the headings above it, its own last.
    path: tuple[str, ...]
    # Whether it is a heading without text under it.
    bare: bool = False


class HeadingPaths:
    """The headings of a text, each with the heading above it.

    The path of a heading is found when it is asked for: a text may have as many headings as lines,
    and building all paths would take too long.
    """

    def __init__(self, headings: Sequence[Heading]) -> None:
        self._headings = headings
        # The number of the heading above each heading, -1 if there is none.
        self._parents: list[int] = []
        path: list[int] = []
        for number, heading in enumerate(headings):
            while path and headings[path[-1]].level >= heading.level:
                path.pop()
            self._parents.append(path[-1] if path else -1)
            path.append(number)

    def at(self, position: int) -> tuple[str, ...]:
        """Return the titles of the headings above a place in the text, outermost first.

        They include a heading at the place itself.
        """
        number = bisect_right(self._headings, position, key=lambda heading: heading.start) - 1
        titles: list[str] = []
        while number >= 0:
            titles.append(self._headings[number].title)
            number = self._parents[number]
        return tuple(reversed(titles))


def cut_into_sections(document: ReadDocument) -> list[Section]:
    """Cut the text of a document before every heading.

    A section of white space is joined to the section after it, the last one to that before it.
    """
    text = document.text
    first_visible = len(text) - len(text.lstrip())
    paths = HeadingPaths(document.headings)
    path: tuple[str, ...] = ()
    sections: list[Section] = []
    start = 0
    level = 0
    # The end of the text ends the last section, as a heading ends those before it.
    for heading in (*document.headings, None):
        end = heading.start if heading else len(text)
        if text[start:end].strip():
            is_bare = level > 0 and _is_bare(text[start:end])
            sections.append(Section(max(start, first_visible), end, level, path, is_bare))
            start = end
        if heading:
            level = heading.level
            path = paths.at(heading.start)
    return sections


def _is_bare(section: str) -> bool:
    """Return whether a section is its heading alone, which `===` or `---` may underline."""
    lines = section.strip().split("\n")
    return len(lines) == 1 or (len(lines) == 2 and not lines[1].strip(" =-"))
