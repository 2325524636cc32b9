"""Headings that a file marks and kreuzberg tells as lines like others."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from engine.corpus.readers import Heading
from engine.corpus.structure import LONGEST_HEADING, Text


def with_headings(text: Text, told: Iterable[tuple[int, str]]) -> Text:
    """A text with a heading at each line that says what one of those that are `told`, as (level, title) in their order, says; those
    that the text lacks, or has in another order, are left out.
    """
    wanted = [(level, " ".join(title.split())) for level, title in told]
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
            found.append(Heading(places[title][at], level, title[:LONGEST_HEADING]))
            after = places[title][at] + 1
    return replace(text, headings=tuple(found)) if found else text
