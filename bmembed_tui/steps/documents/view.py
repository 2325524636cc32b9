"""What the step Documents looks like: its widgets, and how they are drawn from what is known of the files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical, VerticalScroll

from bmembed_tui.steps.base import StepPane
from bmembed_tui.steps.documents.text import files_text, format_status, formats_rows, skipped_rows
from bmembed_tui.widgets.fields import PatternField
from bmembed_tui.widgets.folder_tree import FolderTree
from bmembed_tui.widgets.plain import plain, rich_text
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeStatic, SafeTable
from bmembed_tui.widgets.text_rows import fitted
from engine.core.errors import EngineError
from engine.core.messages.documents import Scanned, Unread
from engine.settings.schema import CorpusSettings

OWN_STAGES = ("ingest", "index")
WIDE = 90  # columns from which the folders stand beside the counts
HINT = "Patterns as in .gitignore, with commas between: drafts/, *.html"
PATH_COLUMNS = {True: 40, False: 24}  # of a file that was left out, by whether the step is wide


@dataclass(frozen=True)
class ScanRequest:
    """What is to be counted. `turn` grows when the same is to be counted anew."""

    paths: tuple[str, ...]
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    revision: int


class DocumentsView(StepPane):
    """Counts by format, patterns, what is left out, the folders; and one line on how far reading is."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.corpus: CorpusSettings | None = None
        self._settings_error: EngineError | None = None
        self._unread: Sequence[Unread] = ()
        self._left_out: Sequence[tuple[str, str]] = ()
        self._tried = 0
        self._scan: Scanned | None = None
        self._scan_error: EngineError | None = None
        self._wanted: ScanRequest | None = None
        self.scanned: ScanRequest | None = None
        self._files_now: int | None = None
        self._revision = 0
        self._scanning = self._starting = False
        self._was_reading = self._settling = False

    def compose_body(self) -> ComposeResult:
        with VerticalScroll(id="documents-body", can_focus=False):
            yield SafeStatic("looking …", id="documents-status")
            with Container(id="documents-parts"):
                with Vertical(id="documents-files"):
                    yield SafeTable(id="formats", cursor_type="none", show_cursor=False)
                    for name in ("include", "exclude"):
                        with Horizontal(classes="pattern-row"):
                            yield SafeLabel(name.capitalize())
                            yield PatternField(placeholder="nothing" if name == "exclude" else "everything", id=name)
                    yield SafeStatic(plain(HINT, "$text-muted"), id="patterns-note")
                with Vertical(id="documents-folders"):
                    yield SafeStatic("Folders", classes="part-title")
                    yield FolderTree(id="sources")
            with Vertical(id="skipped-part"):
                with Horizontal(id="skipped-head"):
                    yield SafeStatic("", id="skipped-title")
                    yield SafeButton("Try again", id="retry")
                yield SafeTable(id="skipped", cursor_type="row")
                yield SafeStatic("", id="skipped-why")

    def compose_buttons(self) -> ComposeResult:
        yield SafeButton("Read the documents", id="primary", variant="primary")
        yield SafeButton("Read again", id="again")
        yield SafeButton("Stop", id="stop")
        yield SafeButton("Add folder", id="add")
        yield SafeButton("Remove", id="remove")

    def on_mount(self) -> None:
        formats = self.query_one("#formats", SafeTable)
        for name in ("Format", "Files", "Size"):
            formats.add_column(name)
        for name in ("File", "Why it is left out"):
            self.query_one("#skipped", SafeTable).add_column(name)
        self.query_one("#skipped-part").display = False
        self._draw()

    def on_resize(self, event: events.Resize) -> None:
        was_wide = self.has_class("wide")
        self.set_class(event.size.width >= WIDE, "wide")
        if self.has_class("wide") != was_wide and self.is_attached:
            self._draw_left_out()

    @on(SafeTable.RowHighlighted, "#skipped")
    def show_why(self, event: SafeTable.RowHighlighted) -> None:
        """The whole of a file's path and reason, of which the table may show a part."""
        self._draw_why(event.cursor_row)
        if event.data_table.has_focus:
            self.call_after_refresh(self.query_one("#skipped-why").scroll_visible, animate=False)

    # What is known

    def _is_changed(self) -> bool:
        return any(field.is_changed for field in self.query(PatternField))

    def is_reading(self) -> bool:
        return self._starting or self._settling or self._is_at_work()

    def _is_at_work(self) -> bool:
        host = self.host
        return host.going and not host.is_settling and host.run_state.current in ("", *OWN_STAGES)

    def is_read(self) -> bool:
        return self.host.status.done("ingest") and not self._is_changed()

    # Drawing

    def _draw(self) -> None:
        if not self.is_attached:
            return
        reading, read = self.is_reading(), self.is_read()
        error = self._settings_error or (None if self._is_changed() else self._scan_error)
        text = format_status(self.host.status, self.host.run_state, self._scan, error, is_reading=reading)
        self.query_one("#documents-status", SafeStatic).update(text)
        label = "Reading …" if reading else "Continue" if read else "Read the documents"
        self.query_one("#primary", SafeButton).label = label
        self.query_one("#again").display = read and not reading
        self.query_one("#stop").display = reading

    def _draw_formats(self) -> None:
        table = self.query_one("#formats", SafeTable)
        table.clear()
        for row in formats_rows(self._scan):
            table.add_row(*row)

    def _draw_note(self) -> None:
        note = self.query_one("#patterns-note", SafeStatic)
        if not self._is_changed():
            note.update(plain(HINT, "$text-muted"))
        elif self.scanned != self._wanted:
            note.update(plain("counting …", "$text-muted"))
        elif self._scan is None:
            error = self._scan_error
            note.update(plain(f"✗ {error.what} {error.why} {error.to_do}" if error else "", "$text-error"))
        else:
            now = f" (now {self._files_now:,})" if self._files_now is not None else ""
            text = f"{files_text(self._scan)} would be read{now}. Enter keeps it, Esc takes it back."
            note.update(plain(text, "$text-accent"))

    def _draw_skipped(self) -> None:
        rows, total = skipped_rows(self._unread, self._tried, self._scan)
        self._left_out = rows
        self._draw_left_out()
        self.query_one("#skipped-part").display = bool(rows)
        rest = f"'engine documents {self.host.project.argument}' lists all"
        shown = f", the first {len(rows):,} here; {rest}" if total > len(rows) else ""
        counts = self.host.status.counts
        inside = total - counts.get("skipped", 0) - counts.get("quarantined", 0)
        within = f", {inside:,} of them inside files" if self.is_read() and inside > 0 else ""
        self.query_one("#skipped-title", SafeStatic).update(plain(f"Left out: {total:,}{within}{shown}", "bold"))
        self.query_one("#retry").display = bool(self._tried)

    def _draw_left_out(self) -> None:
        table = self.query_one("#skipped", SafeTable)
        table.clear()
        columns = PATH_COLUMNS[self.has_class("wide")]
        for path, reason in self._left_out:
            table.add_row(rich_text(fitted(path, columns, keep_end=True)), rich_text(reason))
        self._draw_why(0)

    def _draw_why(self, row: int) -> None:
        path, reason = self._left_out[row] if 0 <= row < len(self._left_out) else ("", "")
        self.query_one("#skipped-why", SafeStatic).update(plain(f"{path}: {reason}" if path else "", "$text-muted"))
