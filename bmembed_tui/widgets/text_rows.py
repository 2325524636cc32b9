"""Breaks text into terminal rows, at words where possible; wide characters count as two columns.

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
"""Offsets in a text: the first character, and the one after the last."""
# Printable characters of one column each: ASCII, Latin letters, Greek, Cyrillic, punctuation and
# currency signs. Most lines of most documents contain no others.
NARROW = re.compile(
    "[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u0384-\u038a\u038c\u038e-\u03a1\u03a3-\u0482"
    "\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf]*"
)


def find_line_cuts(line: str, width: int) -> list[int]:
    """Return where the rows of a line end; the last row ends with the line.

    A row has at most `width` columns, not counting blanks at its end.
    """
    width = max(1, width)
    if NARROW.fullmatch(line):
        cuts = _cut_narrow(line, width)
    else:
        cuts = _cut_wide(visible(line), width)
    return [*cuts, len(line)]


def _cut_narrow(line: str, width: int) -> list[int]:
    """Return where rows begin after the first, if each character takes one column."""
    cuts = []
    start = 0
    length = len(line)
    while length - start > width:
        blank = line.rfind(
            " ",
            start + 1,
            start + width + 1,
        )
        if blank > start:
            start = blank + 1
        else:
            start += width
        if start < length:
            cuts.append(start)
    return cuts


def _cut_wide(line: str, width: int) -> list[int]:
    """Return where rows begin after the first, if a character may take two columns or none."""
    cuts = []
    start = 0
    after_blank = 0
    used_columns = 0
    for position, char in enumerate(line):
        columns = get_character_cell_size(char)
        if used_columns + columns > width and position > start and char != " ":
            # At the last blank of the row, else within the word.
            start = after_blank if after_blank > start else position
            cuts.append(start)
            used_columns = sum(map(get_character_cell_size, line[start:position]))
        used_columns += columns
        if char == " ":
            after_blank = position + 1
    return cuts


class TextRows:
    """The rows of a text at a width.

    Row `n` is `text[starts[n]:ends[n]]`, without its line end.
    """

    def __init__(self, text: str, width: int) -> None:
        self.text = text
        self.width = width
        self._starts = array("q")
        self._ends = array("q")
        line_start = 0
        for line in text.split("\n"):
            start = line_start
            for cut in find_line_cuts(line, width):
                end = line_start + cut
                self._starts.append(start)
                self._ends.append(end)
                start = end
            line_start += len(line) + 1

    def __len__(self) -> int:
        return len(self._starts)

    def span(self, row: int) -> Span:
        """Return where a row begins and ends in the text."""
        return self._starts[row], self._ends[row]

    def row_of(self, offset: int) -> int:
        """Return the row that contains the character at `offset`."""
        return max(0, bisect_right(self._starts, offset) - 1)


def build_segments(
    text: str, base: Style, parts: Iterable[tuple[int, int, Style]] = ()
) -> list[Segment]:
    """Return the visible form of `text` as segments in the style `base`.

    `parts`: (start, end, style) in order, without overlap; they are cut at the ends of the text.
    """
    visible_text = visible(text)
    segments = []
    position = 0
    for start, end, style in parts:
        start = max(position, start)
        end = min(end, len(visible_text))
        if start < end:
            if position < start:
                segments.append(Segment(visible_text[position:start], base))
            segments.append(Segment(visible_text[start:end], base + style))
            position = end
    if position < len(visible_text):
        segments.append(Segment(visible_text[position:], base))
    return segments


def fit_text(
    text: str,
    width: int,
    *,
    keep_end: bool = False,
) -> str:
    """Return the visible form of `text` cut to `width` columns.

    `…` marks what is left out at the end, or at the beginning with `keep_end`.
    """
    visible_text = visible(text)
    if cell_len(visible_text) <= width:
        return visible_text
    if width < 1:
        return ""
    if not keep_end:
        return f"{set_cell_size(visible_text, width - 1).rstrip()}…"
    start = len(visible_text)
    room = width - 1  # one column is for the `…`
    while start and room >= get_character_cell_size(visible_text[start - 1]):
        start -= 1
        room -= get_character_cell_size(visible_text[start])
    return f"…{visible_text[start:]}"


def find_spans_within(
    spans: Sequence[Span], starts: Sequence[int], first: int, last: int
) -> list[tuple[int, Span]]:
    """Return (index, span) of the `spans` that overlap [first, last).

    The spans are in order and do not overlap. `starts`: where they start, for the binary search.
    """
    # Of the spans that start at or before `first`, only the last can reach beyond it.
    index = max(0, bisect_right(starts, first) - 1)
    overlapping = []
    while index < len(spans) and spans[index][0] < last:
        if spans[index][1] > first:
            overlapping.append((index, spans[index]))
        index += 1
    return overlapping
