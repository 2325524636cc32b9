"""Thousands of queries in a table that is read a page at a time, as the user goes down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message

from bmembed_tui.widgets.safe import SafeTable
from bmembed_tui.widgets.text_rows import fitted
from engine.core.messages.queries import PAGE, QueryRow
from engine.core.records import query_label

KIND = 10  # columns' widths
SPLIT = 10
DOCUMENT = 32
WIDE = 100  # columns from which the document is shown, too
NEAR = PAGE // 4  # rows before the end at which more are wanted


class QueryTable(SafeTable):
    """One line per query; Space marks. The owner answers `Wanted` with `fill`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "mark", show=True),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
    ]

    class Wanted(Message):
        """The user comes near the end of the queries that are there, and there are more."""

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

    def fill(self, total: int, rows: Sequence[QueryRow], offset: int) -> None:
        """Show `rows` from `offset` on, of `total`. The cursor stays at its place."""
        self.total = total
        self.queries[offset:] = rows
        self._draw(offset)

    def unmark(self) -> None:
        self.marked.clear()
        self._draw()

    def forget(self) -> None:
        """Other queries are wanted: begin at the first one, with nothing marked that may not be
        seen.
        """
        self.marked.clear()
        self.queries.clear()
        self.total = 0
        self._draw()

    def _draw(self, offset: int = 0) -> None:
        cursor = self.cursor_row
        wide = self.size.width >= WIDE
        if not offset:
            self.clear(columns=True)
            self._text_width = max(
                8, self.size.width - KIND - SPLIT - (DOCUMENT + 2 if wide else 0) - 7
            )
            columns = {
                "query": self._text_width,
                "kind": KIND,
                "split": SPLIT,
                "document": DOCUMENT,
            }
            for name, width in list(columns.items())[: 4 if wide else 3]:
                self.add_column(name, width=width)
        for row in self.queries[offset:]:
            if wide:
                document = [fitted(row.path, DOCUMENT)]
            else:
                document = []
            self.add_row(self._text(row), query_label(row.kind), query_label(row.split), *document)
        self.move_cursor(row=cursor)
        self._look()

    def _text(self, row: QueryRow) -> str:
        return fitted(f"{'✓' if row.id in self.marked else ' '} {row.text}", self._text_width)

    def on_resize(self) -> None:
        self._draw()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._look()

    def on_data_table_row_highlighted(self) -> None:
        self._look()

    def _look(self) -> None:
        last = max(self.cursor_row, int(self.scroll_offset.y) + self.size.height)
        if len(self.queries) < self.total and last + NEAR >= len(self.queries):
            self.post_message(self.Wanted())

    def action_mark(self) -> None:
        if self.current is not None:
            self.marked ^= {self.current.id}
            self.update_cell_at(Coordinate(self.cursor_row, 0), self._text(self.current))
            self.action_cursor_down()
