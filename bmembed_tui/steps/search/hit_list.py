"""The hits of one mode: title, place, and the part of the snippet that holds most marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from bmembed_tui.steps.search.hit_text import heading_of, more_of, origin_of, place_of
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.plain import marked, plain
from bmembed_tui.widgets.safe import SafeOptions
from bmembed_tui.widgets.text_rows import fitted, line_cuts
from engine.core.messages.search import Hit, Mode

INDENT = "   "
SNIPPET_ROWS = 2
JUDGED = {True: ("✓ right  ", "bold $text-success"), False: ("✗ wrong  ", "bold $text-error")}


class Results(SafeOptions):
    """A list below the search field."""

    class Left(Message):
        """Up was pressed at the first one."""

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

    A letter that means nothing here begins another query in the search field.
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
        self._judged: Mapping[int, bool] = {}
        self._titles_alone = False

    @property
    def current(self) -> Hit | None:
        if self.hits and self.highlighted is not None:
            return self.hits[self.highlighted]
        return None

    def show_hits(self, hits: Sequence[Hit], judged: Mapping[int, bool], message: str = "") -> None:
        """Other hits. `message`: what stands there without hits.

        The first one is selected; while the user is among them, the hit that was selected if it is
        still there.
        """
        if self.current and self.screen.focused is self:
            selected = self.current.chunk_id
        else:
            selected = None
        self.hits = tuple(hits)
        self._judged = dict(judged)
        self._message = message
        self._draw(next((place for place, hit in enumerate(hits) if hit.chunk_id == selected), 0))

    def judge(self, judged: Mapping[int, bool]) -> None:
        if judged != self._judged:
            self._judged = dict(judged)
            self._draw(self.highlighted or 0)

    def show_titles_alone(self, is_so: bool) -> None:
        """One row a hit: where several lists share little room."""
        if is_so != self._titles_alone:
            self._titles_alone = is_so
            self._draw(self.highlighted or 0)

    def _draw(self, selected: int) -> None:
        width = self.scrollable_content_region.width
        rows = [(str(place), self._rows(hit, width)) for place, hit in enumerate(self.hits)]
        self.show(rows or [("message", plain(self._message, "$text-muted"))], str(selected))
        if not rows:
            self.highlighted = None

    def _rows(self, hit: Hit, width: int) -> Content:
        room = max(8, width - len(INDENT))
        verdict, style = JUDGED.get(self._judged.get(hit.chunk_id), ("", ""))  # type: ignore[arg-type]
        if width < 44:
            verdict = verdict[:2]
        title = fitted(hit.title or hit.path, max(4, room - len(verdict) - 1))
        gap = " " * max(1, room - cell_len(title) - len(verdict))
        head = [plain(f"{hit.rank:>2} "), plain(title, "bold"), plain(gap), plain(verdict, style)]
        if self._titles_alone:
            return Content.assemble(*head)
        if place_of(hit):
            place = f" · {place_of(hit)}"
        else:
            place = ""
        path = fitted(hit.path, room - len(place), keep_end=True)
        where = " · ".join(
            part
            for part in (f"{path}{place}", more_of(hit), origin_of(hit), heading_of(hit))
            if part
        )
        return Content.assemble(
            *head,
            plain(f"\n{INDENT}{fitted(where, room)}", "$text-muted", lines=True),
            *snippet_rows(hit, room),
        )

    def on_resize(self) -> None:
        self._draw(self.highlighted or 0)

    def on_key(self, event: events.Key) -> None:
        """At once, as what is typed next goes to the field; what was typed before it had the
        focus still comes here.
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


def snippet_rows(hit: Hit, room: int) -> Iterator[Content]:
    """The rows of a hit's snippet that show most marks, each after a line end; `…` for what is
    left out.
    """
    ends = line_cuts(hit.snippet, room - 2)  # the rest is for the sign that something is left out
    spans = list(pairwise([0, *ends]))
    marks = [
        [(first - start, last - start) for first, last in hit.marks if first < end and last > start]
        for start, end in spans
    ]
    firsts = range(max(1, len(spans) - SNIPPET_ROWS + 1))
    best = max(firsts, key=lambda row: (sum(map(len, marks[row : row + SNIPPET_ROWS])), -row))
    for number in range(best, min(best + SNIPPET_ROWS, len(spans))):
        start, end = spans[number]
        before = "… " if number == best > 0 else ""
        if number == best + SNIPPET_ROWS - 1 < len(spans) - 1:
            after = " …"
        else:
            after = ""
        text = marked(hit.snippet[start:end].rstrip(), marks[number])
        yield Content.assemble(plain(f"\n{INDENT}{before}", lines=True), text, plain(after))
