"""Where training queries come from: the backend and what it needs, a sample, and changes on
their way to project.toml.
"""

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

from bmembed_tui.client.engine_client import Ask, command
from bmembed_tui.steps.queries.models import find_models, model_line, models_note
from bmembed_tui.steps.queries.sample import QuerySample
from bmembed_tui.widgets.change_line import ChangeLine, answer_or_error
from bmembed_tui.widgets.choice_row import ChoiceRow
from bmembed_tui.widgets.fields import Field, PathField
from bmembed_tui.widgets.model_fetcher import ModelFetcher
from bmembed_tui.widgets.model_list import ModelList
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeStatic
from engine.core.extras import lack
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
NEEDS = {
    "gguf": "Type the path of a GGUF file, then Enter; or take one of those on this machine.",
    "endpoint": "Type the server's address, such as http://127.0.0.1:8080/v1, then Enter.",
    "imported": "Type the path of a file with queries, then Enter imports it.",
    "both": "Type the path of a file with queries, then Enter imports it.",
}


SAMPLE_STATES = ("new", "stale", "made")  # where the documents have been read and no run goes on
IMPORTED = (
    "✓ The file's queries were imported. The sample shows which passages they were joined to."
)
IMPORT_STALE = (
    " The present queries, and what was made from them, are out of date: the next run makes them"
    " again."
)


