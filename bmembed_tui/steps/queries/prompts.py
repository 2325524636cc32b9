"""The prompts with which a language model writes queries, to read."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import TextArea

from bmembed_tui.widgets.safe import SafeButton, SafeStatic
from engine.core.assets import asset_path
from engine.core.text import visible
from engine.settings.schema import QuerySettings

NOTE = (
    "Places such as $passage are filled in for each chunk. The built-in generator asks no model and"
    " needs no prompt."
)


def read_prompts(settings: QuerySettings) -> str:
    """Return the text of the prompts that a model gets, each below the path of its file.

    Raises OSError where a file is missing.
    """
    parts = []
    for name in settings.prompt_names:
        path = asset_path(f"prompts/{name}.txt")
        parts.append(f"{path}\n\n{path.read_text(encoding='utf-8').strip()}")
    return "\n\n\n".join(parts)


class PromptsDialog(ModalScreen[None]):
    """The prompts as text, to read and to copy."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,p", "dismiss", "close", id="dialog.close-prompts"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog diagnostics-dialog"):
            yield SafeStatic("Prompts", classes="dialog-title")
            yield SafeStatic(NOTE)
            yield TextArea(
                visible(self._text, lines=True),
                read_only=True,
                id="prompts",
            )
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Close",
                    id="close",
                    variant="primary",
                    action="screen.dismiss",
                )

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()
