"""What the Search step looks like: its widgets, and how they are drawn from question and answers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.timer import Timer

from bmembed_tui.dialogs.help import key_name
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.search import text as texts
from bmembed_tui.steps.search.explanation import WhyPanel
from bmembed_tui.steps.search.filters import CleanInput, FilterRow
from bmembed_tui.steps.search.hit_list import HitList
from bmembed_tui.steps.search.mode_line import Choice, ModeLine
from bmembed_tui.steps.search.model import ALL, NAMES, Answer, Question
from bmembed_tui.steps.search.search_as_you_type import Facts, Searching
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeOptions, SafeStatic
from bmembed_tui.widgets.text_rows import line_cuts
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Hit

WIDE = 100  # columns of the terminal from which three modes stand side by side
TALL = 32  # lines of the terminal from which there is room for an introduction
PLACES = range(len(MODES))  # columns; where one mode is shown, it has the first
KEYS = {"hybrid": "f5", "semantic": "f6", "bm25": "f7", ALL: "f8", "filters": "f9"}


class QueryInput(CleanInput):
    """The search field; Down goes to the hits."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down", "submit", show=False)]


class Offers(SafeOptions):
    """Queries to begin with; Up from the first one goes back."""

    class Left(Message):
        """The user has gone up beyond the first one."""

    def action_cursor_up(self) -> None:
        if self.highlighted:
            super().action_cursor_up()
        else:
            self.post_message(self.Left())


