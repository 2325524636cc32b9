"""One query beside the chunk that it was made of, to be worded anew."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import TextArea

from bmembed_tui.client.engine_client import Ask
from bmembed_tui.dialogs.confirmations import ask
from bmembed_tui.steps.queries.text import chunk_text
from bmembed_tui.widgets.change_line import answer_or_error, error_text
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.queries import EditQuery, QueryInChunk, QueryRow, ReadQuery
from engine.core.records import query_label
from engine.core.text import visible


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
    """Closes with the changed query, or None.

    An engine's error is shown in it, and the text stays.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "cancel", id="dialog.close")
    ]
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [  # noqa: RUF012
        (0, "-narrow"),
        (100, "-wide"),
    ]

    def __init__(self, ask: Ask, row: QueryRow) -> None:
        super().__init__()
        self._ask = ask
        self._row = row
        self._shown = visible(row.text)
        self._saving = False
        self.changed: QueryInChunk | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog edit-dialog"):
            yield SafeStatic(
                f"Edit a query ({query_label(self._row.kind)}, {query_label(self._row.split)})",
                classes="dialog-title",
            )
            with Vertical(id="edit-parts"):
                with Vertical(id="edit-left"):
                    yield QueryText(self._shown, soft_wrap=True, compact=True, id="edit-text")
                    yield SafeStatic(
                        plain(
                            "Saving puts ranking and training out of date. Your wording is kept"
                            " when queries are made again.",
                            "$text-muted",
                        ),
                        id="edit-note",
                    )
                with VerticalScroll(id="edit-source"):
                    yield SafeStatic("looking …", id="edit-chunk")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Save", id="save", variant="primary", action="screen.save")
                yield SafeButton("Cancel", id="cancel", action="screen.close")

    def on_mount(self) -> None:
        text = self.query_one(QueryText)
        text.focus()
        text.move_cursor(text.document.end)
        self.load()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        note = self.query_one("#edit-note", SafeStatic)
        if found := await answer_or_error(self, self._ask(ReadQuery(self._row.id)), note.update):
            text = chunk_text(found.path, found.title, found.chunk, found.span, found.evidence)
            self.query_one("#edit-chunk", SafeStatic).update(text)

    @on(QueryText.Submitted)
    @work(group="save")
    async def action_save(self) -> None:
        if self._saving:
            return
        text = self.query_one(QueryText).text
        if text == self._shown:
            self._leave()
            return
        self._saving = True
        try:
            self.changed = await self._ask(EditQuery(self._row.id, text))
        except EngineError as error:
            if self.is_attached:
                self.query_one("#edit-note", SafeStatic).update(error_text(error))
        finally:
            self._saving = False
        if self.changed is not None:
            self._leave()

    def _leave(self) -> None:
        """Close with what was changed; where another screen has come over this one, once that is
        closed.
        """
        if self.is_active:
            self.dismiss(self.changed)

    def on_screen_resume(self) -> None:
        if self.changed is not None:
            self._leave()

    def action_close(self) -> None:
        """Leave the query as it is, after a question where it was worded anew.

        What is being saved is waited for.
        """
        if self._saving or not self.is_active:
            return
        if self.query_one(QueryText).text == self._shown:
            self._leave()
            return
        answers = (("stay", "Go on editing"), ("leave", "Leave it as it was"))
        text = "The query's new text would be lost."
        ask(self.app, "Close without saving?", text, answers, leave=self._leave)
