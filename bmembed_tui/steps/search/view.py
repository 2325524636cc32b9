"""What the Search step looks like: its widgets, and how they are drawn from question and
answers.
"""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.worker import WorkType

from bmembed_tui.dialogs.help import key_name
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.search import text as texts
from bmembed_tui.steps.search.answer import AnswerPanel
from bmembed_tui.steps.search.filters import FilterRow
from bmembed_tui.steps.search.hit_list import HitList, QueryInput, Results
from bmembed_tui.steps.search.model import ALL, NAMES, Answer, Question
from bmembed_tui.steps.search.search_as_you_type import SERVER_PAUSE, Judgments, Searching
from bmembed_tui.steps.search.side_preview import SidePreview
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from bmembed_tui.widgets.text_rows import line_cuts
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Hit

WIDE = 116  # columns of the terminal from which three lists stand side by side
SIDE = 92  # columns of the step from which the document stands beside the hits
TALL = 32  # lines of the terminal from which there is room for an introduction
KEYS = {"hybrid": "f5", "semantic": "f6", "bm25": "f7", ALL: "f8"}


class SearchView(StepPane):
    """The search field, the modes, filters, and hits of one mode or of all, side by side."""

    def __init__(self, **options: str) -> None:
        super().__init__(id=options.get("id"))
        self.searching = Searching(self.ask, self._start, self._answered)
        self.judgments = Judgments(self.ask, self._start, self._judged)
        self.mode = ""
        self.active: str = MODES[0]
        self.by_document = True
        self.by_date = False
        self.offered: tuple[str, ...] = ()
        self._lists: dict[str, HitList] = {mode: HitList(mode) for mode in MODES}
        self._heads: dict[str, SafeStatic] = {
            mode: SafeStatic("", classes="search-head") for mode in MODES
        }
        self._drawn: dict[str, Answer] = {}
        self._flash = ""
        self._problem = ""
        self._written: dict[str, str] = {}
        self._delays: dict[str, Timer] = {}
        self._built: dict[str, object] = {}

    # What is there

    def compose_body(self) -> ComposeResult:
        yield QueryInput(placeholder="words or a question", id="search-query")
        with Vertical(id="search-nothing"):
            yield SafeStatic("", id="search-nothing-text")
            yield SafeButton("Read the documents", id="primary", variant="primary")
        with Vertical(id="search-all"):
            yield ChoiceRow("", (), id="search-modes")
            yield FilterRow(id="search-filters")
            yield SafeStatic("", id="search-improve")
            yield SafeStatic("", id="search-status")
            yield SafeStatic("", id="search-notes")
            yield SafeStatic("", id="search-hint")
            yield Results(id="search-offers")
            yield AnswerPanel(self.ask)
            with Horizontal(id="search-columns"):
                for mode in MODES:
                    with Vertical(classes="search-column", id=f"column-{mode}"):
                        yield self._heads[mode]
                        yield self._lists[mode]
                yield SidePreview(self.ask)

    # Questions

    def _start(self, work: WorkType[None], group: str) -> None:
        self.run_worker(work, group=group, exclusive=True)

    def _answered(self, mode: str) -> None:
        """A mode's answer has come."""

    def _judged(self) -> None:
        if self.is_attached:
            for shown in self._lists.values():
                shown.judge(self.judgments.judged)

    def _set_usual_mode(self) -> None:
        try:
            settings = self.host.project.settings()
            self.mode = self.mode or settings.search.mode_in_json
            if settings.search.reranker.startswith("http"):
                self.searching.rerank_pause = SERVER_PAUSE
            else:
                self.searching.rerank_pause = 0.0
        except EngineError:
            self.mode = MODES[0]
        if self.mode != ALL:
            self.active = self.mode

    @property
    def question(self) -> Question:
        row = self.query_one(FilterRow)
        return Question(
            self.query_one(QueryInput).value,
            row.filters,
            row.display,
            self.by_document,
            self.by_date,
        )

    # Drawing

    @property
    def shown(self) -> tuple[str, ...]:
        """The modes whose hits are on the screen."""
        return MODES if self.mode == ALL else (self.active,)

    @property
    def active_list(self) -> HitList:
        return self._lists[self.active]

    @property
    def _hit(self) -> Hit | None:
        return self.active_list.current

    def _draw_frame(self) -> None:
        there = self.host.status.built("index")
        empty = self.question.empty
        self.set_class(self.app.size.height < TALL, "low")
        self.set_class(self.mode == ALL, "all")
        narrow = self.app.size.width < WIDE
        self.set_class(narrow, "narrow")
        for shown in self._lists.values():
            shown.show_titles_alone(narrow and self.mode == ALL)
        self.query_one("#search-nothing").display = not there
        self._draw_nothing()
        self.query_one("#search-all").display = there
        self.query_one("#search-columns").display = not empty
        self._write(
            "#search-hint", (texts.OFFER if self.offered else texts.NO_OFFER) if empty else ""
        )
        self.query_one("#search-offers").display = empty and bool(self.offered)
        for mode in MODES:
            self.query_one(f"#column-{mode}").display = mode in self.shown
        self._draw_side()
        self._draw_offer()
        self._draw_modes()
        self._draw_status()

    def _draw_side(self) -> None:
        has_room = self.mode != ALL and self.size.width >= SIDE
        self.query_one(SidePreview).display = has_room and bool(self.active_list.hits)

    def _draw_nothing(self) -> None:
        """What stands there before anything can be searched: how to begin, or how far the run
        is.
        """
        running = self.host.going
        self._write("#search-nothing-text", texts.nothing(self.host.run_state, running))
        button = self.query_one("#primary")
        button.display = not (running or self.host.status.built("index"))
        if running and button.has_focus:
            self.query_one(QueryInput).focus()

    def _draw_offer(self) -> None:
        """What search lacks, and the key that gives it; among hits only how far embedding is."""
        going = self.host.going
        key = self._key("search.improve", "f2")
        if going:
            offer = texts.embedding(self.host.run_state)
        else:
            offer = texts.offer(self.host.status, key)
        self._write("#search-improve", offer if going or self.question.empty else "")

    def _key(self, binding: str, otherwise: str) -> str:
        bound = {active.binding.id: key for key, active in self.screen.active_bindings.items()}
        return key_name(bound.get(binding, otherwise))

    def _draw_modes(self) -> None:
        keys = {mode: self._key(f"search.{mode}", key) for mode, key in KEYS.items()}
        self.query_one(ChoiceRow).show(
            self.mode, [(mode, f"{key} {NAMES[mode]}") for mode, key in keys.items()]
        )

    def _clear(self) -> None:
        self._drawn.clear()
        for shown in self._lists.values():
            shown.show_hits((), {})
        self.query_one(FilterRow).count({})
        self._draw_frame()

    def _draw_hits(self) -> None:
        for mode in self.shown:
            answer = self.searching.answer(mode)
            if answer is None or answer is self._drawn.get(mode):
                continue
            self._drawn[mode] = answer
            self.judgments.of(answer.question.query)
            embedding = self.host.going and not self.host.status.done("embed")
            follows = mode != "bm25" and (embedding or mode in self.searching.pending)
            message = answer.error or texts.no_hits(answer, by_meaning_follows=follows)
            self._lists[mode].show_hits(answer.hits, self.judgments.judged, message)
        self._draw_side()
        answer = self.searching.answer(self.active)
        if answer is not None and answer.question.facets:
            self.query_one(FilterRow).count(answer.facets)

    def _draw_status(self) -> None:
        alone = self.mode != ALL
        for mode in self.shown:
            self._heads[mode].display = not alone
            if not alone:
                name = plain(NAMES[mode], "bold underline" if mode == self.active else "bold")
                what = plain(f"  {texts.status(mode, self.searching)}")
                self._heads[mode].update(Content.assemble(name, what), layout=False)
        if alone or self.question.empty:
            status = texts.status(self.active, self.searching)
        else:
            status = ""
        self._write("#search-status", self._problem or self._flash or status, keep=True)
        answer = self.searching.answer(self.active)
        embedding = texts.embedding(self.host.run_state)  # which says the same
        if answer and answer.hits and not embedding:
            note = answer.note
        else:
            note = ""
        self._write("#search-notes", f"! {note}" if note else "")

    def _write(self, where: str, text: str, *, keep: bool = False) -> None:
        """Write a line; it is laid out anew only where its height changes.

        `keep`: an empty one keeps its place.
        """
        line = self.query_one(where, SafeStatic)
        heights = [
            len(line_cuts(one, line.size.width)) for one in (self._written.get(where, ""), text)
        ]
        line.display = keep or bool(text)
        if text != self._written.get(where):
            self._written[where] = text
            line.update(plain(text, lines=True), layout=heights[0] != heights[1])

    def _say(self, text: str) -> None:
        self._flash = text
        if self.is_attached:
            self._draw_status()