class QuerySource(Vertical):
    """Shows and changes the section [queries] of the settings of the project in `project`;
    `ask`: requests to the engine.

    The owner says by `set_state` where the queries stand. The first sample of `new` queries is
    shown at once where it costs nothing. A server is used only when the user says so, for it gets
    the documents' text.
    """

    class Changed(Message):
        """The source was changed: the stages may stand elsewhere now."""

    def __init__(self, ask: Ask, project: Path, **options: Any) -> None:
        super().__init__(**options)
        self._ask = ask
        self._project = project
        self._queries: QuerySettings | None = None
        self._state = "unknown"
        self._seen = False
        self._sampled = False
        self._fetcher = ModelFetcher(self, self.show_note)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="source-scroll", can_focus=False):
            yield ChoiceRow("Made by", BACKENDS, id="source-backend")
            yield SafeStatic("", id="source-meaning", classes="source-note")
            with Horizontal(classes="source-row for-gguf"):
                yield SafeLabel("GGUF file")
                yield PathField(files=True, placeholder="/path/to/model.gguf", id="source-gguf")
                yield SafeButton("Use", id="use-gguf")
            yield ModelList(model_line, models_note, id="source-models")
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
            yield SafeStatic("", id="source-note", classes="source-note")
            yield SafeButton("Show a sample", id="sample-button")
            yield SafeStatic("", id="source-report")
            yield QuerySample(self._project, id="sample")
        yield ChangeLine(self._ask, id="queries-change")

    def on_mount(self) -> None:
        self._show_backend("extractive")

    # What is set

    @work(exclusive=True, group="settings")
    async def load(self, *, anew: bool = False) -> None:
        """Read the settings. What was typed stays where they did not change, unless `anew`."""
        if self.query_one(ChangeLine).waiting:
            return
        found = await answer_or_error(self, self._ask(ReadSettings()), self.show_note)
        queries = self._queries
        if found is not None:
            queries = validate(found.settings).queries
        if queries is not None and (anew or queries != self._queries):
            self._show(queries)
        self._sample_at_first()

    def _show(self, queries: QuerySettings) -> None:
        self._queries = queries
        self.query_one(ChoiceRow).show(queries.backend)
        if queries.model:
            self.query_one("#source-gguf", PathField).pick(Path(queries.model))
        self.query_one("#source-endpoint", Field).value = visible(queries.endpoint)
        self.query_one("#source-endpoint-model", Field).value = visible(queries.endpoint_model)
        self._show_backend(queries.backend)

    @property
    def _backend(self) -> str:
        """What is set; empty before it was read."""
        return self._queries.backend if self._queries else ""

    def _show_backend(self, backend: str) -> None:
        if backend == "gguf":
            missing = lack("llm")
        else:
            missing = ""
        for row in self.query(".source-row"):
            row.display = row.has_class(f"for-{backend}") and not missing
        models = self.query_one(ModelList)
        files = backend == "gguf" and not missing
        if files and not models.display:
            models.look(find_models((self._queries or QuerySettings()).context_tokens))
        models.display = files
        self.query_one("#source-meaning", SafeStatic).update(
            plain(MEANINGS.get(backend, ""), "$text-muted")
        )
        if backend in ("imported", "both"):
            imports = self._imports_text()
        else:
            imports = ""
        self.show_note(f"✗ {missing}. The other sources do not need it." if missing else imports)

    def show_note(self, text: Content | str) -> None:
        """A line under the fields: what is needed, what was done, what went wrong."""
        note = self.query_one("#source-note", SafeStatic)
        note.update(text)
        note.display = bool(text if isinstance(text, str) else text.plain)

    @property
    def imported_files(self) -> int:
        try:
            return len(list((self._project / "imports").glob("queries-*.jsonl")))
        except OSError:
            return 0

    def _imports_text(self) -> str:
        count = self.imported_files
        if count:
            return f"✓ {count} file{'s were' if count > 1 else ' was'} imported so far."
        return ""

    # The sample

    def set_state(self, state: str, report: Content, *, seen: bool) -> None:
        """Where the queries stand, and what the stage reports.

        `seen`: whether this is on the screen.
        """
        self._state = state
        self._seen = seen
        sample = self.query_one(QuerySample)
        line = self.query_one("#source-report", SafeStatic)
        self.query_one("#sample-button").display = state in SAMPLE_STATES and not (
            sample.sampling or sample.shown
        )
        line.display = bool(report.plain)
        line.update(report)
        self._sample_at_first()

    def _sample_at_first(self) -> None:
        if (
            self._seen
            and self._state == "new"
            and self._backend == "extractive"
            and not self._sampled
        ):
            self.sample()

    @property
    def sampling(self) -> bool:
        return self.query_one(QuerySample).sampling

    @on(Button.Pressed, "#sample-button")
    def sample(self) -> None:
        self._sampled = True
        self.query_one(QuerySample).begin()

    def stop(self) -> None:
        self.query_one(QuerySample).stop()

    def leave(self) -> None:
        self.stop()
        self.query_one(ChangeLine).clear()

    # What is wanted

    @on(ChoiceRow.Chosen)
    def _chosen(self, event: ChoiceRow.Chosen) -> None:
        backend = event.value
        self._show_backend(backend)
        if backend == "gguf" and lack("llm"):
            self.query_one(ChangeLine).clear()
        elif self._lacks(backend):
            self.query_one(ChangeLine).clear()
            self.show_note(NEEDS[backend])
            self.query(f".for-{backend} Input").first().focus()
        else:
            self._want(backend, {})

    def _lacks(self, backend: str) -> bool:
        if backend in ("imported", "both"):
            return not self.imported_files
        field = {"gguf": "source-gguf", "endpoint": "source-endpoint"}.get(backend)
        return field is not None and not self.query_one(f"#{field}", Input).value.strip()

    def _want(self, backend: str, more: Mapping[str, Any]) -> None:
        wanted = {"queries.backend": backend, **more}
        changes = {
            key: value
            for key, value in wanted.items()
            if value != getattr(self._queries, key.partition(".")[2], None)
        }
        if changes:
            self.query_one(QuerySample).forget()
            self.query_one(ChangeLine).propose(changes)
        else:
            self.query_one(ChangeLine).clear()

    @on(Input.Submitted, "#source-gguf")
    @on(Button.Pressed, "#use-gguf")
    def _gguf(self) -> None:
        self._use("gguf", {"queries.model": typed_path(self.query_one("#source-gguf", PathField))})

    def _use(self, backend: str, more: Mapping[str, Any]) -> None:
        if self._lacks(backend):
            self.show_note(f"✗ {NEEDS[backend]}")
        else:
            self.show_note("")
            self._want(backend, more)

    @on(ModelList.Chosen)
    def _model_chosen(self, event: ModelList.Chosen) -> None:
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
    def _to_model_name(self) -> None:
        self.query_one("#source-endpoint-model").focus()

    @on(Input.Submitted, "#source-endpoint-model")
    @on(Button.Pressed, "#use-endpoint")
    def _endpoint(self) -> None:
        fields = {
            f"queries.{name}": f"#source-{name.replace('_', '-')}"
            for name in ("endpoint", "endpoint_model")
        }
        self._use(
            "endpoint",
            {key: self.query_one(field, Input).value.strip() for key, field in fields.items()},
        )

    @on(ChangeLine.Written)
    def _written(self, event: ChangeLine.Written) -> None:
        self._show(validate(event.settings).queries)
        self.post_message(self.Changed())

    @on(ChangeLine.Dropped)
    def _dropped(self) -> None:
        self.load(anew=True)

    @on(Input.Submitted, "#source-import")
    @on(Button.Pressed, "#use-imported")
    def _import(self) -> None:
        path = self.query_one("#source-import", PathField).path
        if path is None:
            self.show_note(f"✗ {NEEDS['imported']}")
        else:
            self.show_note("importing …")
            self._import_file(str(path), self.query_one(ChoiceRow).value)

    @work(exclusive=True, group="import")
    async def _import_file(self, file: str, backend: str) -> None:
        printed = await answer_or_error(
            self, command("import-queries", str(self._project), file), self.show_note
        )
        if printed is None:
            return
        stale = self._state in ("made", "stale") and self._backend in ("imported", "both")
        self.show_note(IMPORTED + IMPORT_STALE if stale else IMPORTED)
        self._want(backend, {})
        if backend == self._backend:
            self.query_one(QuerySample).forget()
            self.post_message(self.Changed())


def typed_path(field: PathField) -> str:
    """The path in a field: absolute where it was typed or picked so; a relative one lies in the
    project folder.
    """
    text = field.value.strip()
    path = field.path
    if path is not None and (text.startswith("~") or Path(text).is_absolute()):
        return str(path)
    return text
