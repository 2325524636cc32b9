"""Jump mode: a letter on everything that can have the focus; the letter goes there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widget import Widget

from bmembed_tui.widgets.safe import SafeLabel

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


class JumpScreen(ModalScreen[Widget | None]):
    """Closes with the widget that was chosen, by its letter or a click on it, or None.

    Lies over the screen that it was called from.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="dialog.close-jump")
    ]

    def __init__(self, targets: Sequence[Widget]) -> None:
        super().__init__()
        self.targets = dict(zip(labels(len(targets)), targets, strict=True))
        self._typed = ""

    def compose(self) -> ComposeResult:
        for label, target in self.targets.items():
            tag = SafeLabel(label, classes="jump-label", name=label)
            tag.styles.offset = (target.region.x, target.region.y)
            yield tag

    def on_key(self, event: events.Key) -> None:
        if event.character is None or event.character not in LETTERS:
            return
        event.stop()
        self._typed += event.character
        if self._typed in self.targets:
            self.dismiss(self.targets[self._typed])
        elif not any(label.startswith(self._typed) for label in self.targets):
            self.dismiss(None)

    def on_click(self, event: events.Click) -> None:
        """A label goes to its place; a click beside all of them stays."""
        event.stop()
        clicked, _ = self.get_widget_at(event.screen_x, event.screen_y)
        self.dismiss(self.targets.get(clicked.name or ""))


def labels(count: int) -> list[str]:
    """`count` labels, none the beginning of another: single letters while they suffice, else
    pairs.
    """
    if count <= len(LETTERS):
        return list(LETTERS[:count])
    return ["".join(pair) for pair in product(LETTERS, LETTERS)][:count]


def targets(widgets: Sequence[Widget]) -> list[Widget]:
    """Those of a focus chain that are visible on the screen."""
    return [widget for widget in widgets if widget.region.area and widget.visible][
        : len(LETTERS) ** 2
    ]
