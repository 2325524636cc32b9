"""Thousands of queries in a list that holds only the pages near what is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bmembed_tui.widgets.plain import visible
from engine.core.messages.queries import PAGE, QueryRow

PAGES_HELD = 40
KIND, SPLIT, DOCUMENT = 10, 11, 32  # columns' widths, space included
WIDE = 100  # columns from which the document is shown, too


class QueryTable(ScrollView, can_focus=True):
    """One line per query; Space marks, Enter opens. The owner answers `Wanted` with `fill`.

    Rows are the queries of the engine's answer to `queries`; what is not there yet shows as `…`.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home", "to(0)", show=False),
        Binding("end", "to(-1)", show=False),
        Binding("enter", "open", "edit", show=False),
        Binding("space", "mark", "mark", show=True),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "query-table--head", "query-table--cursor", "query-table--line", "query-table--quiet",
    }  # fmt: skip
    DEFAULT_CSS = """
    QueryTable { height: 1fr; min-height: 3; overflow-x: hidden; overflow-y: auto; }
    QueryTable .query-table--head { text-style: bold; color: $text-muted; }
    QueryTable .query-table--line { color: $foreground; }
    QueryTable .query-table--quiet { color: $text-muted; }
    QueryTable .query-table--cursor { text-style: bold underline; background: $surface; }
    QueryTable:focus .query-table--cursor { text-style: reverse; }
    """

    class Wanted(Message):
        """A page in sight is not there yet."""

    class Moved(Message):
        """The cursor is at another query, or at one that has just come."""

    @dataclass
    class Opened(Message):
        """Enter or a double click on a query."""

        row: QueryRow

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.total, self.cursor = 0, 0
        self.marked: set[int] = set()
        self.pages: dict[int, Sequence[QueryRow]] = {}

    # What is shown

    @property
    def current(self) -> QueryRow | None:
        return self.row(self.cursor)

    def row(self, number: int) -> QueryRow | None:
        page = self.pages.get(number // PAGE, ())
        return page[number % PAGE] if 0 <= number < self.total and number % PAGE < len(page) else None

    def missing_page(self) -> int | None:
        """The number of the first page in sight, or under the cursor, that is not there."""
        top = int(self.scroll_offset.y)
        last = min(self.total - 1, top + self.size.height)
        in_sight = [*range(top // PAGE, last // PAGE + 1), self.cursor // PAGE]
        return next((page for page in in_sight if page not in self.pages), None) if self.total else None

    def restart(self) -> None:
        """Everything may have changed: forget the pages, keep the place."""
        self.pages.clear()
        self.refresh()

    def fill(self, page: int, total: int, rows: Sequence[QueryRow]) -> None:
        self.pages[page] = rows
        while len(self.pages) > PAGES_HELD:
            del self.pages[max(self.pages, key=lambda held: abs(held - page))]
        self.total = total
        self.virtual_size = Size(self.size.width, total + 1)
        if self.cursor >= max(1, total):
            self._move_to(total - 1)
        else:
            self.post_message(self.Moved())
        self.refresh()

    def unmark(self) -> None:
        self.marked.clear()
        self.refresh()

    # Drawing

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            return self._strip(("  query", "kind", "split", "document"), width, "query-table--head")
        number = y - 1 + int(self.scroll_offset.y)
        if number >= self.total:
            return Strip.blank(width, self.rich_style)
        row = self.row(number)
        style = "query-table--cursor" if number == self.cursor else "query-table--line"
        if row is None:
            return self._strip(("  …", "", "", ""), width, "query-table--quiet" if style.endswith("line") else style)
        sign = "✓ " if row.id in self.marked else "  "
        return self._strip((sign + row.text, row.kind, row.split, row.path), width, style)

    def _strip(self, cells: tuple[str, str, str, str], width: int, style: str) -> Strip:
        text, kind, split, path = cells
        document = DOCUMENT if width >= WIDE else 0
        room = max(4, width - KIND - SPLIT - document)
        line = _cell(text, room) + _cell(kind, KIND) + _cell(split, SPLIT) + (_cell(path, document) if document else "")
        drawn: Style = self.get_component_rich_style(style)
        return Strip([Segment(set_cell_size(line, width), drawn)], width)

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, self.total + 1)
        self._look()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._look()

    def _look(self) -> None:
        if self.missing_page() is not None:
            self.post_message(self.Wanted())

    # Moving

    def _move_to(self, number: int) -> None:
        self.cursor = max(0, min(self.total - 1, number))
        room, top = max(1, self.size.height - 1), int(self.scroll_offset.y)
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True, force=True)
        elif self.cursor >= top + room:
            self.scroll_to(y=self.cursor - room + 1, animate=False, immediate=True, force=True)
        self._look()
        self.refresh()
        self.post_message(self.Moved())

    def action_step(self, by: int) -> None:
        """A line up or down; past the ends to the fields beside the table."""
        if 0 <= self.cursor + by < self.total:
            self._move_to(self.cursor + by)
        elif by < 0:
            self.screen.focus_previous()
        else:
            self.screen.focus_next()

    def action_page(self, by: int) -> None:
        self._move_to(self.cursor + by * max(1, self.size.height - 2))

    def action_to(self, number: int) -> None:
        self._move_to(self.total - 1 if number < 0 else number)

    def action_mark(self) -> None:
        row = self.current
        if row is not None:
            self.marked ^= {row.id}
            self._move_to(self.cursor + 1)

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self.current))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        number = event.y - 1 + int(self.scroll_offset.y)
        if event.y < 1 or number >= self.total:
            return
        self._move_to(number)
        if event.chain == 2:
            self.action_open()


def _cell(text: str, width: int) -> str:
    """`text` in exactly `width` columns, the last one a space; `…` where it is longer."""
    shown = visible(text)
    if cell_len(shown) >= width:
        shown = set_cell_size(shown, width - 2) + "…"
    return set_cell_size(shown, width)
