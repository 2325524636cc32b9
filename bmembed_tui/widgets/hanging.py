"""Lines whose continuation rows are indented."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.content import Content

from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic


class HangingStatic(SafeStatic):
    """Lines that each begin with a sign or heading, with continuation rows below the text."""

    def __init__(self, content: str = "", **options: Any) -> None:
        super().__init__(content, **options)
        self._lines: list[Content] | None = None
        self._indent = 2

    def show(self, content: Content, indent: int = 2) -> None:
        self._lines = content.split("\n")
        self._indent = indent
        self._wrap(self.size.width)

    def on_resize(self, event: events.Resize) -> None:
        self._wrap(event.size.width)

    def _wrap(self, width: int) -> None:
        if self._lines is not None:
            lines = [wrap_hanging(line, width, self._indent) for line in self._lines]
            self.update(Content("\n").join(lines))


def wrap_hanging(
    line: Content,
    width: int,
    indent: int = 2,
) -> Content:
    """Return a line wrapped to `width` columns, with all rows but the first indented."""
    if line.cell_length <= width or width <= 2 * indent:
        return line
    line_break = plain("\n" + " " * indent, lines=True)
    return line[:indent] + line_break.join(line[indent:].wrap(width - indent))
