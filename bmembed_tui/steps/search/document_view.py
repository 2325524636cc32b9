"""A view of a whole document that draws only the visible lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from textual import work
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bmembed_tui.steps.search.model import Span
from bmembed_tui.widgets.text_rows import TextRows, build_segments, find_spans_within

GUTTER = 2  # columns before the text
MAX_SYNCHRONOUS = 200_000  # characters of a text that is broken into rows in the event loop
ABOVE = 3  # lines shown above the place that is scrolled to


class DocumentView(ScrollView, can_focus=True):
    """Text with a highlighted chunk and marked terms.

    `Ready` is posted once the text is laid out and can be scrolled.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "document-view--text",
        "document-view--chunk",
        "document-view--mark",
        "document-view--match",
        "document-view--bar",
    }
    DEFAULT_CSS = """
    DocumentView {
        height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: auto; padding: 0 1;
        scrollbar-gutter: stable;
    }
    DocumentView .document-view--text { color: $foreground; }
    DocumentView .document-view--chunk { color: $foreground; background: $panel; }
    DocumentView .document-view--bar { color: $primary; background: $panel; text-style: bold; }
    DocumentView .document-view--mark { text-style: bold underline; color: $accent; }
    DocumentView .document-view--match { text-style: bold reverse; }
    """

    class Ready(Message):
        """The rows are laid out."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._text = ""
        self._chunk = (0, 0)
        self._marks: Sequence[Span] = ()
        self._starts: list[int] = []  # of the marks
        self._rows: TextRows | None = None
        # The character to scroll to once the rows are laid out, and the lines to show above it.
        self._goal: tuple[int, int] | None = None
        self.match: int | None = None  # the number of the current mark

    def show(
        self,
        text: str,
        chunk: Span,
        marks: Sequence[Span],
    ) -> None:
        """Show a document. `chunk`, `marks`: (start, end) in the text; the marks are in order."""
        self._text = text
        self._chunk = chunk
        self._marks = marks
        self._starts = [start for start, _ in marks]
        self.lay_out(chunk[0])

    @property
    def ready(self) -> bool:
        """Whether the rows are laid out for the present width, and scrolled."""
        return self._fits and self._goal is None

    @property
    def _fits(self) -> bool:
        """Whether the rows are laid out for the present width."""
        return self._rows is not None and self._rows.width == self._room

    @property
    def rows(self) -> int:
        """The number of rows; 0 before they are laid out."""
        if self._rows:
            return len(self._rows)
        return 0

    @property
    def top_offset(self) -> int:
        """The offset in the text at which the first visible row begins."""
        if not self._rows:
            return 0
        top_row = min(len(self._rows) - 1, int(self.scroll_offset.y))
        return self._rows.span(top_row)[0]

    @property
    def _room(self) -> int:
        """The columns for the text."""
        return max(1, self.scrollable_content_region.width - GUTTER)

    def on_resize(self) -> None:
        if self._text and not self._fits:
            if self._goal is None:
                self._goal = self.top_offset, 0
            self._break_rows()

    def lay_out(self, offset: int, above: int = ABOVE) -> None:
        """Break the text into rows, then scroll to a character. `above`: lines shown above it."""
        self._goal = offset, above
        self._break_rows()

    @work(exclusive=True, group="rows")
    async def _break_rows(self) -> None:
        """Break the text into rows, then scroll to the goal."""
        room = self._room
        text = self._text
        if len(text) < MAX_SYNCHRONOUS:
            rows = TextRows(text, room)
        else:
            rows = await asyncio.to_thread(TextRows, text, room)
        if not self.is_attached or text is not self._text:
            return
        self._rows = rows
        self.virtual_size = Size(self.scrollable_content_region.width, len(rows))
        self.refresh()
        self.call_after_refresh(self._scroll_to_goal)

    def _scroll_to_goal(self) -> None:
        """Scroll to the goal, if the rows still fit the width."""
        if self._goal is None:
            return
        if not self._fits and self._text:
            self._break_rows()  # a scrollbar has appeared and taken a column
            return
        goal = self._goal
        self._goal = None
        self.go_to(*goal)
        self.post_message(self.Ready())

    def go_to(self, offset: int, above: int = ABOVE) -> None:
        """Scroll to a character. `above`: the lines to show above it."""
        if self._goal is not None:
            self._goal = offset, above  # the rows are not laid out yet
        elif self._rows:
            top_row = max(0, self._rows.row_of(offset) - above)
            # Forced, since whether there is a scrollbar is known only after the next layout.
            self.scroll_to(
                y=top_row,
                animate=False,
                immediate=True,
                force=True,
            )

    def show_match(self, number: int) -> None:
        """Make one of the marks the current one, and scroll to it if it is not visible."""
        if not self._rows or not self._marks:
            return
        self.match = number
        row = self._rows.row_of(self._marks[number][0])
        top = int(self.scroll_offset.y)
        if not top <= row < top + self.size.height:
            self.go_to(self._marks[number][0])
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = y + int(self.scroll_offset.y)
        width = self.size.width
        if self._rows is None or row >= len(self._rows):
            return Strip.blank(width, self.rich_style)
        start, end = self._rows.span(row)
        get_style = self.get_component_rich_style
        chunk_start, chunk_end = self._chunk
        # An empty row may be the chunk's first.
        is_in_chunk = start < chunk_end and (end > chunk_start or start == chunk_start)
        if is_in_chunk:
            base = get_style("document-view--chunk")
            gutter = Segment("▌ ", get_style("document-view--bar"))
        else:
            base = get_style("document-view--text")
            gutter = Segment("  ", base)
        mark_style = get_style("document-view--mark", partial=True)
        match_style = get_style("document-view--match", partial=True)
        parts = []
        for number, (first, last) in find_spans_within(self._marks, self._starts, start, end):
            style = match_style if number == self.match else mark_style
            parts.append((first - start, last - start, style))
        segments = [gutter, *build_segments(self._text[start:end], base, parts)]
        return Strip(segments).adjust_cell_length(width, base)
