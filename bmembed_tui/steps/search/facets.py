"""What the found documents are, with counts: a line for types, authors, languages, years and folders. Enter or a click takes
one as a filter, and again lets it go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from bmembed_tui.steps.search.model import FACETS, Filters
from bmembed_tui.widgets.plain import plain, visible
from bmembed_tui.widgets.text_rows import fitted

LABEL_WIDTH = 9
MAX_NAME_LENGTH = 24  # columns
MORE = "…"


class Value(NamedTuple):
    """One value of a facet, how many found documents have it where that was counted, and whether it is a filter."""

    facet: str
    value: str
    number: int | None
    chosen: bool

    @property
    def label(self) -> str:
        """`✓ md 12`."""
        name = fitted(visible(self.value), MAX_NAME_LENGTH)
        counted = "" if self.number is None else f" {self.number:,}"
        return f"{'✓ ' if self.chosen else ''}{name}{counted}"


class FacetList(Widget, can_focus=True):
    """Up and down move between the facets, left and right between the values of one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "sideways(-1)", show=False),
        Binding("right", "sideways(1)", show=False),
        Binding("up", "vertically(-1)", show=False),
        Binding("down", "vertically(1)", show=False),
        Binding("enter,space", "choose", "filter", show=False),
    ]
    DEFAULT_CSS = """
    FacetList { width: 1fr; height: auto; }
    """

    @dataclass
    class Chosen(Message):
        """A value was taken, or let go."""

        facet: str
        value: str

    class Done(Message):
        """Down from the last line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._lines: list[list[Value]] = []
        self._at = (0, 0)  # line and place in it

    def show(self, counts: Mapping[str, Mapping[str, int]], filters: Filters) -> None:
        """Other counts, or other filters. What is a filter stands first, also where nothing found has it."""
        lines = [_line(facet, counts.get(facet, {}), filters) for facet in FACETS]
        lines = [line for line in lines if line]
        if lines == self._lines:
            return
        current = self.current
        higher, self._lines = len(lines) != len(self._lines), lines
        self._at = self._place_of(current)
        if self.has_focus and not lines:
            self.screen.focus_previous()  # what is hidden hears no key, nor do those around it
        self.display = bool(lines)
        self.refresh(layout=higher)

    @property
    def current(self) -> Value | None:
        line, place = self._at
        return self._lines[line][place] if line < len(self._lines) else None

    def _place_of(self, value: Value | None) -> tuple[int, int]:
        """Where a value stands now, else the beginning of its facet, else of all."""
        for line, values in enumerate(self._lines):
            if value is not None and values[0].facet == value.facet:
                return line, next((place for place, one in enumerate(values) if one.value == value.value), 0)
        return 0, 0

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def _shown(self, line: int) -> Iterator[tuple[int, int, str]]:
        """(place, column, label) of the values of a line that there is room for, the cursor's among them; `MORE` for others."""
        values = self._lines[line]
        wanted = self._at[1] if line == self._at[0] else 0
        widths = [cell_len(value.label) + 2 for value in values]
        room = self.content_size.width - LABEL_WIDTH - 2
        first = 0
        while first < wanted and sum(widths[first : wanted + 1]) > room:
            first += 1
        column = LABEL_WIDTH
        for place in range(first, len(values)):
            if place > first and column + widths[place] > self.content_size.width:
                yield place, column, MORE
                return
            yield place, column, values[place].label
            column += widths[place]

    def render(self) -> Content:
        return Content("\n").join([self._drawn(line) for line in range(len(self._lines))])

    def _drawn(self, line: int) -> Content:
        values = self._lines[line]
        parts = [plain(f"{values[0].facet:<{LABEL_WIDTH}}", "bold")]
        for place, _, label in self._shown(line):
            if label == MORE:
                parts.append(plain(MORE))
                continue
            style = "bold $text-primary" if values[place].chosen else ""
            if self.has_focus and (line, place) == self._at:
                style += " reverse"
            parts += [plain(label, style.strip()), plain("  ")]
        return Content.assemble(*parts)

    # Choosing

    def action_sideways(self, by: int) -> None:
        line, place = self._at
        if self._lines:
            self._at = (line, max(0, min(len(self._lines[line]) - 1, place + by)))
            self.refresh()

    def action_vertically(self, by: int) -> None:
        """To the next or the former facet; beyond the first to the fields, beyond the last to the hits."""
        line = self._at[0] + by
        if line < 0:
            self.screen.focus_previous()
        elif line >= len(self._lines):
            self.post_message(self.Done())
        else:
            self._at = (line, 0)
            self.refresh()

    def action_choose(self) -> None:
        """Take the value at the cursor as a filter, or let it go."""
        if self.current is not None:
            self.post_message(self.Chosen(self.current.facet, self.current.value))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        if event.y < len(self._lines):
            for place, column, label in list(self._shown(event.y)):
                if column <= event.x < column + cell_len(label):
                    self._at = (event.y, place)
                    self.refresh()
                    self.action_choose()
                    return


def _line(facet: str, counts: Mapping[str, int], filters: Filters) -> list[Value]:
    chosen = filters.chosen(facet)
    names = [*chosen, *(name for name in counts if name not in chosen)]
    return [Value(facet, name, counts.get(name), name in chosen) for name in names]
