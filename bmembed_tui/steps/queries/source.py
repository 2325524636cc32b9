"""Where training queries come from: the backend with its settings, and a sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Input

from bmembed_tui.client.engine_client import Ask, run_command
from bmembed_tui.steps.queries.models import find_models, format_model, format_models_note
from bmembed_tui.steps.queries.sample import QuerySample
from bmembed_tui.widgets.change_line import ChangeLine, await_or_show_error
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.fields import Field, PathField
from bmembed_tui.widgets.model_fetcher import ModelFetcher
from bmembed_tui.widgets.model_list import ModelList
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeStatic
from engine.core.extras import describe_missing
from engine.core.messages.project import ReadSettings
from engine.core.text import visible
from engine.settings.load import validate
from engine.settings.schema import QuerySettings

BACKENDS = (
    ("extractive", "built-in"),
    ("gguf", "GGUF file"),
    ("endpoint", "server"),
    ("imported", "imported"),
    ("both", "built-in and imported"),
    ("auto", "automatic"),
)
MEANINGS = {
    "extractive": (
        "From the documents' own sentences, in seconds to minutes. Works offline, without a model."
    ),
    "gguf": (
        "Written by a language model in a file on this machine: better questions, but hours of work"
        " without a GPU. Works offline."
    ),
    "endpoint": (
        "Written by a language model on a server of yours (llama.cpp, vLLM, Ollama …), which gets"
        " the documents' text. Addresses outside private networks are refused."
    ),
    "imported": (
        "Your own questions, such as those of a search log: JSON lines with query and evidence, the"
        " passage that answers it. Works offline."
    ),
    "both": "Built-in queries and your own together. Works offline.",
    "auto": (
        "The server or the GGUF file that is named; else a model that 'engine models add' has"
        " added; else the documents' own sentences. The run shows which, and why."
    ),
}
# What to do where a backend lacks a value.
NEEDS = {
    "gguf": "Type the path of a GGUF file, then Enter; or take one of those on this machine.",
    "endpoint": "Type the server's address, such as http://127.0.0.1:8080/v1, then Enter.",
    "imported": "Type the path of a file with queries, then Enter imports it.",
    "both": "Type the path of a file with queries, then Enter imports it.",
}
SAMPLE_STATES = ("new", "stale", "made")  # the documents are read, and no run is in progress
IMPORTED = (
    "✓ The file's queries were imported. The sample shows which passages they were joined to."
)
IMPORT_STALE = (
    " The present queries, and what was made from them, are out of date: the next run makes them"
    " again."
)


class QuerySource(Vertical):
    """Shows and changes the section [queries] of the project's settings.

    `ask`: sends requests to the engine. The pane calls `set_state` when the state of the queries
    changes. If no queries were made yet, a first sample is made at once where it needs no language
    model. A server is used only when the user says so, because it gets the documents' text.
    """

    class Changed(Message):
        """The source was changed, which may change the states of the stages."""

    def __init__(
        self,
        ask: Ask,
        project: Path,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._ask = ask
        self._project = project
        self._queries: QuerySettings | None = None
        self._state = "unknown"
        self._is_visible = False
        self._was_sampled = False  # whether a sample was begun since the project was opened
        self._fetcher = ModelFetcher(self, self.show_note)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="source-scroll", can_focus=False):
            yield ChoiceRow(
                "Made by",
                BACKENDS,
                id="source-backend",
            )
            yield SafeStatic(
                "",
                id="source-meaning",
                classes="source-note",
            )
            with Horizontal(classes="source-row for-gguf"):
                yield SafeLabel("GGUF file")
                yield PathField(
                    files=True,
                    placeholder="/path/to/model.gguf",
                    id="source-gguf",
                )
                yield SafeButton("Use", id="use-gguf")
            yield ModelList(
                format_model,
                format_models_note,
                id="source-models",
            )
            with Horizontal(classes="source-row for-endpoint"):
                yield SafeLabel("Address")
                yield Field(placeholder="http://127.0.0.1:8080/v1", id="source-endpoint")
            with Horizontal(classes="source-row for-endpoint"):
                yield SafeLabel("Its model")
                yield Field(placeholder="empty where it has one only", id="source-endpoint-model")
                yield SafeButton("Use", id="use-endpoint")
            with Horizontal(classes="source-row for-imported for-both"):
                yield SafeLabel("File")
                yield PathField(
                    files=True, placeholder="/path/to/queries.jsonl", id="source-import"
                )
                yield SafeButton("Import", id="use-imported")
            yield SafeStatic(
                "",
                id="source-note",
                classes="source-note",
            )
            yield SafeButton("Show a sample", id="sample-button")
            yield SafeStatic("", id="source-report")
            yield QuerySample(self._project, id="sample")
        yield ChangeLine(self._ask, id="queries-change")

    def on_mount(self) -> None:
        self._show_backend("extractive")

    # Settings

    @work(exclusive=True, group="settings")
    async def load(self, *, discard_typed: bool = False) -> None:
        """Read the settings.

        Fields whose settings did not change keep what was typed, unless `discard_typed`.
        """
        if self.query_one(ChangeLine).waiting:
            return
        answer = await await_or_show_error(
            self,
            self._ask(ReadSettings()),
            self.show_note,
        )
        queries = self._queries
        if answer is not None:
            queries = validate(answer.settings).queries
        if queries is not None and (discard_typed or queries != self._queries):
            self._show(queries)
        self._sample_at_first()

    def _show(self, queries: QuerySettings) -> None:
        """Show the settings in the fields."""
        self._queries = queries
        self.query_one(ChoiceRow).show(queries.backend)
        if queries.model:
            self.query_one("#source-gguf", PathField).pick(Path(queries.model))
        self.query_one("#source-endpoint", Field).value = visible(queries.endpoint)
        self.query_one("#source-endpoint-model", Field).value = visible(queries.endpoint_model)
        self._show_backend(queries.backend)

    @property
    def _backend(self) -> str:
        """The backend that is set; empty before the settings are read."""
        return self._queries.backend if self._queries else ""

    def _show_backend(self, backend: str) -> None:
        """Show what a backend does, its fields, and what it lacks."""
        missing = ""
        if backend == "gguf":
            missing = describe_missing("llm")
        for row in self.query(".source-row"):
            row.display = row.has_class(f"for-{backend}") and not missing
        models = self.query_one(ModelList)
        shows_models = backend == "gguf" and not missing
        if shows_models and not models.display:
            context = (self._queries or QuerySettings()).context_tokens
            models.find(find_models(context))
        models.display = shows_models
        meaning = plain(MEANINGS.get(backend, ""), "$text-muted")
        self.query_one("#source-meaning", SafeStatic).update(meaning)
        if missing:
            self.show_note(f"✗ {missing}. The other sources do not need it.")
        elif backend in ("imported", "both"):
            self.show_note(self._format_imports())
        else:
            self.show_note("")

    def show_note(self, text: Content | str) -> None:
        """Show a line under the fields: what is needed, what was done, or what went wrong."""
        note = self.query_one("#source-note", SafeStatic)
        note.update(text)
        note.display = bool(str(text))

    @property
    def imported_files(self) -> int:
        """The number of imported files with queries; 0 where the folder cannot be read."""
        try:
            return len(list((self._project / "imports").glob("queries-*.jsonl")))
        except OSError:
            return 0

    def _format_imports(self) -> str:
        """Return how many files were imported so far; empty for none."""
        count = self.imported_files
        if not count:
            return ""
        if count == 1:
            return "✓ 1 file was imported so far."
        return f"✓ {count} files were imported so far."

    # The sample

    def set_state(
        self,
        state: str,
        report: Content,
        *,
        is_visible: bool,
    ) -> None:
        """Set how far the queries are, and show what the stage reports.

        `is_visible`: whether this widget is on the screen.
        """
        self._state = state
        self._is_visible = is_visible
        sample = self.query_one(QuerySample)
        has_sample = sample.sampling or sample.shown
        self.query_one("#sample-button").display = state in SAMPLE_STATES and not has_sample
        line = self.query_one("#source-report", SafeStatic)
        line.display = bool(report.plain)
        line.update(report)
        self._sample_at_first()

    def _sample_at_first(self) -> None:
        """Make the first sample of new queries at once, if that needs no model."""
        is_free = self._backend == "extractive"
        if self._is_visible and self._state == "new" and is_free and not self._was_sampled:
            self.sample()

    @property
    def sampling(self) -> bool:
        return self.query_one(QuerySample).sampling

    @on(Button.Pressed, "#sample-button")
    def sample(self) -> None:
        self._was_sampled = True
        self.query_one(QuerySample).begin()

    def stop(self) -> None:
        self.query_one(QuerySample).stop()

    def leave(self) -> None:
        self.stop()
        self.query_one(ChangeLine).clear()

    # Choosing

    @on(ChoiceRow.Chosen)
    def _choose_backend(self, event: ChoiceRow.Chosen) -> None:
        """Propose the chosen backend, or ask for the value that it needs."""
        backend = event.value
        self._show_backend(backend)
        if backend == "gguf" and describe_missing("llm"):
            self.query_one(ChangeLine).clear()
        elif self._lacks(backend):
            self.query_one(ChangeLine).clear()
            self.show_note(NEEDS[backend])
            self.query(f".for-{backend} Input").first().focus()
        else:
            self._propose(backend, {})

    def _lacks(self, backend: str) -> bool:
        """Return whether the backend needs a value that was not given yet."""
        if backend in ("imported", "both"):
            return not self.imported_files
        if backend in ("gguf", "endpoint"):
            return not self.query_one(f"#source-{backend}", Input).value.strip()
        return False

    def _propose(self, backend: str, settings: Mapping[str, Any]) -> None:
        """Propose those settings, and the backend, whose values differ from the present ones."""
        changes = {}
        for key, value in {"queries.backend": backend, **settings}.items():
            if value != getattr(self._queries, key.removeprefix("queries."), None):
                changes[key] = value
        if changes:
            self.query_one(QuerySample).forget()
            self.query_one(ChangeLine).propose(changes)
        else:
            self.query_one(ChangeLine).clear()

    @on(Input.Submitted, "#source-gguf")
    @on(Button.Pressed, "#use-gguf")
    def _use_gguf(self) -> None:
        path = _read_path_setting(self.query_one("#source-gguf", PathField))
        self._use("gguf", {"queries.model": path})

    def _use(self, backend: str, settings: Mapping[str, Any]) -> None:
        """Propose the backend with its settings, or say what it still needs."""
        if self._lacks(backend):
            self.show_note(f"✗ {NEEDS[backend]}")
        else:
            self.show_note("")
            self._propose(backend, settings)

    @on(ModelList.Chosen)
    def _use_model(self, event: ModelList.Chosen) -> None:
        """Propose the chosen model; fetch one of the catalogue when it is chosen twice."""
        if not event.model.here:
            if self._fetcher.confirm(event.model.name, event.model.size):
                self.fetch(event.model.name, event.model.size)
            return
        self._fetcher.forget()
        if event.model.problem:
            self.show_note(f"✗ {event.model.path.name}: {event.model.problem}")
        else:
            self.query_one("#source-gguf", PathField).pick(event.model.path)
            self._use("gguf", {"queries.model": str(event.model.path)})

    @work(exclusive=True, group="fetch")
    async def fetch(self, name: str, size: int) -> None:
        """Fetch a language model, and use it when it is here."""
        changed = await self._fetcher.fetch(name, size)
        if changed is not None:
            self.query_one("#source-gguf", PathField).pick(changed.path)
            self._use("gguf", {"queries.model": str(changed.path)})

    @on(Input.Submitted, "#source-endpoint")
    def _go_to_model_name(self) -> None:
        self.query_one("#source-endpoint-model").focus()

    @on(Input.Submitted, "#source-endpoint-model")
    @on(Button.Pressed, "#use-endpoint")
    def _use_endpoint(self) -> None:
        """Propose the server that was typed."""
        settings = {
            "queries.endpoint": self.query_one("#source-endpoint", Input).value.strip(),
            "queries.endpoint_model": self.query_one("#source-endpoint-model", Input).value.strip(),
        }
        self._use("endpoint", settings)

    @on(ChangeLine.Written)
    def _show_written(self, event: ChangeLine.Written) -> None:
        self._show(validate(event.settings).queries)
        self.post_message(self.Changed())

    @on(ChangeLine.Dropped)
    def _revert(self) -> None:
        self.load(discard_typed=True)

    @on(Input.Submitted, "#source-import")
    @on(Button.Pressed, "#use-imported")
    def _import(self) -> None:
        """Import the file that was typed."""
        path = self.query_one("#source-import", PathField).path
        if path is None:
            self.show_note(f"✗ {NEEDS['imported']}")
        else:
            self.show_note("importing …")
            self._import_file(str(path), self.query_one(ChoiceRow).value)

    @work(exclusive=True, group="import")
    async def _import_file(self, file: str, backend: str) -> None:
        """Import queries from a file, and propose the backend that uses them."""
        command = run_command(
            "import-queries",
            str(self._project),
            file,
        )
        output = await await_or_show_error(
            self,
            command,
            self.show_note,
        )
        if output is None:
            return
        uses_imports = self._backend in ("imported", "both")
        if uses_imports and self._state in ("made", "stale"):
            self.show_note(IMPORTED + IMPORT_STALE)
        else:
            self.show_note(IMPORTED)
        self._propose(backend, {})
        if backend == self._backend:
            self.query_one(QuerySample).forget()
            self.post_message(self.Changed())


def _read_path_setting(field: PathField) -> str:
    """Return what a setting stores of the path in a field.

    A path that was picked, or typed as an absolute one, is stored in full. A relative one stays as
    typed: it counts from the project's folder.
    """
    text = field.value.strip()
    path = field.path
    is_absolute = text.startswith("~") or Path(text).is_absolute()
    if path is not None and is_absolute:
        return str(path)
    return text
