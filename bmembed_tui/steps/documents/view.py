"""The widgets of step Documents, and how they are drawn from what is known of the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical, VerticalScroll

from bmembed_tui.client.project_status import SEARCH
from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.documents.text import (
    STAGES,
    build_format_rows,
    build_skipped_rows,
    format_files,
    format_left_out,
    format_status,
)
from bmembed_tui.widgets.change_line import ChangeLine, format_error
from bmembed_tui.widgets.fields import PatternField
from bmembed_tui.widgets.folder_tree import FolderTree
from bmembed_tui.widgets.plain import plain, rich_text
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeStatic, SafeTable
from bmembed_tui.widgets.text_rows import fit_text
from engine.core.errors import EngineError
from engine.core.messages.documents import Scan, Scanned, UnreadFiles
from engine.settings.schema import CorpusSettings

WIDE = 90  # columns from which the folders are shown next to the counts
HINT = plain("as in .gitignore, such as drafts/, *.html", "$text-muted")
PATH_COLUMNS = 32  # width of a path in the table of files that are left out


class DocumentsView(StepPane):
    """The counts by format, the patterns, what is left out, the folders, and a status line."""

    buttons: ClassVar[dict[str, str]] = {
        "primary": "Read the documents",
        "again": "Read again",
        "stop": "Stop",
        "add": "Add folder",
        "remove": "Remove",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.corpus: CorpusSettings | None = None
        self._settings_error: EngineError | None = None
        self._unread = UnreadFiles(
            (),
            0,
            0,
        )
        self._left_out: Sequence[tuple[str, str]] = ()  # path and reason of each row
        self._wanted_scan: Scan | None = None  # for the folders and patterns on the screen
        self.scanned: Scan | None = None  # the scan that gave the counts or the error below
        self._counts: Scanned | None = None
        self._scan_error: EngineError | None = None
        self._is_scanning = False
        self._is_starting = False

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="documents-body", can_focus=False):
            yield SafeStatic("looking …", id="documents-status")
            with Container(id="documents-parts"):
                with Vertical(id="documents-files"):
                    yield SafeTable(
                        id="formats",
                        cursor_type="none",
                        show_cursor=False,
                    )
                    with Horizontal(classes="pattern-row"):
                        yield SafeLabel("Include")
                        yield PatternField(placeholder="everything", id="include")
                    with Horizontal(classes="pattern-row"):
                        yield SafeLabel("Exclude")
                        yield PatternField(placeholder="nothing", id="exclude")
                    yield SafeStatic(HINT, id="patterns-note")
                with Vertical(id="documents-folders"):
                    yield SafeStatic("Folders", classes="part-title")
                    yield FolderTree(id="sources")
            with Vertical(id="skipped-part"):
                with Horizontal(id="skipped-head"):
                    yield SafeStatic("", id="skipped-title")
                    yield SafeButton("Try again", id="retry")
                yield SafeTable(id="skipped", cursor_type="row")
                yield SafeStatic("", id="skipped-why")
        yield ChangeLine(self.ask)

    def on_mount(self) -> None:
        formats = self.query_one("#formats", SafeTable)
        for heading in ("Format", "Files", "Size"):
            formats.add_column(heading)
        skipped = self.query_one("#skipped", SafeTable)
        for heading in ("File", "Why it is left out"):
            skipped.add_column(heading)
        self.query_one("#skipped-part").display = False
        self.draw()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width >= WIDE, "wide")

    @on(SafeTable.RowHighlighted, "#skipped")
    def show_why(self, event: SafeTable.RowHighlighted) -> None:
        """Show the whole path and reason of a file, which the table may cut."""
        self._draw_why(event.cursor_row)
        if event.data_table.has_focus:
            self.call_after_refresh(self.query_one("#skipped-why").scroll_visible, animate=False)

    # State

    def _is_changed(self) -> bool:
        return any(field.is_changed for field in self.query(PatternField))

    def is_reading(self) -> bool:
        """Return whether a run reads the documents, or is about to."""
        run = self.host.run_state
        # A run that has not reached its first stage counts if all its stages make search work.
        is_about_to = not run.current and run.stages.keys() <= set(SEARCH)
        is_at_own_stage = run.current in STAGES or is_about_to
        return self._is_starting or (self.host.is_busy and is_at_own_stage)

    def is_read(self) -> bool:
        """Return whether the documents are read, by the patterns on the screen."""
        return self.host.status.done("ingest") and not self._is_changed()

    # Drawing

    def draw(self) -> None:
        """Draw the status line and the buttons."""
        if not self.is_attached:
            return
        is_reading = self.is_reading()
        is_read = self.is_read()
        error = self._settings_error
        if error is None and not self._is_changed():
            error = self._scan_error
        text = format_status(
            self.host.status, self.host.run_state, self._counts, error, is_reading=is_reading
        )
        self.query_one("#documents-status", SafeStatic).update(text)
        if is_reading:
            label = "Reading …"
        elif is_read:
            label = "Continue"
        else:
            label = "Read the documents"
        self.query_one("#primary", SafeButton).label = label
        self.query_one("#again").display = is_read and not is_reading
        self.query_one("#stop").display = is_reading

    def _draw_formats(self) -> None:
        table = self.query_one("#formats", SafeTable)
        table.clear()
        for row in build_format_rows(self._counts):
            table.add_row(*row)

    def _draw_note(self) -> None:
        """Draw the note on patterns: a hint, or what changed patterns select."""
        note = HINT
        if self._is_changed():
            if self.scanned != self._wanted_scan:
                note = plain("counting …", "$text-muted")
            elif self._scan_error:
                note = format_error(self._scan_error)
            elif self._counts:
                files = format_files(self._counts)
                text = f"{files} would be read. Enter saves the patterns, Esc reverts them."
                note = plain(text, "$text-accent")
        self.query_one("#patterns-note", SafeStatic).update(note)

    def _draw_skipped(self) -> None:
        """Draw the table of files that are left out, if its rows have changed."""
        rows, total = build_skipped_rows(self._unread, self._counts)
        if rows != self._left_out:  # otherwise the cursor stays where it is
            self._left_out = rows
            table = self.query_one("#skipped", SafeTable)
            table.clear()
            for path, reason in rows:
                short_path = fit_text(
                    path,
                    PATH_COLUMNS,
                    keep_end=True,
                )
                table.add_row(rich_text(short_path), rich_text(reason))
            self._draw_why(0)
        self.query_one("#skipped-part").display = bool(self._left_out)
        title = format_left_out(self.host.status, total)
        if total > len(self._left_out):
            title += f"; 'engine documents {self.host.project.argument}' lists all"
        self.query_one("#skipped-title", SafeStatic).update(plain(title, "bold"))
        self.query_one("#retry").display = bool(self._unread.retryable)

    def _draw_why(self, row: int) -> None:
        """Show the whole path and reason of the file in a row."""
        text = ""
        if 0 <= row < len(self._left_out):
            path, reason = self._left_out[row]
            text = f"{path}: {reason}"
        self.query_one("#skipped-why", SafeStatic).update(plain(text, "$text-muted"))
