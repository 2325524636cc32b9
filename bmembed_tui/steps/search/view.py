"""The widgets of step Search, and how they are drawn from the question and the answers."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.timer import Timer
from textual.worker import WorkType

from bmembed_tui.dialogs.help import format_key
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
from bmembed_tui.widgets.text_rows import find_line_cuts
from engine.core.errors import EngineError
from engine.core.messages.search import MODES, Hit

WIDE = 116  # columns of the terminal from which three lists are shown side by side
SIDE = 92  # columns of the step from which the document is shown next to the hits
TALL = 32  # lines of the terminal from which there is room for an introduction
KEYS = {
    "hybrid": "f5",
    "semantic": "f6",
    "bm25": "f7",
    ALL: "f8",
}


class SearchView(StepPane):
    """The search field, the modes, the filters, and the hits of one mode or of all side by side."""

    def __init__(self, **options: str) -> None:
        super().__init__(id=options.get("id"))
        self.searching = Searching(
            self.ask,
            self._start,
            self._show_answer,
        )
        self.judgments = Judgments(
            self.ask,
            self._start,
            self._show_judgments,
        )
        self.mode = ""
        self.active: str = MODES[0]
        self.by_document = True
        self.by_date = False
        self.offered: tuple[str, ...] = ()
        self._lists: dict[str, HitList] = {mode: HitList(mode) for mode in MODES}
        self._heads: dict[str, SafeStatic] = {
            mode: SafeStatic("", classes="search-head") for mode in MODES
        }
        self._drawn: dict[str, Answer] = {}  # by mode, the answer whose hits are shown
        self._flash = ""  # the message of the last action
        self._problem = ""  # what is wrong with the filters
        self._written: dict[str, str] = {}  # by a widget's selector, the text that it shows
        self._delays: dict[str, Timer] = {}  # by the name of the delayed call
        self._searched: dict[str, object] = {}  # by name, the state of what is searched

    # Widgets

    def compose_body(self) -> ComposeResult:
        yield QueryInput(placeholder="words or a question", id="search-query")
        with Vertical(id="search-nothing"):
            yield SafeStatic("", id="search-nothing-text")
            yield SafeButton(
                "Read the documents",
                id="primary",
                variant="primary",
            )
        with Vertical(id="search-all"):
            yield ChoiceRow(
                "",
                (),
                id="search-modes",
            )
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
        """Start work in a named group, and cancel what is still in progress in that group."""
        self.run_worker(
            work,
            group=group,
            exclusive=True,
        )

    def _show_answer(self, mode: str) -> None:
        """Show the new answer of a mode."""

    def _show_judgments(self) -> None:
        if self.is_attached:
            for hit_list in self._lists.values():
                hit_list.show_judgments(self.judgments.judged)

    def _set_usual_mode(self) -> None:
        """Search in the project's own mode, unless the user has chosen one."""
        try:
            settings = self.host.project.settings()
            self.mode = self.mode or settings.search.mode_in_json
            asks_server = settings.search.reranker.startswith("http")
            self.searching.rerank_pause = SERVER_PAUSE if asks_server else 0.0
        except EngineError:
            self.mode = MODES[0]
        if self.mode != ALL:
            self.active = self.mode

    @property
    def question(self) -> Question:
        """The query, the filters and the order on the screen."""
        row = self.query_one(FilterRow)
        return Question(
            self.query_one(QueryInput).value,
            row.filters,
            facets=row.display,
            by_document=self.by_document,
            by_date=self.by_date,
        )

    # Drawing

    @property
    def visible_modes(self) -> tuple[str, ...]:
        """The modes whose hits are on the screen."""
        return MODES if self.mode == ALL else (self.active,)

    @property
    def active_list(self) -> HitList:
        return self._lists[self.active]

    @property
    def _hit(self) -> Hit | None:
        return self.active_list.current

    def _draw_frame(self) -> None:
        """Draw everything but the hits: which parts are visible, and the lines above the hits."""
        is_indexed = self.host.status.built("index")
        is_empty = self.question.empty
        is_narrow = self.app.size.width < WIDE
        self.set_class(self.app.size.height < TALL, "low")
        self.set_class(self.mode == ALL, "all")
        self.set_class(is_narrow, "narrow")
        for hit_list in self._lists.values():
            hit_list.set_titles_alone(is_narrow and self.mode == ALL)
        self.query_one("#search-nothing").display = not is_indexed
        self._draw_nothing()
        self.query_one("#search-all").display = is_indexed
        self.query_one("#search-columns").display = not is_empty
        hint = ""
        if is_empty:
            hint = texts.OFFER if self.offered else texts.NO_OFFER
        self._write("#search-hint", hint)
        self.query_one("#search-offers").display = is_empty and bool(self.offered)
        for mode in MODES:
            self.query_one(f"#column-{mode}").display = mode in self.visible_modes
        self._draw_side()
        self._draw_offer()
        self._draw_modes()
        self._draw_status()

    def _draw_side(self) -> None:
        has_room = self.mode != ALL and self.size.width >= SIDE
        self.query_one(SidePreview).display = has_room and bool(self.active_list.hits)

    def _draw_nothing(self) -> None:
        """Draw what is shown before anything can be searched: how to begin, or how far a run is."""
        is_busy = self.host.is_busy
        self._write("#search-nothing-text", texts.format_nothing(self.host.run_state, is_busy))
        button = self.query_one("#primary")
        button.display = not (is_busy or self.host.status.built("index"))
        if is_busy and button.has_focus:
            self.query_one(QueryInput).focus()

    def _draw_offer(self) -> None:
        """Draw what search lacks and which key adds it; during a run, how far embedding is."""
        offer = ""
        if self.host.is_busy:
            is_first = not self.host.status.built("embed")
            offer = texts.format_embedding(self.host.run_state, is_first=is_first)
        elif self.question.empty:
            key = format_key(self._list_keys().get("search.improve", "f2"))
            offer = texts.format_offer(self.host.status, key)
        self._write("#search-improve", offer)

    def _list_keys(self) -> dict[str | None, str]:
        """Return the id of each binding that works at present → its key."""
        return {active.binding.id: key for key, active in self.screen.active_bindings.items()}

    def _draw_modes(self) -> None:
        """Draw the modes, each with its key."""
        choices = []
        keys = self._list_keys()
        for mode, default in KEYS.items():
            key = format_key(keys.get(f"search.{mode}", default))
            choices.append((mode, f"{key} {NAMES[mode]}"))
        self.query_one(ChoiceRow).show(self.mode, choices)

    def _clear(self) -> None:
        """Remove all hits, for an empty query."""
        self._drawn.clear()
        for hit_list in self._lists.values():
            hit_list.show_hits((), {})
        self.query_one(FilterRow).show_counts({})
        self._draw_frame()

    def _draw_hits(self) -> None:
        """Draw the answers that are new, the document next to them, and the counts."""
        for mode in self.visible_modes:
            answer = self.searching.answer(mode)
            if answer is not None and answer is not self._drawn.get(mode):
                self._drawn[mode] = answer
                self._draw_answer(mode, answer)
        self._draw_side()
        answer = self.searching.answer(self.active)
        if answer is not None and answer.question.facets:
            self.query_one(FilterRow).show_counts(answer.facets)

    def _draw_answer(self, mode: str, answer: Answer) -> None:
        """Draw the hits of an answer, or why there are none."""
        self.judgments.select(answer.question.query)
        is_first_embedding = self.host.is_busy and not self.host.status.built("embed")
        is_pending = mode in self.searching.pending
        follows = mode != "bm25" and (is_first_embedding or is_pending)
        message = answer.error or texts.format_no_hits(answer, by_meaning_follows=follows)
        self._lists[mode].show_hits(
            answer.hits,
            self.judgments.judged,
            message,
        )

    def _draw_status(self) -> None:
        """Draw what each search found, or a message in place of that."""
        has_heads = self.mode == ALL
        for mode in self.visible_modes:
            head = self._heads[mode]
            head.display = has_heads
            if has_heads:
                style = "bold underline" if mode == self.active else "bold"
                status = plain(f"  {texts.format_status(mode, self.searching)}")
                head.update(Content.assemble(plain(NAMES[mode], style), status), layout=False)
        status_text = ""
        if not has_heads or self.question.empty:
            status_text = texts.format_status(self.active, self.searching)
        self._write(
            "#search-status",
            self._problem or self._flash or status_text,
            keep=True,
        )
        self._write("#search-notes", self._format_note())

    def _format_note(self) -> str:
        """Return the answer's note, unless a line on embedding says the same."""
        answer = self.searching.answer(self.active)
        if answer is None or not answer.hits or not answer.note:
            return ""
        if self.host.run_state.current == "embed":
            return ""
        return f"! {answer.note}"

    def _write(
        self,
        selector: str,
        text: str,
        *,
        keep: bool = False,
    ) -> None:
        """Write a text to the widget of `selector`; lay it out again only if its height changes.

        `keep`: show the line even if its text is empty.
        """
        line = self.query_one(selector, SafeStatic)
        former_text = self._written.get(selector, "")
        width = line.size.width
        is_resized = len(find_line_cuts(former_text, width)) != len(find_line_cuts(text, width))
        line.display = keep or bool(text)
        if text != self._written.get(selector):
            self._written[selector] = text
            line.update(plain(text, lines=True), layout=is_resized)

    def _say(self, text: str) -> None:
        """Show a message in place of the status, until the next question."""
        self._flash = text
        if self.is_attached:
            self._draw_status()
