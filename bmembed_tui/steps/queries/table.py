"""A table of thousands of queries, read a page at a time as the user scrolls down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message

from bmembed_tui.widgets.safe import SafeTable
from bmembed_tui.widgets.text_rows import fit_text
from engine.core.messages.queries import PAGE, QueryRow
from engine.core.records import query_label

# Columns of the terminal for the table's columns; each cell has a blank at both sides.
KIND_WIDTH = 10
SPLIT_WIDTH = 10
DOCUMENT_WIDTH = 32
PADDING = 2
WIDE = 100  # columns from which the document is shown, too
NEAR = PAGE // 4  # rows before the end at which the next page is requested


class QueryTable(SafeTable):
    """A line for each query; Space marks a query. The owner answers `Wanted` with `fill`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "mark", show=True),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]

    class Wanted(Message):
        """The user is near the last row, and there are more queries."""

    def __init__(self, **options: Any) -> None:
        super().__init__(cursor_type="row", **options)
        self.total = 0
        self.queries: list[QueryRow] = []
        self.marked: set[int] = set()
        self._text_width = 0

    @property
    def current(self) -> QueryRow | None:
        if 0 <= self.cursor_row < len(self.queries):
            return self.queries[self.cursor_row]
        return None

    def fill(
        self,
        total: int,
        rows: Sequence[QueryRow],
        offset: int,
    ) -> None:
        """Show `rows` from `offset` on, of `total`. The cursor keeps its place."""
        is_unchanged = total == self.total and self.queries[offset:] == [*rows]
        self.total = total
        self.queries[offset:] = rows
        if is_unchanged:
            self._request_more()
            return
        self._draw(offset)

    def unmark(self) -> None:
        self.marked.clear()
        self._draw()

    def forget(self) -> None:
        """Empty the table for other queries, and unmark all, since they may not be shown again."""
        self.marked.clear()
        self.queries.clear()
        self.total = 0
        self._draw()

    def _draw(self, offset: int = 0) -> None:
        """Draw the rows from `offset` on; without it, everything."""
        cursor = self.cursor_row
        is_wide = self.size.width >= WIDE
        if not offset:
            self._draw_columns(is_wide)
        for row in self.queries[offset:]:
            cells = [
                self._format_text(row),
                query_label(row.kind),
                query_label(row.split),
            ]
            if is_wide:
                cells.append(fit_text(row.path, DOCUMENT_WIDTH))
            self.add_row(*cells)
        self.move_cursor(row=cursor)
        self._request_more()

    def _draw_columns(self, is_wide: bool) -> None:
        """Make the columns; the query's text gets the width that the others leave."""
        self.clear(columns=True)
        columns = {"kind": KIND_WIDTH, "split": SPLIT_WIDTH}
        if is_wide:
            columns["document"] = DOCUMENT_WIDTH
        other_width = PADDING + sum(width + PADDING for width in columns.values())
        # A column at the right stays free.
        self._text_width = max(8, self.size.width - other_width - 1)
        for name, width in {"query": self._text_width, **columns}.items():
            self.add_column(name, width=width)

    def _format_text(self, row: QueryRow) -> str:
        mark = "✓" if row.id in self.marked else " "
        return fit_text(f"{mark} {row.text}", self._text_width)

    def on_resize(self) -> None:
        self._draw()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._request_more()

    def on_data_table_row_highlighted(self) -> None:
        self._request_more()

    def _request_more(self) -> None:
        """Ask for the next page if the last row is near."""
        last_row = max(self.cursor_row, int(self.scroll_offset.y) + self.size.height)
        if len(self.queries) < self.total and last_row + NEAR >= len(self.queries):
            self.post_message(self.Wanted())

    def action_mark(self) -> None:
        if self.current is not None:
            self.marked ^= {self.current.id}
            self.update_cell_at(Coordinate(self.cursor_row, 0), self._format_text(self.current))
            self.action_cursor_down()
