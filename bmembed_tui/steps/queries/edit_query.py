"""A dialog to edit a query next to the chunk that it was made from."""

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
from bmembed_tui.steps.queries.text import format_chunk
from bmembed_tui.widgets.change_line import await_or_show_error, format_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.errors import EngineError
from engine.core.messages.queries import EditQuery, QueryInChunk, QueryRow, ReadQuery
from engine.core.records import query_label
from engine.core.text import visible


class QueryText(TextArea):
    """A query as one wrapped line. Enter submits it."""

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
    """Edits a query; closes with the changed query, or None.

    An engine's error is shown in the dialog, and the text stays.
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
        self._original_text = visible(row.text)
        self._saving = False
        self.changed: QueryInChunk | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog edit-dialog"):
            kind = query_label(self._row.kind)
            split = query_label(self._row.split)
            yield SafeStatic(f"Edit a query ({kind}, {split})", classes="dialog-title")
            with Vertical(id="edit-parts"):
                with Vertical(id="edit-left"):
                    yield QueryText(
                        self._original_text, soft_wrap=True, compact=True, id="edit-text"
                    )
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
                yield SafeButton(
                    "Save",
                    id="save",
                    variant="primary",
                    action="screen.save",
                )
                yield SafeButton(
                    "Cancel",
                    id="cancel",
                    action="screen.close",
                )

    def on_mount(self) -> None:
        text = self.query_one(QueryText)
        text.focus()
        text.move_cursor(text.document.end)
        self.load()

    @work(exclusive=True, group="load")
    async def load(self) -> None:
        """Show the chunk that the query was made from."""
        note = self.query_one("#edit-note", SafeStatic)
        query = await await_or_show_error(
            self,
            self._ask(ReadQuery(self._row.id)),
            note.update,
        )
        if query is not None:
            text = format_chunk(
                query.path,
                query.title,
                query.chunk,
                query.span,
                query.evidence,
            )
            self.query_one("#edit-chunk", SafeStatic).update(text)

    @on(QueryText.Submitted)
    @work(group="save")
    async def action_save(self) -> None:
        if self._saving:
            return
        text = self.query_one(QueryText).text
        if text == self._original_text:
            self._leave()
            return
        self._saving = True
        try:
            self.changed = await self._ask(EditQuery(self._row.id, text))
        except EngineError as error:
            if self.is_attached:
                self.query_one("#edit-note", SafeStatic).update(format_error(error))
        finally:
            self._saving = False
        if self.changed is not None:
            self._leave()

    def _leave(self) -> None:
        """Close with the changed query, unless another screen is on top of this one.

        In that case `on_screen_resume` closes it later.
        """
        if self.is_active:
            self.dismiss(self.changed)

    def on_screen_resume(self) -> None:
        if self.changed is not None:
            self._leave()

    def action_close(self) -> None:
        """Close without a change; ask first if the query was edited.

        Does nothing while the query is being saved.
        """
        if self._saving or not self.is_active:
            return
        if self.query_one(QueryText).text == self._original_text:
            self._leave()
            return
        ask(
            self.app,
            "Close without saving?",
            "The query's new text would be lost.",
            (("stay", "Go on editing"), ("leave", "Leave it as it was")),
            leave=self._leave,
        )
