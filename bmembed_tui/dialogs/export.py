"""Taking away what was made of the documents: which parts, and into which folder."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList

from bmembed_tui.client.engine_client import command, parsed
from bmembed_tui.widgets.change_line import error_text
from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeOptions, SafeStatic
from engine.core.errors import EngineError, UsageError
from engine.core.messages.project import Exported
from engine.core.text import amount
from engine.project.folder import ProjectFolder

TEXT = "Folders that work without bmembed. An export is complete, or nothing is written."
PARTS = {
    "adapter": "the adapter, for peft",
    "model": "the encoder in use, for sentence-transformers",
    "onnx": "the encoder in use, as ONNX",
    "gguf": "the encoder in use, as GGUF",
    "vectors": "the chunks' vectors, .npy and .jsonl",
    "parquet": "chunks, vectors and BM25 as Parquet",
    "qdrant": "chunks, vectors and BM25 for Qdrant",
    "lancedb": "chunks, vectors and BM25 for LanceDB",
    "opensearch": "chunks, vectors and BM25 for OpenSearch",
    "chunks": "the chunks as JSON lines",
    "beir": "queries, judgments and preferences in BEIR's layout",
}
WITH_TEXT = ("vectors", "parquet", "qdrant", "lancedb", "opensearch", "chunks", "beir")
"""Words of the documents, or names of their files, are in them."""
USUAL = ("adapter", "model")


class ExportScreen(ModalScreen[None]):
    """What to export and where to; then what was written.

    Closing it ends an export that is being written.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="dialog.close-export"),
        Binding("space", "turn", "take it or leave it", show=False, id="export.turn"),
    ]

    def __init__(self, project: ProjectFolder) -> None:
        super().__init__()
        self._project = project
        self._wanted = set(USUAL)
        self._at_work = False
        self.outcome: Exported | EngineError | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog export-dialog"):
            yield SafeStatic(f"Export {self._project.name}", classes="dialog-title")
            yield SafeStatic(TEXT, id="export-text")
            with Horizontal(classes="new-row"):
                yield SafeLabel("Into")
                yield PathField(free_folder(self._project.name), id="export-folder")
            yield SafeOptions(id="export-parts")
            yield SafeStatic("", id="export-note")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Export", id="export", variant="primary", action="screen.export")
                yield SafeButton("Cancel", id="cancel", action="screen.dismiss")

    def on_mount(self) -> None:
        self._draw_parts()
        self.query_one("#export").focus()

    def _draw_parts(self) -> None:
        lines = [(name, _line(name, what, name in self._wanted)) for name, what in PARTS.items()]
        self.query_one("#export-parts", SafeOptions).show(lines)

    @on(OptionList.OptionSelected, "#export-parts")
    def _turned(self, event: OptionList.OptionSelected) -> None:
        self._wanted ^= {str(event.option_id)}
        self._draw_parts()

    def action_turn(self) -> None:
        parts = self.query_one("#export-parts", SafeOptions)
        if parts.has_focus:
            parts.action_select()

    @on(Input.Submitted)
    def _named(self) -> None:
        self.query_one("#export-parts").focus()

    @work(group="export")
    async def action_export(self) -> None:
        if self._at_work:
            return
        folder = self.query_one(PathField).path
        self._at_work = True
        self._show_note(
            plain("Writing … Cancel stops it and leaves nothing behind.", "$text-muted")
        )
        try:
            if folder is None or not self._wanted:
                if folder is None:
                    missing = "Type the name of a new folder."
                else:
                    missing = "Choose a part."
                raise UsageError(
                    "Nothing was exported.", "", missing, code="export-incomplete-choice"
                )
            made = await command(
                "export", str(self._project.path), str(folder), *self._only(), "--json"
            )
            self.outcome = parsed(Exported, made)
            self._done(self.outcome)
        except EngineError as error:
            self.outcome = error
            self._show_note(error_text(error))
        finally:
            self._at_work = False

    def _only(self) -> list[str]:
        """The usual parts are not insisted on: where no adapter was trained there is a model all
        the same.
        """
        if self._wanted == set(USUAL):
            return []
        return [
            "--only",
            (
                "all"
                if self._wanted == set(PARTS)
                else ",".join(n for n in PARTS if n in self._wanted)
            ),
        ]

    def _done(self, made: Exported) -> None:
        if not self.is_attached:
            return
        lines = [
            f"✓ {made.folder}: {amount(made.files, made.bytes)}. README.md explains the files."
        ]
        lines += (
            [f"These contain words from your documents: {', '.join(made.with_text)}."]
            if made.with_text
            else []
        )
        lines += [f"! {note.what} {note.to_do}" for note in made.notes]
        lines += [f"Left out: {name}. {why}" for name, why in made.left_out.items()]
        self._show_note(plain("\n".join(lines), lines=True))
        self.query_one("#export").display = self.query_one("#export-parts").display = False
        close = self.query_one("#cancel", SafeButton)
        close.label = "Close"
        close.focus()

    def _show_note(self, text: Content) -> None:
        if self.is_attached:
            self.query_one("#export-note", SafeStatic).update(text)
            self.add_class("-noted")


def free_folder(name: str) -> str:
    """A folder in the user's own that is not there yet."""
    try:
        home = Path.home()
    except RuntimeError:
        return ""
    names = [f"{name}-model", *(f"{name}-model-{number}" for number in range(2, 100))]
    return str(next((home / one for one in names if not (home / one).exists()), home / names[0]))


def _line(name: str, what: str, is_wanted: bool) -> Content:
    text = "; holds text" if name in WITH_TEXT else ""
    return Content.assemble(
        plain("✓ " if is_wanted else "· "),
        plain(f"{name:<10}", "bold"),
        plain(f" {what}{text}", "$text-muted"),
    )
