"""Step Search: type and see hits, by every ranker; why each was found; look inside; judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.widgets import Button, Input, OptionList

from bmembed_tui.client.run_state import RunState
from bmembed_tui.steps.search import text as texts
from bmembed_tui.steps.search.actions import HitActions
from bmembed_tui.steps.search.facets import FacetList
from bmembed_tui.steps.search.filters import FilterRow
from bmembed_tui.steps.search.hit_list import HitList
from bmembed_tui.steps.search.mode_line import ModeLine
from bmembed_tui.steps.search.model import ALL, NAMES
from bmembed_tui.steps.search.view import KEYS, PLACES, Offers, QueryInput
from bmembed_tui.widgets.plain import visible
from bmembed_tui.widgets.safe import SafeOptions
from engine.core.errors import EngineError
from engine.core.messages.project import ProjectStatus
from engine.core.messages.queries import ReadQueries
from engine.core.messages.search import MODES

FILTERS = " (filters)"  # ends what is said of them
DEBOUNCE = 0.15  # seconds without a key before a search
SETTLE = 0.3  # seconds without an answer before the hits are explained


class SearchPane(HitActions):
    """Asks while the user types, and moves between the search field, the modes and the hits."""

    step = "search"
    title = "Search"
    lead = "Type what you look for: words, or a question."
    help_text = texts.HELP
    BINDINGS: ClassVar[list[BindingType]] = [
        *(
            Binding(KEYS[mode], f"mode('{mode}')", NAMES[mode], show=False, id=f"search.{mode}")
            for mode in (*MODES, ALL)
        ),
        Binding("f9", "filters", "filters", show=False, id="search.filters"),
        Binding("m", "next_mode", "next mode", show=False, id="search.mode"),
        Binding("slash", "focus_query", "type", show=False, id="search.query"),
        *HitActions.BINDINGS,
    ]

    def on_mount(self) -> None:
        self.query_one(FilterRow).display = False
        self.query_one("#search-notes").display = False
        for shown in self._lists:
            self.watch(shown, "cursor", self._draw_why, init=False)
        self._draw_frame()

    def entered(self) -> None:
        self._open(focus=True)

    def left(self) -> None:
        self._early = ""

    def typed(self, character: str) -> bool:
        """What was typed before the field had the focus stands in it. Before the project's status is known it is kept."""
        field, status = self.query_one(QueryInput), self.host.status
        if self.screen.focused not in (None, field):
            return False
        if not status.stages:
            self._early += "" if character.isdigit() else character  # digits go to the steps
            return not character.isdigit()
        if status.built("index"):
            field.insert_text_at_cursor(character)
        return status.built("index")

    def _open(self, *, focus: bool) -> None:
        if not self.mode:
            self.mode = self._usual_mode()
        self._draw_frame()
        if self.host.status.built("index"):
            self.searching.warm_up()
            self._offer()
            if focus:
                self.query_one(QueryInput).focus()
            self.query_one(QueryInput).insert_text_at_cursor(self._early)
            self._early = ""
            self.call_after_refresh(self._draw_modes)
        elif focus:
            self.focus_primary()

    def on_resize(self, _event: events.Resize) -> None:
        inside = isinstance(self.screen.focused, HitList)
        self._draw_frame()
        if not self.question.empty:
            self._draw_hits()
            if inside and not self.active_list.has_focus:
                self.active_list.focus()

    def show_status(self, status: ProjectStatus) -> None:
        there = status.built("index")
        built = (there, *(status.state(stage) for stage in ("index", "embed")))
        before, self._built = self._built, built
        if built != before:
            self.searching.forget()
            self.facts.forget()
            self._drawn.clear()
            if there and self.host.pane is self:
                self._open(focus=self.screen.focused is None or self in self.screen.focused.ancestors)
                self._look()
        self._draw_frame()

    def show_run(self, state: RunState) -> None:
        self._draw_button()

    def engine_ended(self) -> None:
        self.searching.lose()
        self._draw_status()
        self._draw_why()

    # Asking

    def search_for(self, text: str) -> None:
        field = self.query_one(QueryInput)
        field.value = visible(text)
        field.cursor_position = len(field.value)
        if not self.mode:
            self.mode = self._usual_mode()
        self._look()

    @on(Input.Changed, "#search-query")
    @on(FilterRow.Changed)
    def _typed(self, event: Input.Changed | FilterRow.Changed) -> None:
        event.stop()
        self._later("look", DEBOUNCE, self._look)

    def _later(self, name: str, seconds: float, call: Any) -> None:
        if name in self._delays:
            self._delays[name].stop()
        self._delays[name] = self.set_timer(seconds, call)

    def _look(self) -> None:
        question = self.question
        problem = question.filters.problem()
        self.query_one(FilterRow).show_problem(problem)
        if problem or not self.host.status.built("index"):
            if problem:
                self._say(f"✗ {problem}{FILTERS}")
            return
        if self.query_one("#search-columns").display == question.empty:
            self._draw_frame()
        if question != self.searching.question or self._flash.endswith(FILTERS):
            self._flash = ""
        self.searching.look(question, self.mode)
        if question.empty:
            self._clear()
        self._draw_status()
        self._draw_modes()

    def _answered(self, mode: str) -> None:
        if not self.is_attached:
            return
        self._draw_hits()
        self._draw_status()
        self._later("settle", SETTLE, self._settle)

    def _settle(self) -> None:
        rows = [hit.chunk_id for place in range(len(self._shown)) for hit in self._lists[place].hits]
        question = self.searching.question
        if rows and not question.empty:
            self.facts.settle(question.query, list(dict.fromkeys(rows)), encoder=self.searching.encoder == "ready")

    @work(exclusive=True, group="offers")
    async def _offer(self) -> None:
        if self._offered:
            return
        try:
            found = await self.ask(ReadQueries(limit=6, split="heldout"))
            rows = found.queries or (await self.ask(ReadQueries(limit=6))).queries
        except EngineError:
            return
        if self.is_attached:
            self._offered = tuple(dict.fromkeys(row.text for row in rows))
            self.query_one("#search-offers", SafeOptions).show([(str(n), text) for n, text in enumerate(self._offered)])
            self._draw_frame()

    @on(OptionList.OptionSelected, "#search-offers")
    def _offer_chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.search_for(self._offered[int(str(event.option_id))])
        self.active_list.focus()

    # Moving

    @on(Input.Submitted, "#search-query")
    @on(ModeLine.Done)
    @on(FacetList.Done)
    def _to_hits(self, event: Input.Submitted | ModeLine.Done | FacetList.Done) -> None:
        event.stop()
        offers = self.query_one("#search-offers", SafeOptions)
        if self.question.empty:
            if offers.display:
                offers.focus()
            return
        self._look()
        self.active_list.focus()

    @on(ModeLine.Chosen)
    def _mode_chosen(self, event: ModeLine.Chosen) -> None:
        event.stop()
        if event.value == "filters":
            self.action_filters()
        else:
            self.action_mode(event.value)

    @on(HitList.Left)
    @on(Offers.Left)
    def action_focus_query(self) -> None:
        self.query_one(QueryInput).focus()

    @on(HitList.Typed)
    def _type_on(self, event: HitList.Typed) -> None:
        event.stop()
        field = self.query_one(QueryInput)
        field.focus()
        field.insert_text_at_cursor(event.character)

    @on(HitList.Entered)
    def _list_entered(self, event: HitList.Entered) -> None:
        event.stop()
        place = next((place for place in PLACES if self.screen.focused is self._lists[place]), 0)
        if self.mode == ALL and self._wide and place != self.side:
            self.side = place
            self._draw_status()
        self._draw_why()

    @on(HitList.Sideways)
    def _sideways(self, event: HitList.Sideways) -> None:
        event.stop()
        if self.mode == ALL:
            self.side = (self.side + event.by) % len(MODES)
            if not self._wide:
                self._switched()
            self.active_list.focus()

    def action_mode(self, mode: str) -> None:
        inside = isinstance(self.screen.focused, HitList)
        if mode != ALL:
            self.side = MODES.index(mode)
        self.mode = mode
        self._switched()
        if inside:
            self.active_list.focus()

    def _switched(self) -> None:
        self._draw_frame()
        for place, mode in enumerate(self._shown):
            if self.searching.answer(mode) is None and self._drawn.pop(place, None) is not None:
                self._lists[place].show((), mode, {}, "searching …")
        self._look()
        if not self.question.empty:
            self._answered(self.mode)

    def action_next_mode(self) -> None:
        modes = (*MODES, ALL)
        self.action_mode(modes[(modes.index(self.mode or MODES[0]) + 1) % len(modes)])

    def action_filters(self) -> None:
        """Show or hide the filters; those that are set go on to count."""
        row = self.query_one(FilterRow)
        row.display = not row.display
        self._draw_frame()
        self._look()
        if row.display:
            row.query(Input).first().focus()
        else:
            self.query_one(QueryInput).focus()

    @on(Button.Pressed, "#primary")
    def _build(self, event: Button.Pressed) -> None:
        event.stop()
        self.host.start_run(("ingest", "index"))

    def palette_commands(self) -> Mapping[str, tuple[str, str]]:
        if not self.host.status.built("index"):
            return {}
        return texts.commands(self._hit is not None)
