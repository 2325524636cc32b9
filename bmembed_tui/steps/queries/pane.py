"""Step Queries: where training queries come from, a sample of them, and the queries themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from bmembed_tui.client.project_status import STAGES
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.queries.prompts import PromptsDialog, read_prompts
from bmembed_tui.steps.queries.query_list import QueryList
from bmembed_tui.steps.queries.sample import QuerySample
from bmembed_tui.steps.queries.source import SAMPLE_STATES, QuerySource
from bmembed_tui.steps.queries.text import (
    OWN_STAGES,
    find_queries_state,
    format_generation,
    format_state,
)
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import ProjectStatus

READING_STAGES = ("ingest", "index")
# By the state of the queries: the label of the first button, and the other buttons.
PRIMARY_LABELS = {
    "unknown": "Continue",
    "unread": "Read the documents first",
    "new": "Generate the queries and go on",
    "stale": "Generate the queries and go on",
    "running": "Working …",
    "busy": "Continue",
    "made": "Continue",
}
BUTTONS = {
    "new": ("only",),
    "stale": ("only",),
    "running": ("pause", "stop"),
    "made": ("again",),
}


class QueriesPane(StepPane):
    """The pane of step Queries."""

    step = "queries"
    title = "Queries"
    lead = "Questions that your documents answer: the encoder learns from them."
    buttons: ClassVar[dict[str, str]] = {
        "primary": "Continue",
        "only": "Only generate",
        "again": "Generate again",
        "pause": "Pause",
        "stop": "Stop",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sample", "sample", id="queries.sample"),
        Binding("e", "edit", "edit", id="queries.edit"),
        Binding("x,delete", "delete", "delete", id="queries.delete"),
        Binding("p", "prompts", "prompts", show=False, id="queries.prompts"),
        Binding("slash", "find", "find", show=False, id="queries.find"),
        Binding("escape", "stop_sample", "stop the sample", show=False, id="queries.stop-sample"),
    ]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.state = "unknown"  # as `find_queries_state` returns it
        self._view = ""  # the user's choice, table or source; empty: the table, if there is one
        self._drawn_keys: tuple[object, ...] = ()  # what the keys that work depend on

    def compose_body(self) -> ComposeResult:
        yield SafeStatic("", id="queries-state")
        views = (("table", "the queries"), ("source", "how they are made"))
        yield ChoiceRow(
            "Show",
            views,
            "source",
            id="queries-view",
        )
        yield QuerySource(
            self.ask,
            self.host.project.path,
            id="queries-source",
        )
        yield QueryList(self.ask, id="queries-list")

    # Hooks

    def enter(self) -> None:
        self.draw()
        super().enter()
        self.load(discard_typed=True)

    def leave(self) -> None:
        self.query_one(QuerySource).leave()

    def show_status(self, status: ProjectStatus) -> None:
        self.draw()
        if self.host.pane is self:
            self.load()

    # Drawing

    @on(QuerySample.Changed)
    def draw(self) -> None:
        """Draw the state, the chosen view and the buttons."""
        status = self.host.status
        run = self.host.run_state
        former_state = self.state
        self.state = find_queries_state(
            status,
            run,
            self.host.is_busy,
        )
        has_ended = former_state == "running" and self.state != "running"
        if has_ended:
            self._view = ""
        text = format_state(
            self.state,
            status,
            run,
        )
        line = self.query_one("#queries-state", SafeStatic)
        line.display = bool(text.plain)
        line.update(text)
        self._draw_view(has_queries=bool(status.counts.get("queries")))
        self._draw_buttons(run.paused)
        if has_ended and self.screen.focused is None and self.host.pane is self:
            self.focus_primary()

    def _draw_view(self, *, has_queries: bool) -> None:
        """Show the table of queries, or where queries come from."""
        shows_table = has_queries and self._view != "source"
        row = self.query_one("#queries-view", ChoiceRow)
        row.display = has_queries
        row.show("table" if shows_table else "source")
        self.query_one("#queries-list").display = shows_table
        source = self.query_one(QuerySource)
        source.display = not shows_table
        report = format_generation(self.host.run_state, self.host.history)
        is_visible = not shows_table and self.host.pane is self
        source.set_state(
            self.state,
            report,
            is_visible=is_visible,
        )
        drawn_keys = (
            self.state,
            shows_table,
            source.sampling,
        )
        if drawn_keys != self._drawn_keys:
            self._drawn_keys = drawn_keys
            self.refresh_bindings()

    def _draw_buttons(self, is_paused: bool) -> None:
        """Label the first button, and show the others that the state allows."""
        primary = self.query_one("#primary", SafeButton)
        primary.label = PRIMARY_LABELS[self.state]
        primary.disabled = self.state == "running"
        buttons = BUTTONS.get(self.state, ())
        for name in ("only", "again"):
            self.query_one(f"#{name}").display = name in buttons
        for name in ("pause", "stop"):
            self.query_one(f"#{name}").display = name in buttons and self.host.has_run
        self.query_one("#pause", SafeButton).label = "Resume" if is_paused else "Pause"

    @property
    def _shows_table(self) -> bool:
        return bool(self.query_one("#queries-list").display)

    def load(self, *, discard_typed: bool = False) -> None:
        """Read what is shown. `discard_typed`: forget what was typed and not used."""
        if self._shows_table:
            self.query_one(QueryList).read()
        self.query_one(QuerySource).load(discard_typed=discard_typed)

    # The source of the queries

    def action_sample(self) -> None:
        self._view = "source"
        self.draw()
        self.query_one(QuerySource).sample()

    def action_prompts(self) -> None:
        try:
            text = read_prompts(self.host.project.settings().queries)
        except EngineError as error:
            self.host.show_error(error)
            return
        self.app.push_screen(PromptsDialog(text))

    def action_stop_sample(self) -> None:
        self.query_one(QuerySource).stop()

    @on(QuerySource.Changed)
    def _show_source(self) -> None:
        self._view = "source"
        self.host.load()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "stop_sample":
            return self.is_attached and self.query_one(QuerySource).sampling
        if action == "sample":
            return self.state in SAMPLE_STATES and not self.query_one(QuerySource).sampling
        if action in ("edit", "find", "delete") and not (self.is_attached and self._shows_table):
            return False
        if action == "delete":
            # During a run nothing can be deleted. Outside of the table, the key may have another
            # meaning.
            is_in_table = self.query_one(QueryList).table is self.screen.focused
            return is_in_table and self.state not in ("running", "busy")
        return super().check_action(action, parameters)

    @on(ChoiceRow.Chosen, "#queries-view")
    def _choose_view(self, event: ChoiceRow.Chosen) -> None:
        self._view = event.value
        self.draw()
        self.load()

    # The queries

    def action_find(self) -> None:
        self.query_one(QueryList).find()

    def action_edit(self) -> None:
        self.query_one(QueryList).edit()

    def action_delete(self) -> None:
        self.query_one(QueryList).delete()

    @on(QueryList.Changed)
    def _notify_change(self, event: QueryList.Changed) -> None:
        self.notify(event.text, markup=False)
        self.host.load()

    @on(QueryList.Refused)
    def _show_refusal(self, event: QueryList.Refused) -> None:
        self.host.show_error(event.error)

    # Runs

    def _start(
        self,
        stages: Sequence[str],
        *,
        follow: bool = False,
        force: bool = False,
    ) -> None:
        self.action_stop_sample()
        self.host.start_run(
            stages,
            follow=follow,
            force=force,
        )

    def action_primary(self) -> None:
        if self.state == "unread":
            self._start(READING_STAGES)
        elif self.state in ("new", "stale"):
            self._start(STAGES, follow=True)
        else:
            self.host.go("index")

    def action_only(self) -> None:
        self._start(OWN_STAGES)

    def action_again(self) -> None:
        self._start(("generate",), force=True)

    def action_pause(self) -> None:
        self.host.control("resume" if self.host.run_state.paused else "pause")

    def action_stop(self) -> None:
        self.host.control("cancel")
