"""A list of the models on this machine, to choose one instead of typing its path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from bmembed_tui.widgets.change_line import await_or_show_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions, SafeStatic


class ModelList(Vertical):
    """A list of models, which `find` fills, with a note above it.

    `format_model`: returns the line of a model. `format_note`: returns the text above the list,
    given the models.
    """

    @dataclass
    class Chosen(Message):
        """A model of the list was chosen."""

        model: Any

    def __init__(
        self,
        format_model: Callable[[Any], Content],
        format_note: Callable[[Sequence[Any]], str],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._format_model = format_model
        self._format_note = format_note
        self._models: Sequence[Any] = ()

    def compose(self) -> ComposeResult:
        yield SafeStatic("", id="models-note")
        yield SafeOptions(id="models")

    def on_mount(self) -> None:
        self.query_one("#models").display = False

    @work(exclusive=True, group="models")
    async def find(self, models: Awaitable[Sequence[Any]]) -> None:
        """Show the models once they are found."""
        if not self._models:
            self._show_note(plain("Looking for models on this machine …", "$text-muted"))
        found_models = await await_or_show_error(
            self,
            models,
            self._show_note,
        )
        if found_models is not None:
            self._show(found_models)

    def _show_note(self, text: Content) -> None:
        self.query_one("#models-note", SafeStatic).update(text)

    def _show(self, models: Sequence[Any]) -> None:
        """Show the models, with the note above them."""
        self._models = models
        self._show_note(plain(self._format_note(models), "$text-muted"))
        options = self.query_one("#models", SafeOptions)
        options.display = bool(models)
        options.show(
            [(str(number), self._format_model(model)) for number, model in enumerate(models)]
        )

    @on(OptionList.OptionSelected, "#models")
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.post_message(self.Chosen(self._models[event.option_index]))
