"""Step Index: the BM25 index and the rankings mined with it; a field to try it at once."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Input

from bmembed_tui.client.engine_client import SupersededError
from bmembed_tui.client.in_app import advice
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.index.text import HEAD, SHOWN, Facts, format_hits, format_status, index_size
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.hanging import HangingStatic
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import ProjectStatus, ReadSettings
from engine.core.messages.search import Search

STAGES = ("ingest", "index", "generate", "rank")
QUIET_SECONDS = 0.1  # of quiet typing before it is searched
SERIES = "try-bm25"


class IndexPane(StepPane):
    """Facts about index and rankings, progress, and a search by BM25."""

    step = "index"
    title = "Index"
    lead = "BM25: search by exact words. The encoder's teacher."
    help_text = """BM25 is the classic way to search: a chunk is found by the words of the query, and rare words count more. Words \
are reduced to their stems in the language of the documents, so that "doors" finds "door".

Rankings: every training query is looked up once, and its best k chunks are kept. The encoder learns from these lists.

Try BM25: type words; the first hits are shown as you type, the matched words marked. It works as soon as the index is built, \
also while later stages are at work. The step Search can do more.

A change of the documents needs only what changed to be indexed again."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("t", "try", "try BM25", id="index.try")]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._facts = Facts()

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="index-body"):
            yield HangingStatic(id="index-status")
            with Horizontal(id="index-try"):
                yield SafeLabel("Try BM25")
                yield Field(placeholder="words of your documents", id="index-query")
            yield SafeStatic("", id="index-hits")

    def compose_buttons(self) -> ComposeResult:
        yield SafeButton("Build", id="primary", variant="primary")

    def show_status(self, status: ProjectStatus) -> None:
        self.draw()
        if status.built("index"):
            self.load_facts()

    @work(exclusive=True, group="facts")
    async def load_facts(self) -> None:
        size = await asyncio.to_thread(index_size, self.host.project.path)
        self._facts = Facts(size, self._facts.settings, self._facts.preset)
        try:
            found = await self.ask(ReadSettings())
            self._facts = Facts(size, found.settings, found.preset)
        except EngineError:
            pass  # the project's problem is shown with its status
        if self.is_attached:
            self.draw()

    def draw(self) -> None:
        if not self.query("#primary"):
            return  # called while the screen is being left
        host = self.host
        text = format_status(host.status, host.run_state, host.history, self._facts)
        self.query_one("#index-status", HangingStatic).show(text, HEAD if host.status.built("index") else 0)
        self.query_one("#index-try").display = host.status.built("index")
        label = "Running …" if host.going else "Continue" if host.status.done("index", "rank") else "Build"
        self.query_one("#primary", SafeButton).label = label

    # Doing

    def action_primary(self) -> None:
        if self.host.going:
            self.notify("It is at work. The step goes on by itself.", markup=False)
        elif self.host.status.done("index", "rank"):
            self.host.go("train")
        else:
            self.host.start_run(STAGES, follow=False)

    @on(Input.Changed, "#index-query")
    @on(Input.Submitted, "#index-query")
    def _typed(self, event: Input.Changed | Input.Submitted) -> None:
        self.search(event.value)

    @work(exclusive=True, group="try")
    async def search(self, query: str) -> None:
        shown = self.query_one("#index-hits", SafeStatic)
        if not query.strip():
            shown.update("")
            return
        await asyncio.sleep(QUIET_SECONDS)
        try:
            content = format_hits(await self.ask(Search(query, "bm25", SHOWN, series=SERIES)))
        except SupersededError:
            return
        except EngineError as error:
            content = plain(f"{error.what} {advice(error)}".strip(), "$text-error")
        if self.is_attached:
            shown.update(content)

    def action_try(self) -> None:
        if self.host.status.built("index"):
            self.query_one("#index-query").focus()
