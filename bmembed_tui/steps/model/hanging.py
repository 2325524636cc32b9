"""Lines that are indented where they go on below."""

from __future__ import annotations

import itertools
from typing import Any

from textual import events
from textual.content import Content
from textual.visual import VisualType

from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from bmembed_tui.widgets.text_rows import line_cuts

INDENT = 2  # columns: a sign and a blank


class HangingStatic(SafeStatic):
    """A text whose lines each begin with a sign; what does not fit stands under the text, not under the sign."""

    def __init__(self, content: VisualType = "", **options: Any) -> None:
        super().__init__(content, **options)
        self._told: Content | None = None
        self._wrapped_at = 0

    def show(self, content: Content) -> None:
        """Show lines."""
        self._told = content
        self._wrap()

    def on_resize(self, event: events.Resize) -> None:
        """Break the lines anew."""
        if self._told is not None and event.size.width != self._wrapped_at:
            self._wrap()

    def _wrap(self) -> None:
        self._wrapped_at = self.size.width
        lines = self._told.split("\n") if self._told is not None else []
        self.update(Content("\n").join(hanging(line, self._wrapped_at) for line in lines))


def hanging(line: Content, width: int) -> Content:
    """One line in as many rows as it needs in `width` columns, all but the first indented."""
    if width <= INDENT:
        return line
    first = line_cuts(line.plain, width)[0]
    rest = line[first:]
    starts = [0, *line_cuts(rest.plain, width - INDENT)] if rest.plain else [0]
    rows = [rest[start:end] for start, end in itertools.pairwise(starts)]
    return plain(f"\n{' ' * INDENT}", lines=True).join([line[:first].rstrip(), *(row.rstrip() for row in rows)])
