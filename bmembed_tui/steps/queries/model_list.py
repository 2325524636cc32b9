"""The GGUF language models on this machine, to choose one instead of typing its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList

from bmembed_tui.client.engine_client import command, parsed
from bmembed_tui.widgets.change_line import answer_or_error
from bmembed_tui.widgets.folder_tree import size_text
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions, SafeStatic
from engine.core.messages.queries import ModelFile

NONE_FOUND = "No GGUF file was found in our own folder, nor in those of LM Studio, Ollama and the Hugging Face cache."


async def find_models(context: int) -> tuple[ModelFile, ...]:
    """The models on this machine. Raises EngineError."""
    return parsed(tuple[ModelFile, ...], await command("models", "--context", str(context), "--json"))


class ModelList(Vertical):
    """The answer of `engine models`: what each is, and whether it can be used and fits into memory."""

    @dataclass
    class Chosen(Message):
        """A model. `problem`: why it cannot be used, else empty."""

        path: Path
        problem: str

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._models: Sequence[ModelFile] = ()

    def compose(self) -> ComposeResult:
        yield SafeStatic("", id="models-note")
        yield SafeOptions(id="models")

    def on_mount(self) -> None:
        self.query_one("#models").display = False

    @work(exclusive=True, group="models")
    async def look(self, context: int) -> None:
        """Find the models. `context`: tokens that they are to keep memory for."""
        if not self._models:
            self._show_note(plain("Looking for GGUF files on this machine …", "$text-muted"))
        found = await answer_or_error(self, find_models(context), self._show_note)
        if found is not None:
            self._show(found)

    def _show_note(self, text: Content) -> None:
        self.query_one("#models-note", SafeStatic).update(text)

    def _show(self, models: Sequence[ModelFile]) -> None:
        self._models = models
        count = f"{len(models)} GGUF file{'s' if len(models) > 1 else ''} on this machine; Enter takes one:"
        self._show_note(plain(count if models else NONE_FOUND, "$text-muted"))
        options = self.query_one("#models", SafeOptions)
        options.display = bool(models)
        options.show([(str(number), model_line(model)) for number, model in enumerate(models)])

    @on(OptionList.OptionSelected, "#models")
    def _selected(self, event: OptionList.OptionSelected) -> None:
        model = self._models[event.option_index]
        self.post_message(self.Chosen(model.path, model.problem))


def model_line(model: ModelFile) -> Content:
    """`✓ tiny.gguf  LM Studio, 4.4 GB, llama Q4_K_M: fits, takes 5.1 GB`."""
    kind = " ".join(part for part in (model.architecture, model.quantisation) if part)
    facts = ", ".join(part for part in (model.place, size_text(model.size), kind) if part)
    sign, verdict, style = _verdict(model)
    return Content.assemble(
        plain(f"{sign} ", style), plain(", ".join(model.names)), plain(f"  {facts}: {verdict}", "$text-muted")
    )


def _verdict(model: ModelFile) -> tuple[str, str, str]:
    if model.problem:
        return "✗", model.problem, "$text-error"
    if not model.fits:
        return "~", f"takes {size_text(model.memory)}, more memory than is free", "$text-warning"
    return "✓", f"fits, takes {size_text(model.memory)}", "$text-success"
