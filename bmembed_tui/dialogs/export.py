"""Exporting what was made from the documents: which parts, and into which folder."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.widgets.change_line import format_error
from bmembed_tui.widgets.fields import PathField
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeOptions, SafeStatic
from engine.core.errors import EngineError, UsageError
from engine.core.messages.project import Exported
from engine.core.text import format_files_and_size
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
WITH_TEXT = (
    "vectors",
    "parquet",
    "qdrant",
    "lancedb",
    "opensearch",
    "chunks",
    "beir",
)
"""The parts that contain words of the documents or names of their files."""
USUAL = ("adapter", "model")


class ExportScreen(ModalScreen[None]):
    """Asks what to export and where to, then shows what was written.

    Closing it cancels an export in progress.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="dialog.close-export"),
        Binding("space", "turn", "take it or leave it", show=False, id="export.turn"),
    ]

    def __init__(self, project: ProjectFolder) -> None:
        super().__init__()
        self._project = project
        self._wanted = set(USUAL)
        self._is_exporting = False
        self.outcome: Exported | EngineError | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog export-dialog"):
            yield SafeStatic(f"Export {self._project.name}", classes="dialog-title")
            yield SafeStatic(TEXT, id="export-text")
            with Horizontal(classes="new-row"):
                yield SafeLabel("Into")
                yield PathField(find_free_folder(self._project.name), id="export-folder")
            yield SafeOptions(id="export-parts")
            with VerticalScroll(id="export-outcome", can_focus=False):
                yield SafeStatic("", id="export-note")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Export",
                    id="export",
                    variant="primary",
                    action="screen.export",
                )
                yield SafeButton(
                    "Cancel",
                    id="cancel",
                    action="screen.dismiss",
                )

    def on_mount(self) -> None:
        self._draw_parts()
        self.query_one("#export").focus()

    def _draw_parts(self) -> None:
        lines = [(name, _format_part(name, name in self._wanted)) for name in PARTS]
        self.query_one("#export-parts", SafeOptions).show(lines)

    @on(OptionList.OptionSelected, "#export-parts")
    def _toggle_part(self, event: OptionList.OptionSelected) -> None:
        self._wanted ^= {str(event.option_id)}
        self._draw_parts()

    def action_turn(self) -> None:
        parts = self.query_one("#export-parts", SafeOptions)
        if parts.has_focus:
            parts.action_select()

    @on(Input.Submitted)
    def _go_to_parts(self) -> None:
        self.query_one("#export-parts").focus()

    @work(group="export")
    async def action_export(self) -> None:
        if self._is_exporting:
            return
        self._is_exporting = True
        self._show_note(
            plain("Writing … Cancel stops it and leaves nothing behind.", "$text-muted")
        )
        try:
            exported = await self._export(self.query_one(PathField).path)
            self.outcome = exported
            self._show_exported(exported)
        except EngineError as error:
            self.outcome = error
            self._show_note(format_error(error))
        finally:
            self._is_exporting = False

    async def _export(self, folder: Path | None) -> Exported:
        """Run the export. Raises EngineError, also where no folder or no part is chosen."""
        to_do = ""
        if folder is None:
            to_do = "Type the name of a new folder."
        elif not self._wanted:
            to_do = "Choose a part."
        if to_do:
            raise UsageError(
                "Nothing was exported.",
                "",
                to_do,
                code="export-incomplete-choice",
            )
        output = await run_command(
            "export", str(self._project.path), str(folder), *self._list_options(), "--json"
        )
        return parse_answer(Exported, output)

    def _list_options(self) -> list[str]:
        """Return the command's option for the chosen parts.

        Empty for the usual parts, so that the encoder is exported even if no adapter was trained.
        """
        if self._wanted == set(USUAL):
            return []
        if self._wanted == set(PARTS):
            return ["--only", "all"]
        return ["--only", ",".join(name for name in PARTS if name in self._wanted)]

    def _show_exported(self, exported: Exported) -> None:
        """Show what was written and what was left out, and turn Cancel into Close."""
        if not self.is_attached:
            return
        files_text = format_files_and_size(exported.files, exported.bytes)
        lines = [f"✓ {exported.folder}: {files_text}. README.md explains the files."]
        if exported.with_text:
            parts = ", ".join(exported.with_text)
            lines.append(f"These contain words from your documents: {parts}.")
        lines += [f"! {note.what} {note.to_do}" for note in exported.notes]
        lines += [f"Left out: {name}. {reason}" for name, reason in exported.left_out.items()]
        self._show_note(plain("\n".join(lines), lines=True))
        self.query_one("#export").display = False
        self.query_one("#export-parts").display = False
        outcome = self.query_one("#export-outcome")
        outcome.can_focus = True  # to scroll what has no room
        close = self.query_one("#cancel", SafeButton)
        close.label = "Close"
        close.focus()

    def _show_note(self, text: Content) -> None:
        if self.is_attached:
            self.query_one("#export-note", SafeStatic).update(text)
            self.add_class("-noted")


def find_free_folder(name: str) -> str:
    """Return the path of a folder in the user's home that does not exist yet.

    Empty where the home is not known.
    """
    try:
        first = Path.home() / f"{name}-encoder"
    except RuntimeError:
        return ""
    folders = [first, *(first.with_name(f"{name}-encoder-{number}") for number in range(2, 100))]
    return str(next((folder for folder in folders if not folder.exists()), first))


def _format_part(name: str, is_wanted: bool) -> Content:
    """Return the line of a part, with a ✓ if it is chosen."""
    note = "; holds text" if name in WITH_TEXT else ""
    return Content.assemble(
        plain("✓ " if is_wanted else "· "),
        plain(f"{name:<10}", "bold"),
        plain(f" {PARTS[name]}{note}", "$text-muted"),
    )
