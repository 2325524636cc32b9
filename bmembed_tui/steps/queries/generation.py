"""How queries are made: the source, a sample of it, and changes of the source on their way to project.toml."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Button

from bmembed_tui.client.engine_client import Ask, command
from bmembed_tui.steps.queries.sample import QuerySample
from bmembed_tui.steps.queries.source import QuerySource
from bmembed_tui.widgets.change_line import ChangeLine, answer_or_error, error_text
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.project import ReadSettings

SAMPLE_STATES = ("new", "stale", "made")  # where the documents have been read and no run goes on
IMPORTED = "✓ The file's queries were imported. The sample shows which passages they were joined to."
IMPORT_STALE = " The queries there are, and what was made of them, are stale now: the next run makes them again."


class QueryGeneration(Vertical):
    """`ask`: requests to the engine about the project in `project`. The owner says by `stand` where the queries stand.

    A sample is shown at once where it costs nothing (`new` queries, built-in), and after a change of the source. A server
    is used only when the user says so, for it gets the documents' text.
    """

    DEFAULT_CSS = """
    QueryGeneration { height: 1fr; }
    QueryGeneration #generation-scroll { height: 1fr; }
    QueryGeneration #sample-button { margin-left: 10; }
    QueryGeneration #generation-notes { height: auto; }
    """

    class Changed(Message):
        """The source was changed: the stages may stand elsewhere now."""

    def __init__(self, ask: Ask, project: Path, **options: Any) -> None:
        super().__init__(**options)
        self._ask, self._project = ask, project
        self._state, self._seen = "unknown", False
        self._backend, self._by_server = "", False
        self._sampled = self.sample_due = False
        self._notes = ""

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="generation-scroll", can_focus=False):
            yield QuerySource(self._project, id="source")
            yield SafeButton("Show a sample", id="sample-button")
            yield SafeStatic("", id="generation-notes")
            yield QuerySample(self._project, id="sample")
        yield ChangeLine(self._ask, id="queries-change")

    def set_state(self, state: str, *, seen: bool) -> None:
        self._state, self._seen = state, seen
        sample = self.query_one(QuerySample)
        self.query_one("#sample-button").display = state in SAMPLE_STATES and not (sample.sampling or sample.shown)

    def show_notes(self, text: Content) -> None:
        line = self.query_one("#generation-notes", SafeStatic)
        if text.plain != self._notes:
            self._notes = text.plain
            line.update(text)
        line.display = bool(self._notes)

    @property
    def sampling(self) -> bool:
        return self.query_one(QuerySample).sampling

    # What is set

    @work(exclusive=True, group="settings")
    async def load(self, *, anew: bool = False) -> None:
        """Read the settings. `anew`: what was typed and not used is forgotten."""
        if self.query_one(ChangeLine).waiting:
            return
        if found := await answer_or_error(self, self._ask(ReadSettings()), self.query_one(QuerySource).show_note):
            self._show_settings(found.settings["queries"], anew=anew)
            self._sample_if_due()

    def _show_settings(self, queries: Mapping[str, Any], *, anew: bool = False) -> None:
        self.query_one(QuerySource).show(queries, anew=anew)
        self._by_server = queries["backend"] == "endpoint" or (
            queries["backend"] == "auto" and bool(queries["endpoint"])
        )
        if queries["backend"] != self._backend:
            self._backend, self._sampled = str(queries["backend"]), False

    def leave(self) -> None:
        self.stop()
        self.query_one(ChangeLine).clear()

    # The sample

    def _sample_if_due(self) -> None:
        if not self._seen or self._state not in SAMPLE_STATES:
            return
        chosen, self.sample_due = self.sample_due, False
        free = self._state == "new" and self._backend == "extractive" and not self._sampled
        if free or (chosen and not self._by_server):
            self.sample()

    @on(Button.Pressed, "#sample-button")
    def sample(self) -> None:
        self._sampled = True
        self.query_one(QuerySample).begin()

    def stop(self) -> None:
        self.query_one(QuerySample).stop()

    # Changes

    @on(QuerySource.Wanted)
    def _wanted(self, event: QuerySource.Wanted) -> None:
        self.query_one(QuerySample).forget()
        self.query_one(ChangeLine).propose(event.changes)

    @on(QuerySource.Forgotten)
    def _forgotten(self) -> None:
        self.query_one(ChangeLine).clear()

    @on(ChangeLine.Written)
    def _written(self, event: ChangeLine.Written) -> None:
        self._show_settings(event.settings["queries"], anew=True)
        self._changed()

    @on(ChangeLine.Dropped)
    def _dropped(self) -> None:
        self.load(anew=True)

    def _changed(self) -> None:
        self.sample_due = True
        self.post_message(self.Changed())

    @on(QuerySource.Import)
    def _import_wanted(self, event: QuerySource.Import) -> None:
        self._import(event.file, event.backend)

    @work(exclusive=True, group="import")
    async def _import(self, file: str, backend: str) -> None:
        source = self.query_one(QuerySource)
        try:
            await command("import-queries", str(self._project), file)
        except EngineError as error:
            if self.is_attached:
                source.show_note(error_text(error))
            return
        if not self.is_attached:
            return
        stale = self._state in ("made", "stale") and self._backend in ("imported", "both")
        source.show_note(IMPORTED + IMPORT_STALE if stale else IMPORTED)
        self.query_one(QuerySample).forget()
        if backend != self._backend:
            self.query_one(ChangeLine).propose({"queries.backend": backend})
        else:
            self._changed()
