"""One query beside the chunk that it was made of, to be worded anew."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Button, TextArea

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.dialogs.confirmations import QuestionDialog
from bmembed_tui.steps.queries.evidence import chunk_text
from bmembed_tui.widgets.change_line import error_text
from bmembed_tui.widgets.plain import plain, visible
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.queries import EditQuery, QueryInChunk, QueryRow, ReadQuery


class QueryText(TextArea):
    """A query: one line, wrapped. Enter is done with it."""

    class Submitted(Message):
        """Enter was pressed."""

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        self.replace(visible(event.text), *self.selection)

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            event.stop()
            event.prevent_default()
            self.post_message(self.Submitted())
        else:
            await super()._on_key(event)


class EditQueryDialog(ModalScreen[QueryInChunk | None]):
    """Closes with the changed query, or None. An engine's error is shown in it, and the text stays."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "cancel", id="dialog.close")]
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    DEFAULT_CSS = """
    EditQueryDialog .edit-dialog { max-width: 140; }
    EditQueryDialog #edit-text { height: 4; border: none; background: $surface; padding: 0; }
    EditQueryDialog #edit-note { height: auto; }
    EditQueryDialog #edit-source { height: auto; max-height: 50vh; margin-top: 1; }
    EditQueryDialog #edit-chunk { height: auto; }
    EditQueryDialog.-wide #edit-parts { layout: horizontal; height: auto; }
    EditQueryDialog #edit-parts { height: auto; }
    EditQueryDialog #edit-left { height: auto; width: 1fr; }
    EditQueryDialog.-wide #edit-source { width: 1fr; margin: 0 0 0 2; }
    """

    def __init__(self, ask: Ask, row: QueryRow) -> None:
        super().__init__()
        self._ask, self._row = ask, row
        self._shown = visible(row.text)
        self._saving = False
        self._changed: QueryInChunk | None = None

    def compose(self) -> ComposeResult:
        """The text, the chunk, and what changing it means."""
        with Vertical(classes="dialog edit-dialog"):
            yield SafeStatic(f"Edit a query ({self._row.kind}, {self._row.split})", classes="dialog-title")
            with Vertical(id="edit-parts"):
                with Vertical(id="edit-left"):
                    yield QueryText(self._shown, soft_wrap=True, compact=True, id="edit-text")
                    yield SafeStatic(
                        plain("Saving makes ranking and training stale. Your wording is kept when queries are made again.",
                              "$text-muted"), id="edit-note",
                    )  # fmt: skip
                with VerticalScroll(id="edit-source"):
                    yield SafeStatic("looking …", id="edit-chunk")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Save", id="save", variant="primary")
                yield SafeButton("Cancel", id="cancel")

    def on_mount(self) -> None:
        """Ask for the chunk."""
        text = self.query_one(QueryText)
        text.focus()
        text.move_cursor(text.document.end)
        self.load()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        """Read the query with its chunk."""
        try:
            found = await self._ask(ReadQuery(self._row.id))
        except EngineError as error:
            self._tell(error)
            return
        if self.is_attached:
            text = chunk_text(found.path, found.title, found.chunk, found.span, found.evidence)
            self.query_one("#edit-chunk", SafeStatic).update(text)

    @work(exclusive=True, group="save")
    async def save(self) -> None:
        """Give the query its new text."""
        text = self.query_one(QueryText).text
        if text == self._shown:
            self._leave()
            return
        self._saving = True
        try:
            self._changed = await self._ask(EditQuery(self._row.id, text))
        except EngineError as error:
            self._tell(error)
        finally:
            self._saving = False
        if self._changed is not None:
            self._leave()

    def _leave(self) -> None:
        """Close with what was changed; where another screen has come over this one, once that is closed."""
        if self.is_active:
            self.dismiss(self._changed)

    def on_screen_resume(self) -> None:
        """What was over this dialog is closed."""
        if self._changed is not None:
            self._leave()

    def _tell(self, error: EngineError) -> None:
        if self.is_attached:
            self.query_one("#edit-note", SafeStatic).update(error_text(error))

    @on(QueryText.Submitted)
    def _submitted(self, event: QueryText.Submitted) -> None:
        event.stop()
        self._save_once()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "save":
            self._save_once()
        else:
            self.action_close()

    def _save_once(self) -> None:
        if not self._saving:
            self.save()

    def action_close(self) -> None:
        """Leave the query as it is, after a question where it was worded anew. What is being saved is waited for."""
        if self._saving or not self.is_active:
            return
        if self.query_one(QueryText).text == self._shown:
            self._leave()
            return
        answers = (("stay", "Go on editing"), ("leave", "Leave it as it was"))
        question = QuestionDialog("Close without saving?", "The query's new text would be lost.", answers)
        self.app.push_screen(question, self._close_answered)

    def _close_answered(self, answer: str | None) -> None:
        if answer == "leave":
            self._leave()
