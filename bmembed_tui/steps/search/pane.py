"""Step Search: type and see hits by every ranker, look inside, judge, see why each was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.widgets import Button, Input, OptionList

from bmembed_tui.client.run_state import RunState
from bmembed_tui.steps.search.filters import FilterRow
from bmembed_tui.steps.search.hit_actions import ANSWER_KEYS
from bmembed_tui.steps.search.hit_list import HitList, QueryInput, Results
from bmembed_tui.steps.search.model import ALL, NAMES
from bmembed_tui.steps.search.reranker import RerankerActions
from bmembed_tui.steps.search.search_as_you_type import DEBOUNCE, SERVER_PAUSE
from bmembed_tui.steps.search.view import KEYS
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.safe import SafeOptions
from engine.core.errors import EngineError
from engine.core.messages.project import ProjectStatus
from engine.core.messages.queries import ReadExamples
from engine.core.text import visible

AGAIN = 5.0  # seconds between two searches while documents are being embedded
# The actions that need an index, besides the choice of a mode.
NEED_INDEX = (
    "improve",
    "filters",
    "ask",
    "rerank",
    "choose_reranker",
)
SETTLE = 0.3  # seconds without a new answer before the judgments of its hits are read


class SearchPane(RerankerActions):
    """Searches while the user types, and moves between the search field, the modes and the hits."""

    step = "search"
    title = "Search"
    lead = "Type what you look for: words, or a question."
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(key, f"mode('{mode}')", NAMES[mode], show=False, id=f"search.{mode}")
            for mode, key in KEYS.items()
        ),
        Binding("w", "why", "why", id="search.why"),
        Binding("plus", "judge(True)", "right", key_display="+", id="search.relevant"),
        Binding("minus", "judge(False)", "wrong", key_display="-", id="search.not-relevant"),
        Binding("l", "like", "more like this", id="search.like"),
        Binding("g", "order('by_document')", "all passages", id="search.group"),
        Binding("d", "order('by_date')", "by date", id="search.date"),
        Binding("r", "rerank", "reranker on/off", id="search.rerank"),
        Binding("R", "choose_reranker", "choose a reranker", show=False, id="search.reranker"),
        Binding("f2", "improve", "make search better", id="search.improve"),
        Binding("f3", "everywhere", "all projects", id="search.everywhere"),
        Binding("f9", "filters", "filters", id="search.filters"),
        *ANSWER_KEYS,
        Binding("m", "next_mode", "next mode", show=False, id="search.mode"),
        Binding("slash", "focus_query", "type", show=False, id="search.query"),
        Binding("v", "preview", "look inside", show=False, id="search.preview"),
        Binding("0", "judge(None)", "remove the mark", show=False, id="search.unjudge"),
        Binding("o", "open_file", "open the file", show=False, id="search.open"),
        Binding("c", "copy_text", "copy the text", show=False, id="search.copy"),
        Binding("y", "copy_path", "copy the path", show=False, id="search.path"),
        Binding("f4", "take_suggestion", "take the correction", show=False, id="search.suggestion"),
    ]

    def on_mount(self) -> None:
        self.query_one(FilterRow).display = False
        self._draw_frame()
        self.set_interval(AGAIN, self._search_again)

    def enter(self) -> None:
        self._open(focus=True)

    def focus_primary(self) -> None:
        button = self.query_one("#primary")
        if button.display and not self.question.query:
            self.screen.set_focus(button)
        else:
            self.screen.set_focus(self.query_one(QueryInput))

    def take_character(self, character: str) -> bool:
        """Insert a character that was typed before the field had the focus.

        Also takes a letter that was typed while the button had the focus.
        """
        field = self.query_one(QueryInput)
        focused = self.screen.focused
        is_at_button = focused is self.query_one("#primary") and character.isalpha()
        if focused not in (None, field) and not is_at_button:
            return False
        field.focus()
        field.insert_text_at_cursor(character)
        return True

    def _open(self, *, focus: bool) -> None:
        """Prepare the step for a search. `focus`: whether to give it the focus, too."""
        self._set_usual_mode()
        self._draw_frame()
        if self.host.status.built("index"):
            self.searching.warm_up()
            self._load_examples()
            self.call_after_refresh(self._draw_modes)
        if focus:
            self.focus_primary()

    def on_resize(self, _event: events.Resize) -> None:
        self._draw_frame()

    def show_status(self, status: ProjectStatus) -> None:
        """Search again if what is searched has changed, or if the last search failed."""
        is_indexed = status.built("index")
        former_state = self._searched
        self._searched = {**former_state, "is indexed": is_indexed}
        for name in ("index", "embed"):
            stage = status.stage(name)
            # A stage that becomes stale keeps what it has built, and search goes on using that.
            if stage.state != "stale" or name not in former_state:
                self._searched[name] = stage.state, stage.fingerprint
        if self._searched != former_state:
            self._forget_hits()
            if is_indexed and self.host.pane is self:
                self._open(focus=self.screen.focused in (None, self.query_one("#primary")))
                self._search()
        elif is_indexed:
            answer = self.searching.answer(self.active)
            if answer and answer.error:
                self._search()  # the reason of the error may be gone
        self._draw_frame()
        self.refresh_bindings()

    def _forget_hits(self) -> None:
        """Forget what was found in an earlier state of the project."""
        if not self._has_semantic_hits(self.active):
            # There may be an encoder to load now; keyword search answers until it is loaded.
            self.searching.mark_encoder_lost()
        self.searching.forget()
        self._drawn.clear()

    def show_run(self, state: RunState) -> None:
        self._draw_nothing()
        self._draw_offer()

    def forget_engine(self) -> None:
        self.searching.mark_encoder_lost()
        self._draw_status()

    # Asking

    def _has_semantic_hits(self, mode: str) -> bool:
        return any("semantic" in hit.rankers for hit in self._lists[mode].hits)

    @property
    def _is_embedding(self) -> bool:
        return self.host.run_state.current == "embed"

    def _search_again(self) -> None:
        """Search again for hits by meaning while documents are being embedded."""
        modes = [mode for mode in self.visible_modes if mode != "bm25"]
        if not self._is_embedding or all(map(self._has_semantic_hits, modes)):
            return
        if not self.searching.question.empty and not self.searching.pending:
            self.searching.search(
                self.searching.question,
                self.mode,
                again=True,
            )

    def search_for(self, text: str) -> None:
        field = self.query_one(QueryInput)
        field.value = visible(text)
        field.cursor_position = len(field.value)
        self._set_usual_mode()
        self._search()

    @on(Input.Changed, "#search-query")
    @on(FilterRow.Changed)
    def _search_soon(self, event: Input.Changed | FilterRow.Changed) -> None:
        event.stop()
        pause = SERVER_PAUSE if self.host.status.asks_server else DEBOUNCE
        self._call_after_pause(
            "search",
            pause,
            self._search,
        )

    def _call_after_pause(
        self,
        name: str,
        seconds: float,
        call: Callable[[], None],
    ) -> None:
        """Call a function after a pause; a new call of the same name restarts the pause."""
        if name in self._delays:
            self._delays[name].stop()
        self._delays[name] = self.set_timer(seconds, call)

    def _search(self, *, again: bool = False) -> None:
        """Search for what is typed, unless the filters are wrong or there is no index.

        `again`: also in modes that have an answer.
        """
        question = self.question
        problem = question.filters.find_problem()
        self._problem = f"✗ {problem}" if problem else ""
        if problem:
            self._drop_hits()
        if problem or not self.host.status.built("index"):
            self._draw_status()
            return
        if question != self.searching.question:
            self.discard_messages()
        self.searching.search(
            question,
            self.mode,
            again=again,
        )
        if question.empty:
            self._clear()
        elif not self.query_one("#search-columns").display:
            self._draw_frame()
        self._draw_status()

    def _drop_hits(self) -> None:
        """Clear the lists, whose hits were found with other filters."""
        self.searching.forget()
        self._drawn.clear()
        for hit_list in self._lists.values():
            hit_list.show_hits((), {})
        self._draw_side()

    def _show_answer(self, mode: str) -> None:
        """Draw the new answer of a mode, and read the judgments of its hits soon."""
        if not self.is_attached:
            return
        self._draw_hits()
        self._show_side()
        self._draw_status()
        self._call_after_pause(
            "judgments",
            SETTLE,
            self._read_judgments,
        )

    def _read_judgments(self) -> None:
        if self.active_list.hits and not self.searching.question.empty:
            self.judgments.read(self.searching.question.query)

    @work(exclusive=True, group="offers")
    async def _load_examples(self) -> None:
        """Offer queries to try, once."""
        if self.offered:
            return
        try:
            examples = await self.ask(ReadExamples())
        except EngineError:
            return
        if self.is_attached:
            self.offered = examples
            lines = [(str(number), text) for number, text in enumerate(examples)]
            self.query_one("#search-offers", SafeOptions).show(lines)
            self._draw_frame()

    @on(OptionList.OptionSelected, "#search-offers")
    def _search_for_example(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.search_for(self.offered[event.option_index])
        self.active_list.focus()

    # Moving

    @on(Input.Submitted, "#search-query")
    def _go_to_hits(self, event: Input.Submitted) -> None:
        """Go to the hits on Enter; to the examples if nothing is typed."""
        event.stop()
        if not self.host.status.built("index"):
            self.host.make_searchable()
        elif not self.question.empty:
            self._search()
            self.active_list.focus()
        elif self.offered:
            self.query_one("#search-offers").focus()

    @on(ChoiceRow.Chosen)
    def _choose_mode(self, event: ChoiceRow.Chosen) -> None:
        event.stop()
        self.action_mode(event.value)

    @on(Results.Left)
    def action_focus_query(self) -> None:
        self.query_one(QueryInput).focus()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, HitList) and event.widget.mode != self.active:
            self.active = event.widget.mode
            self._draw_status()

    def action_mode(self, mode: str) -> None:
        """Switch to a mode, and search in it."""
        has_focus = isinstance(self.screen.focused, HitList)
        self.mode = mode
        if mode != ALL:
            self.active = mode
        self._draw_frame()
        for shown_mode in self.visible_modes:
            if shown_mode in self._drawn and self.searching.answer(shown_mode) is None:
                del self._drawn[shown_mode]
                self._lists[shown_mode].show_hits((), {})
        # While documents are embedded, former answers may be of an earlier state of the index.
        self._search(again=self._is_embedding)
        if not self.question.empty:
            self._show_answer(mode)
        if has_focus:
            self.active_list.focus()

    def action_order(self, name: str) -> None:
        """Switch the order `by_document` or `by_date`, and search again.

        `by_document`: the best passage of each document, else every passage. `by_date`: the newest
        hits first, else the best.
        """
        setattr(
            self,
            name,
            not getattr(self, name),
        )
        self._search()

    def action_like(self) -> None:
        """Search for hits that are like the document of this one."""
        hit = self._hit
        if hit is not None:
            self.search_for(f"like:{hit.id}")
            self._say(f"Documents like {hit.title or hit.path}")

    def action_take_suggestion(self) -> None:
        """Search for the query in the spelling of the documents."""
        answer = self.searching.answer(self.active)
        if answer and answer.suggestion:
            self.search_for(answer.suggestion)

    def action_next_mode(self) -> None:
        modes = list(KEYS)
        following = modes.index(self.mode) + 1
        self.action_mode(modes[following % len(modes)])

    def action_filters(self) -> None:
        """Show or hide the filters; hidden filters stay in effect."""
        row = self.query_one(FilterRow)
        row.display = not row.display
        if row.display:
            self.screen.set_focus(row.query(Input).first())
        else:
            self.screen.set_focus(self.query_one(QueryInput))
        self._search()

    @on(Button.Pressed, "#primary")
    def _build(self, event: Button.Pressed) -> None:
        event.stop()
        self.host.make_searchable()

    def action_everywhere(self) -> None:
        from bmembed_tui.steps.search.all_projects import AllProjectsScreen

        query = self.question.query
        if query.startswith("like:"):  # followed by the id of a document of this project
            query = ""
        self.app.push_screen(AllProjectsScreen(query))

    def action_improve(self) -> None:
        self.host.action_improve()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow searching only once there is an index."""
        if action in (*NEED_INDEX, "mode", "next_mode"):
            return self.is_attached and self.host.status.built("index")
        return super().check_action(action, parameters)
