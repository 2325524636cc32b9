"""Headings that a file marks and kreuzberg gives as lines like others, and numbers of lines that it leaves out."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

from engine.corpus.readers import Heading
from engine.corpus.structure import MAX_HEADING_LENGTH, Text

_MAX_DISTANCE = 200  # lines between two that follow each other in the document


def with_headings(text: Text, marked: Iterable[tuple[int, str]]) -> Text:
    """A text with a heading at each line that says what one of the `marked`, (level, title) in their order, says; those
    that the text lacks, or has in another order, are left out.
    """
    wanted = [(level, " ".join(title.split())) for level, title in marked]
    places: dict[str, list[int]] = defaultdict(list)
    start = 0
    for line in text.text.split("\n") if wanted else ():
        if line.strip():
            places[" ".join(line.split())].append(start)
        start += len(line) + 1
    found: list[Heading] = []
    after = 0
    for level, title in wanted:
        at = bisect_left(places.get(title, ()), after)
        if title and at < len(places.get(title, ())):
            found.append(Heading(places[title][at], level, title[:MAX_HEADING_LENGTH]))
            after = places[title][at] + 1
    return replace(text, headings=tuple(found)) if found else text


def with_labels(text: Text, labelled: Iterable[tuple[str, str]]) -> Text:
    """A text with a label before each line that has one: `labelled` are the lines of the document in order, as (label, line)."""
    lines = text.text.split("\n")
    places: dict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(lines):
        if line.strip():
            places[" ".join(line.split())].append(number)
    added = [0] * len(lines)
    after = 0
    for label, said in labelled:
        found = places.get(" ".join(said.split()), ())
        at = bisect_left(found, after)
        if said and at < len(found) and found[at] - after < _MAX_DISTANCE:
            after = found[at] + 1
            if label:
                lines[found[at]] = f"{label} {lines[found[at]]}"
                added[found[at]] = len(label) + 1
    if not any(added):
        return text
    starts = list(accumulate(map(len, text.text.split("\n")), lambda start, length: start + length + 1, initial=0))
    moved = list(accumulate(added, initial=0))
    headings = (replace(one, start=one.start + moved[bisect_right(starts, one.start) - 1]) for one in text.headings)
    return replace(text, text="\n".join(lines), headings=tuple(headings))
