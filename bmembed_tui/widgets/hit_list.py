"""Hits, drawn line by line: no widget is made or laid out while the user types."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import var
from textual.scroll_view import ScrollView
from textual.strip import Strip

from bmembed_tui.search_model import Hit
from bmembed_tui.text_rows import fitted, line_cuts, segments

MARGIN = 4  # columns before a hit's text
ROOMY = 16  # lines of the list from which hits are set apart and show more of their text
SIGNS = {True: ("✓", "relevant"), False: ("✗", "not relevant")}
WORDY = 44  # columns from which a judgment is told by its word, too
JUDGED = {True: "hit-list--relevant", False: "hit-list--not-relevant"}


@dataclass(frozen=True)
class Row:
    """One line of a hit: (text, component class, marks within the text), from left to right; `right` stands at the end."""

    text: str
    style: str
    marks: tuple[tuple[int, int], ...] = ()
    right: tuple[tuple[str, str], ...] = ()


class HitList(ScrollView, can_focus=True):
    """The hits of one mode. Up and down move, Enter opens; other letters are told as `Typed`, for the search field."""

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

    class Sideways(Message):
        """Left or right was pressed."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    class Typed(Message):
        """A character that means nothing here."""

        def __init__(self, character: str) -> None:
            super().__init__()
            self.character = character

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
        """The selected hit."""
        return self.hits[self.cursor] if self.cursor < len(self.hits) else None

    @property
    def judged(self) -> Mapping[int, bool]:
        """Which chunks were judged, and how."""
        return self._judged

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
        """Show other judgments."""
        if dict(judged) != self._judged:
            self._judged = dict(judged)
            self._arrange()

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _arrange(self) -> None:
        """Break every hit into rows."""
        width = self._width
        self._strips.clear()
        roomy = self.size.height >= ROOMY
        lines = 3 if roomy or width < WORDY else 2
        self._rows = [self._hit_rows(hit, width, lines, roomy) for hit in self.hits] if width else []
        if not self.hits and width:
            cuts = [0, *line_cuts(self._message, width - 2)]
            texts = [self._message[start:end] for start, end in pairwise(cuts)]
            self._rows = [[Row(f" {text}", "hit-list--quiet") for text in texts]]
        self._tops = [0]
        for rows in self._rows:
            self._tops.append(self._tops[-1] + len(rows))
        self.virtual_size = Size(width, self._tops[-1])
        self.refresh()

    def _hit_rows(self, hit: Hit, width: int, lines: int, roomy: bool) -> list[Row]:
        room = max(8, width - MARGIN - 1)
        place = self._place(hit, room)
        both = f"{place} · {hit.heading}"
        if hit.heading and cell_len(both) > room:
            under = [Row(place, "hit-list--quiet"), Row(fitted(hit.heading, room), "hit-list--quiet")]
        else:
            under = [Row(both if hit.heading else place, "hit-list--quiet")]
        rows = [self._head(hit, width), *under, *snippet_rows(hit, room, lines)]
        return [*rows, Row("", "hit-list--text")] if roomy else rows

    def _head(self, hit: Hit, width: int) -> Row:
        right: list[tuple[str, str]] = []
        verdict = self._judged.get(hit.chunk_id)
        if verdict is not None:
            sign, word = SIGNS[verdict]
            right.append((f"{sign} {word}" if width >= WORDY else sign, JUDGED[verdict]))
        right.append((hit.score_text(self._scale), "hit-list--score"))
        taken = sum(cell_len(text) + 2 for text, _ in right)
        title = hit.title or hit.path
        return Row(fitted(title, max(4, width - MARGIN - taken)), "hit-list--title", (), tuple(right))

    @staticmethod
    def _place(hit: Hit, room: int) -> str:
        place = f" · {hit.place}"
        return f"{fitted(hit.path, room - len(place), keep_end=True)}{place}"

    # Drawing

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
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
        """Another theme, or the focus has come or gone."""
        super().notify_style_update()
        self._strips.clear()

    def on_focus(self) -> None:
        """The selected hit is drawn as such."""
        self._strips.clear()
        self.post_message(self.Entered())

    def on_blur(self) -> None:
        """The selected hit is drawn more quietly."""
        self._strips.clear()

    def on_resize(self) -> None:
        """Other widths, other rows."""
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
            self.scroll_to(y=top, animate=False, immediate=True)
        elif bottom > seen + height:
            self.scroll_to(y=bottom - height, animate=False, immediate=True)

    def action_step(self, by: int) -> None:
        """To another hit; up from the first one to the search field."""
        if by < 0 and self.cursor == 0:
            self.post_message(self.Left())
        else:
            self._move_to(self.cursor + by)

    def action_to(self, number: int) -> None:
        """To a hit; −1 is the last one."""
        self._move_to(number if number >= 0 else len(self.hits) - 1)

    def action_side(self, by: int) -> None:
        """To the hits of another mode, where several are shown."""
        self.post_message(self.Sideways(by))

    def action_open(self) -> None:
        """Open the selected hit."""
        if self.current is not None:
            self.post_message(self.Opened())

    def on_key(self, event: events.Key) -> None:
        """What means nothing here goes on in the search field."""
        letter = event.character
        if letter and letter.isalpha() and event.key not in self.screen.active_bindings:
            event.stop()
            self.post_message(self.Typed(letter))

    def on_click(self, event: events.Click) -> None:
        """Select the hit under the mouse; a double click opens it."""
        event.stop()
        number = bisect_right(self._tops, event.y + int(self.scroll_offset.y)) - 1
        if not 0 <= number < len(self.hits):
            return
        self._move_to(number)
        if event.chain == 2:
            self.action_open()


def snippet_rows(hit: Hit, room: int, lines: int) -> list[Row]:
    """At most `lines` rows of a hit's snippet: from the row on that shows the most marks."""
    ends = line_cuts(hit.snippet, room - 2)  # the rest is for the sign that something is left out
    spans = list(pairwise([0, *ends]))
    marked = [[(first, last) for first, last in hit.marks if first < end and last > start] for start, end in spans]
    best = max(range(max(1, len(spans) - lines + 1)), key=lambda row: (sum(map(len, marked[row : row + lines])), -row))
    rows = []
    for number in range(best, min(best + lines, len(spans))):
        start, end = spans[number]
        text, marks = hit.snippet[start:end].rstrip(), [(first - start, last - start) for first, last in marked[number]]
        if number == best > 0:
            text, marks = f"… {text}", [(first + 2, last + 2) for first, last in marks]
        if number == best + lines - 1 and number < len(spans) - 1 and not text.endswith("…"):
            text = f"{set_cell_size(text, room - 2).rstrip() if cell_len(text) > room - 2 else text} …"
        rows.append(Row(text, "hit-list--text", tuple(marks)))
    return rows
