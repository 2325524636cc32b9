"""The hits of a search mode: title, place, and the part of the snippet with most marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from bmembed_tui.steps.search.hit_text import (
    format_heading,
    format_more,
    format_origin,
    format_place,
)
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.plain import mark_spans, plain
from bmembed_tui.widgets.safe import SafeOptions
from bmembed_tui.widgets.text_rows import Span, find_line_cuts, fit_text
from engine.core.messages.search import Hit, Mode

INDENT = "   "  # below the rank
SNIPPET_ROWS = 2
# By whether a hit is relevant.
VERDICTS = {True: ("✓ right  ", "bold $text-success"), False: ("✗ wrong  ", "bold $text-error")}
NARROW = 44  # columns below which a verdict is shown as a sign only


class Results(SafeOptions):
    """A list below the search field."""

    class Left(Message):
        """Up was pressed at the first option."""

    def action_cursor_up(self) -> None:
        if self.highlighted:
            super().action_cursor_up()
        else:
            self.post_message(self.Left())


class QueryInput(Field):
    """The search field; Down goes to the hits."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down", "submit", show=False)]


class HitList(Results):
    """The hits of `mode`.

    A letter without a meaning in the list begins another query in the search field.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.focus_previous", show=False),
        Binding("right", "app.focus_next", show=False),
        Binding("enter", "select", "view"),
    ]

    def __init__(self, mode: Mode) -> None:
        super().__init__(id=f"hits-{mode}")
        self.mode = mode
        self.hits: tuple[Hit, ...] = ()
        self._message = ""
        self._judged: Mapping[int, bool] = {}  # by chunk id, whether it is relevant
        self._titles_alone = False

    @property
    def current(self) -> Hit | None:
        if self.hits and self.highlighted is not None:
            return self.hits[self.highlighted]
        return None

    def show_hits(
        self,
        hits: Sequence[Hit],
        judged: Mapping[int, bool],
        message: str = "",
    ) -> None:
        """Show other hits. `message`: shown if there are no hits.

        The first hit is selected; if the list has the focus, the selected hit stays selected as
        long as it is among the hits.
        """
        selected = 0
        current = self.current
        if current and self.screen.focused is self:
            chunk_ids = [hit.chunk_id for hit in hits]
            if current.chunk_id in chunk_ids:
                selected = chunk_ids.index(current.chunk_id)
        self.hits = tuple(hits)
        self._judged = dict(judged)
        self._message = message
        self._draw(selected)

    def show_judgments(self, judged: Mapping[int, bool]) -> None:
        """Show which hits are relevant, by their chunk ids."""
        if judged != self._judged:
            self._judged = dict(judged)
            self._draw(self.highlighted or 0)

    def set_titles_alone(self, titles_alone: bool) -> None:
        """Set whether each hit has a single row, where several lists share little space."""
        if titles_alone != self._titles_alone:
            self._titles_alone = titles_alone
            self._draw(self.highlighted or 0)

    def _draw(self, selected: int) -> None:
        """Draw the hits, or the message if there are none. `selected`: the index of a hit."""
        width = self.scrollable_content_region.width
        rows = [(str(index), self._format_hit(hit, width)) for index, hit in enumerate(self.hits)]
        if rows:
            self.show(rows, str(selected))
        else:
            self.show([("message", plain(self._message, "$text-muted"))])
            self.highlighted = None

    def _format_hit(self, hit: Hit, width: int) -> Content:
        """Return a hit as rows: rank and title, path and facts, and its snippet."""
        room = max(8, width - len(INDENT))
        verdict = ""
        style = ""
        if hit.chunk_id in self._judged:
            verdict, style = VERDICTS[self._judged[hit.chunk_id]]
        if width < NARROW:
            verdict = verdict[:2]  # the sign
        title_room = room - len(verdict) - 1
        title = fit_text(hit.title or hit.path, max(4, title_room))
        gap = " " * max(1, room - cell_len(title) - len(verdict))
        head = [
            plain(f"{hit.rank:>2} "),
            plain(title, "bold"),
            plain(gap),
            plain(verdict, style),
        ]
        if self._titles_alone:
            return Content.assemble(*head)
        place = format_place(hit)
        if place:
            place = f" · {place}"
        path = fit_text(
            hit.path,
            room - len(place),
            keep_end=True,
        )
        facts = (
            f"{path}{place}",
            format_more(hit),
            format_origin(hit),
            format_heading(hit),
        )
        facts_row = fit_text(" · ".join(filter(None, facts)), room)
        return Content.assemble(
            *head,
            plain(f"\n{INDENT}{facts_row}", "$text-muted", lines=True),
            *build_snippet_rows(hit, room),
        )

    def on_resize(self) -> None:
        self._draw(self.highlighted or 0)

    def on_key(self, event: events.Key) -> None:
        """Insert a letter into the search field.

        The field gets the focus at once, since the next keys are meant for it. Keys that were
        pressed before it had the focus still arrive here.
        """
        field = self.screen.query_one(QueryInput)
        letter = event.character
        if not letter or not event.is_printable:
            return
        if self.screen.focused is not field:
            if not letter.isalpha() or event.key in self.screen.active_bindings:
                return
            self.screen.set_focus(field)
            field.clear()
        field.insert_text_at_cursor(letter)
        event.stop()


def build_snippet_rows(hit: Hit, room: int) -> Iterator[Content]:
    """Return the rows of a hit's snippet that show most marks, each after a line break.

    `…` stands for what is left out.
    """
    ends = find_line_cuts(hit.snippet, room - 2)  # two columns for the `…`
    spans = list(pairwise([0, *ends]))
    marks = [_shift_marks(hit.marks, start, end) for start, end in spans]
    first = _find_snippet_start([len(row_marks) for row_marks in marks])
    last = min(first + SNIPPET_ROWS, len(spans)) - 1
    for number in range(first, last + 1):
        start, end = spans[number]
        text = mark_spans(hit.snippet[start:end].rstrip(), marks[number])
        prefix = ""
        suffix = ""
        if number == first and first > 0:
            prefix = "… "
        if number == last and last < len(spans) - 1:
            suffix = " …"
        yield Content.assemble(
            plain(f"\n{INDENT}{prefix}", lines=True),
            text,
            plain(suffix),
        )


def _shift_marks(
    marks: Sequence[Span],
    start: int,
    end: int,
) -> list[Span]:
    """Return the marks that overlap [start, end), relative to `start`."""
    shifted = []
    for first, last in marks:
        if first < end and last > start:
            shifted.append((first - start, last - start))
    return shifted


def _find_snippet_start(mark_counts: Sequence[int]) -> int:
    """Return the first of the `SNIPPET_ROWS` consecutive rows that hold most marks.

    `mark_counts` is the number of marks in each row.
    """
    best = 0
    most = -1
    for first in range(max(1, len(mark_counts) - SNIPPET_ROWS + 1)):
        count = sum(mark_counts[first : first + SNIPPET_ROWS])
        if count > most:
            best = first
            most = count
    return best
