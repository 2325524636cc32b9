"""Breaks text into rows of a terminal: words kept whole where they fit, wide characters counted
as two columns.

Works on offsets, so that places in the text stay known. A document of several megabytes takes a
fraction of a second.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, get_character_cell_size, set_cell_size
from rich.segment import Segment
from rich.style import Style

from engine.core.text import visible

Span = tuple[int, int]
# Characters of one column each that steer nothing: most lines of most documents hold no others.
NARROW = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u0384-\u038a\u038c\u038e-\u03a1\u03a3-\u0482"
    "\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf]*"
)


def line_cuts(line: str, width: int) -> list[int]:
    """Where the rows of one line end, the last one at its own end; a row is at most `width`
    columns, blanks at its end apart.
    """
    width = max(1, width)
    if len(line) <= width and NARROW.fullmatch(line):
        return [len(line)]
    if NARROW.fullmatch(line):
        cuts = _narrow_cuts(line, width)
    else:
        cuts = _wide_cuts(visible(line), width)
    return [*cuts, len(line)]


def _narrow_cuts(line: str, width: int) -> list[int]:
    cuts = []
    start = 0
    length = len(line)
    while length - start > width:
        blank = line.rfind(" ", start + 1, start + width + 1)
        start = blank + 1 if blank > start else start + width
        if start < length:
            cuts.append(start)
    return cuts


def _wide_cuts(line: str, width: int) -> list[int]:
    cuts = []
    start = 0
    blank = 0
    used = 0
    for at, char in enumerate(line):
        size = get_character_cell_size(char)
        if used + size > width and at > start and char != " ":
            start = blank if blank > start else at
            cuts.append(start)
            used = sum(map(get_character_cell_size, line[start:at]))
        used += size
        if char == " ":
            blank = at + 1
    return cuts


class TextRows:
    """The rows of a text at a width: row `n` is `text[starts[n]:ends[n]]`, without its line end."""

    def __init__(self, text: str, width: int) -> None:
        self.text = text
        self.width = width
        self._starts = array("q")
        self._ends = array("q")
        at = 0
        for line in text.split("\n"):
            start = at
            for cut in line_cuts(line, width):
                self._starts.append(start)
                self._ends.append(at + cut)
                start = at + cut
            at += len(line) + 1

    def __len__(self) -> int:
        return len(self._starts)

    def span(self, row: int) -> Span:
        return self._starts[row], self._ends[row]

    def row_of(self, offset: int) -> int:
        return max(0, bisect_right(self._starts, offset) - 1)


def segments(text: str, base: Style, parts: Iterable[tuple[int, int, Style]] = ()) -> list[Segment]:
    """`text` as it is shown, in `base`; `parts` are (start, end, style) in order, without
    overlap, cut at its ends.
    """
    shown = visible(text)
    drawn = []
    at = 0
    for start, end, style in parts:
        start = max(at, start)
        end = min(end, len(shown))
        if start < end:
            if at < start:
                drawn.append(Segment(shown[at:start], base))
            drawn.append(Segment(shown[start:end], base + style))
            at = end
    if at < len(shown):
        drawn.append(Segment(shown[at:], base))
    return drawn


def fitted(text: str, width: int, *, keep_end: bool = False) -> str:
    """`text` as it is shown in at most `width` columns; what is left out, at its end or its
    beginning, is marked by `…`.
    """
    shown = visible(text)
    if cell_len(shown) <= width:
        return shown
    if width < 1:
        return ""
    if not keep_end:
        return f"{set_cell_size(shown, width - 1).rstrip()}…"
    left = len(shown)
    room = width - 1
    while left and room >= get_character_cell_size(shown[left - 1]):
        left -= 1
        room -= get_character_cell_size(shown[left])
    return f"…{shown[left:]}"


def spans_within(
    spans: Sequence[Span], starts: Sequence[int], first: int, last: int
) -> list[tuple[int, Span]]:
    """(number, span) of those of `spans` that reach into [first, last).

    In order, without overlap; `starts`: their starts.
    """
    number = max(0, bisect_right(starts, first) - 1)
    found = []
    while number < len(spans) and spans[number][0] < last:
        if spans[number][1] > first:
            found.append((number, spans[number]))
        number += 1
    return found
