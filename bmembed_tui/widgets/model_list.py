"""Models on this machine, to choose one instead of typing its path."""

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

from bmembed_tui.widgets.change_line import answer_or_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions, SafeStatic


class ModelList(Vertical):
    """What a command finds: each as `line` has it. `note`: what stands above."""

    @dataclass
    class Chosen(Message):
        """A model of those that were found."""

        model: Any

    def __init__(
        self, line: Callable[[Any], Content], note: Callable[[Sequence[Any]], str], **options: Any
    ) -> None:
        super().__init__(**options)
        self._line = line
        self._note = note
        self._models: Sequence[Any] = ()

    def compose(self) -> ComposeResult:
        yield SafeStatic("", id="models-note")
        yield SafeOptions(id="models")

    def on_mount(self) -> None:
        self.query_one("#models").display = False

    @work(exclusive=True, group="models")
    async def look(self, models: Awaitable[Sequence[Any]]) -> None:
        """Show the models once they are found."""
        if not self._models:
            self._show_note(plain("Looking for models on this machine …", "$text-muted"))
        found = await answer_or_error(self, models, self._show_note)
        if found is not None:
            self._show(found)

    def _show_note(self, text: Content) -> None:
        self.query_one("#models-note", SafeStatic).update(text)

    def _show(self, models: Sequence[Any]) -> None:
        self._models = models
        self._show_note(plain(self._note(models), "$text-muted"))
        options = self.query_one("#models", SafeOptions)
        options.display = bool(models)
        options.show([(str(number), self._line(model)) for number, model in enumerate(models)])

    @on(OptionList.OptionSelected, "#models")
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.post_message(self.Chosen(self._models[event.option_index]))
