"""Headings as a tree: the path to a place in a text, and the sections between headings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.corpus.readers import Heading, ReadDocument


@dataclass(frozen=True, slots=True)
class Section:
    """text[start:end] from one heading to the next. `level` 0: before the first. `path`: outermost heading first.

    `bare`: it is a heading without text under it.
    """

    start: int
    end: int
    level: int
    path: tuple[str, ...]
    bare: bool = False


def heading_path(headings: Sequence[Heading], position: int) -> tuple[str, ...]:
    """The titles of the headings that a place in the text stands under, outermost first, its own heading included."""
    path: list[Heading] = []
    for heading in headings:
        if heading.start > position:
            break
        path = [*(above for above in path if above.level < heading.level), heading]
    return tuple(heading.title for heading in path)


def sections_of(document: ReadDocument) -> list[Section]:
    """The text cut before every heading; sections of white space go to the one after them (at the end: before)."""
    text = document.text
    first = len(text) - len(text.lstrip())
    path: list[Heading] = []
    sections: list[Section] = []
    start, level = 0, 0
    for heading in (*document.headings, None):
        end = heading.start if heading else len(text)
        if text[start:end].strip():
            titles = tuple(above.title for above in path)
            sections.append(Section(max(start, first), end, level, titles, level > 0 and _is_bare(text[start:end])))
            start = end
        if heading:
            path = [*(above for above in path if above.level < heading.level), heading]
            level = heading.level
    return sections


def _is_bare(section: str) -> bool:
    lines = section.strip().split("\n")
    return len(lines) == 1 or (len(lines) == 2 and not lines[1].strip(" =-"))
