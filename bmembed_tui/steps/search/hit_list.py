"""Hits, drawn line by line: no widget is made or laid out while the user types."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bmembed_tui.steps.search.hit_rows import Row, hit_rows, message_rows
from bmembed_tui.widgets.text_rows import segments
from engine.core.messages.search import Hit


class HitList(ScrollView, can_focus=True):
    """The hits of one mode. Up and down move, Enter opens; other letters are posted as `Typed`, for the search field."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "step(-1)", show=False),
        Binding("down", "step(1)", show=False),
        Binding("left", "side(-1)", show=False),
        Binding("right", "side(1)", show=False),
        Binding("pageup", "step(-5)", show=False),
        Binding("pagedown", "step(5)", show=False),
        Binding("home", "to(0)", show=False),
        Binding("end", "to(-1)", show=False),
        Binding("enter", "open", "look inside"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "hit-list--title", "hit-list--quiet", "hit-list--text", "hit-list--mark", "hit-list--score",
        "hit-list--relevant", "hit-list--not-relevant", "hit-list--cursor",
    }  # fmt: skip
    DEFAULT_CSS = """
    HitList { height: 1fr; width: 1fr; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    HitList .hit-list--title { text-style: bold; color: $foreground; }
    HitList .hit-list--quiet { color: $text-muted; }
    HitList .hit-list--text { color: $foreground; }
    HitList .hit-list--mark { text-style: bold underline; color: $accent; }
    HitList .hit-list--score { color: $text-muted; }
    HitList .hit-list--relevant { text-style: bold; color: $text-success; }
    HitList .hit-list--not-relevant { text-style: bold; color: $text-error; }
    HitList .hit-list--cursor { text-style: reverse; }
    """

    class Entered(Message):
        """The focus has come."""

    class Opened(Message):
        """Enter or a double click on the selected hit."""

    class Left(Message):
        """The user has gone up beyond the first hit."""

    @dataclass
    class Sideways(Message):
        """Left or right was pressed."""

        by: int

    @dataclass
    class Typed(Message):
        """A character that means nothing here."""

        character: str

    cursor: var[int] = var(0)
    """Which hit is selected, counted from 0."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.hits: tuple[Hit, ...] = ()
        self._scale, self._message = "hybrid", ""
        self._judged: Mapping[int, bool] = {}
        self._rows: list[list[Row]] = []
        self._tops: list[int] = [0]
        self._strips: dict[tuple[int, int, bool], Strip] = {}

    # What is shown

    @property
    def current(self) -> Hit | None:
        return self.hits[self.cursor] if self.cursor < len(self.hits) else None

    def show(self, hits: Sequence[Hit], scale: str, judged: Mapping[int, bool], message: str = "") -> None:
        """Other hits. `scale`: the mode whose scores they bear. `message`: what stands there without hits.

        The first one is selected; while the user is among them, the hit that was selected if it is still there.
        """
        former = self.current.chunk_id if self.current and self.has_focus else None
        self.hits, self._scale, self._judged, self._message = tuple(hits), scale, dict(judged), message
        self.cursor = next((number for number, hit in enumerate(hits) if hit.chunk_id == former), 0)
        self._arrange()
        self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self._show_cursor()

    def judge(self, judged: Mapping[int, bool]) -> None:
        if dict(judged) != self._judged:
            self._judged = dict(judged)
            self._arrange()

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _arrange(self) -> None:
        width, height, scale = self._width, self.size.height, self._scale
        self._strips.clear()
        if not width:
            self._rows = []
        elif self.hits:
            self._rows = [hit_rows(hit, scale, self._judged.get(hit.chunk_id), width, height) for hit in self.hits]
        else:
            self._rows = [message_rows(self._message, width)]
        self._tops = [0]
        for rows in self._rows:
            self._tops.append(self._tops[-1] + len(rows))
        self.virtual_size = Size(width, self._tops[-1])
        self.refresh()

    # Drawing

    def render_line(self, y: int) -> Strip:
        line = y + int(self.scroll_offset.y)
        number = bisect_right(self._tops, line) - 1
        if not 0 <= number < len(self._rows):
            return Strip.blank(self._width, self.rich_style)
        key = (number, line - self._tops[number], number == self.cursor and bool(self.hits))
        if key not in self._strips:
            self._strips[key] = self._strip(*key)
        return self._strips[key]

    def _strip(self, number: int, offset: int, selected: bool) -> Strip:
        row, width = self._rows[number][offset], self._width
        look = self.get_component_rich_style
        under = look("hit-list--cursor", partial=True) if selected and offset == 0 and self.has_focus else Style()
        base = look(row.style) + under
        mark = look("hit-list--mark", partial=True)
        drawn = [Segment(self._margin(number, offset, selected), base)] if self.hits else []
        drawn += segments(row.text, base, ((start, end, mark) for start, end in row.marks))
        right = [piece for text, style in row.right for piece in segments(f"  {text}", look(style) + under)]
        used = Segment.get_line_length(drawn) + Segment.get_line_length(right)
        drawn.append(Segment(" " * max(0, width - used), base))
        return Strip([*drawn, *right]).adjust_cell_length(width, base)

    def _margin(self, number: int, offset: int, selected: bool) -> str:
        if offset == 0:
            return f"{'▸' if selected else ' '}{self.hits[number].rank:>2} "
        return "▏   " if selected else "    "

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._strips.clear()

    def on_focus(self) -> None:
        self._strips.clear()
        self.post_message(self.Entered())

    def on_blur(self) -> None:
        self._strips.clear()

    def on_resize(self) -> None:
        self._arrange()
        self._show_cursor()

    # Moving

    def _move_to(self, number: int) -> None:
        number = max(0, min(len(self.hits) - 1, number))
        if number != self.cursor and self.hits:
            self.cursor = number
            self._show_cursor()
            self.refresh()

    def _show_cursor(self) -> None:
        if not self.hits or self.cursor + 1 >= len(self._tops):
            return
        top, bottom, height = self._tops[self.cursor], self._tops[self.cursor + 1], self.size.height
        seen = int(self.scroll_offset.y)
        if top < seen or bottom - top >= height:
            self.scroll_to(y=top, animate=False, immediate=True, force=True)
        elif bottom > seen + height:
            self.scroll_to(y=bottom - height, animate=False, immediate=True, force=True)

    def action_step(self, by: int) -> None:
        if by < 0 and self.cursor == 0:
            self.post_message(self.Left())
        else:
            self._move_to(self.cursor + by)

    def action_to(self, number: int) -> None:
        self._move_to(number if number >= 0 else len(self.hits) - 1)

    def action_side(self, by: int) -> None:
        self.post_message(self.Sideways(by))

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened())

    def on_key(self, event: events.Key) -> None:
        """What means nothing here goes on in the search field."""
        letter = event.character
        if letter and letter.isalpha() and event.key not in self.screen.active_bindings:
            event.stop()
            self.post_message(self.Typed(letter))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        number = bisect_right(self._tops, event.y + int(self.scroll_offset.y)) - 1
        if not 0 <= number < len(self.hits):
            return
        self._move_to(number)
        if event.chain == 2:
            self.action_open()