class SearchView(StepPane):
    """The search field, the modes, filters, hits of one mode or of three, and why the selected hit was found."""

    def __init__(self, **options: str) -> None:
        super().__init__(id=options.get("id"))
        self.searching = Searching(self.ask, self._start, self._answered)
        self.facts = Facts(self.ask, self._start, self._facts_changed)
        self.mode, self.side = "", 0
        self._lists = [HitList(id=f"hits-{place}") for place in PLACES]
        self._heads = [SafeStatic("", classes="search-head") for _ in PLACES]
        self._why = WhyPanel(id="search-why")
        self._drawn: dict[int, Answer] = {}
        self._flash, self._early = "", ""
        self._written: dict[str, str] = {}
        self._delays: dict[str, Timer] = {}
        self._built: tuple[object, ...] = ()
        self._offered: tuple[str, ...] = ()

    # What is there

    def compose_body(self) -> ComposeResult:
        with Vertical(id="search-nothing"):
            yield SafeStatic(texts.NOTHING)
            yield SafeButton("Read and index", id="primary", variant="primary")
        with Vertical(id="search-all"):
            yield QueryInput(placeholder="words or a question", compact=True, id="search-query", select_on_focus=False)
            yield ModeLine(id="search-modes")
            yield FilterRow(id="search-filters")
            yield SafeStatic("", id="search-status")
            yield SafeStatic("", id="search-notes")
            yield SafeStatic("", id="search-hint")
            yield Offers(id="search-offers")
            with Horizontal(id="search-columns"):
                for place in PLACES:
                    with Vertical(classes="search-column", id=f"column-{place}"):
                        yield self._heads[place]
                        yield self._lists[place]
            yield self._why

    # Questions

    def _start(self, work: Callable[[], Coroutine[None, None, None]], group: str) -> None:
        self.run_worker(work(), group=group, exclusive=True)

    def _answered(self, mode: str) -> None:
        """A mode's answer has come."""

    def _facts_changed(self) -> None:
        if self.is_attached:
            for shown in self._lists:
                shown.judge(self.facts.judged)
            self._draw_why()

    def _usual_mode(self) -> str:
        try:
            return self.host.project.settings().search.mode
        except EngineError:
            return MODES[0]

    @property
    def question(self) -> Question:
        row = self.query_one(FilterRow)
        return Question(self.query_one(QueryInput).value, row.filters, facets=row.display)

    # Drawing

    @property
    def _wide(self) -> bool:
        return self.app.size.width >= WIDE

    @property
    def active(self) -> str:
        return MODES[self.side] if self.mode == ALL else self.mode or MODES[0]

    @property
    def _shown(self) -> tuple[str, ...]:
        return MODES if self.mode == ALL and self._wide else (self.active,)

    @property
    def _place(self) -> int:
        return self._shown.index(self.active)

    @property
    def active_list(self) -> HitList:
        return self._lists[self._place]

    @property
    def _hit(self) -> Hit | None:
        return self.active_list.current

    @property
    def _by(self) -> str:
        drawn = self._drawn.get(self._place)
        return drawn.by if drawn else self.active

    def _draw_frame(self) -> None:
        there, empty = self.host.status.built("index"), self.question.empty
        self.set_class(self.app.size.height < TALL, "low")
        self.query_one("#search-nothing").display = not there
        self.query_one("#search-all").display = there
        self.query_one("#search-columns").display = not empty
        self._show_why(not empty and not (self.has_class("low") and self.query_one(FilterRow).display))
        self.query_one("#search-hint").display = empty
        if empty:
            self._write("#search-hint", texts.OFFER if self._offered else texts.NO_OFFER)
        self.query_one("#search-offers").display = empty and bool(self._offered)
        for place in PLACES:
            self.query_one(f"#column-{place}").display = place < len(self._shown)
        self._draw_button()
        self._draw_modes()
        self._draw_status()

    def _show_why(self, shown: bool) -> None:
        again = shown and not self._why.display
        self._why.display = shown
        if again:
            self.call_after_refresh(self._draw_why)  # it had no width to be written for

    def _draw_button(self) -> None:
        button, running = self.query_one("#primary", SafeButton), self.host.going
        button.label = "Running …" if running else "Read and index"
        button.disabled = running

    def _clear(self) -> None:
        self._drawn.clear()
        for shown in self._lists:
            shown.show((), "", {})
        self.query_one(FilterRow).count({})
        self._draw_frame()

    def _draw_modes(self) -> None:
        bound = {active.binding.id: key for key, active in self.screen.active_bindings.items()}
        keys = {name: key_name(bound.get(f"search.{name}", key)) for name, key in KEYS.items()}
        names = {**NAMES, ALL: "all three" if self.content_size.width > 60 else "all"}
        count = self.query_one(FilterRow).filters.count
        filters = Choice("filters", keys["filters"], f"filter:{count}" if count else "filters", mode=False)
        choices = [Choice(mode, keys[mode], names[mode]) for mode in (*MODES, ALL)]
        self.query_one(ModeLine).show([*choices, filters], self.mode)

    def _draw_hits(self) -> None:
        for place, mode in enumerate(self._shown):
            answer = self.searching.answer(mode)
            if answer is None or answer is self._drawn.get(place):
                continue
            self._drawn[place] = answer
            self.facts.of(answer.question.query)
            message = answer.error or texts.no_hits(answer)
            self._lists[place].show(answer.hits, answer.by, self.facts.judged, message)
        self._draw_facets()
        self._draw_why()

    def _draw_facets(self) -> None:
        answer = self.searching.answer(self.active)
        if answer is not None and answer.question.facets:
            self.query_one(FilterRow).count(answer.facets)

    def _draw_status(self) -> None:
        searching, mode = self.searching, self.active
        for place, one in enumerate(self._shown):
            head = self._heads[place]
            head.display = self.mode == ALL
            text = texts.head(one, searching, current=one == mode, alone=not self._wide)
            if head.display and head.content != text:
                head.update(text, layout=False)
        self._write("#search-status", self._flash or texts.status(mode, searching), keep=True)
        answer = searching.answer(mode)
        note = answer.note if answer and answer.hits else ""
        self._write("#search-notes", f"! {note}" if note else "")

    def _write(self, where: str, text: str, *, keep: bool = False) -> None:
        """Write a line; it is laid out anew only where its height changes. `keep`: an empty one keeps its place."""
        line = self.query_one(where, SafeStatic)
        heights = [len(line_cuts(one, line.size.width)) for one in (self._written.get(where, ""), text)]
        if text != self._written.get(where):
            self._written[where] = text
            line.display = keep or bool(text)
            line.update(plain(text, lines=True), layout=heights[0] != heights[1])

    def _draw_why(self) -> None:
        loading = self.searching.encoder != "ready"
        self._why.draw(self._hit, self._by, self.facts, loading=loading)

    def _say(self, text: str) -> None:
        self._flash = text
        self._draw_status()
