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
    """Labels over the screen below; closes with the widget chosen by letter or click, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "cancel", id="dialog.close-jump")
    ]

    def __init__(self, targets: Sequence[Widget]) -> None:
        super().__init__()
        self.targets = dict(zip(make_labels(len(targets)), targets, strict=True))
        self._typed = ""

    def compose(self) -> ComposeResult:
        for label, target in self.targets.items():
            tag = SafeLabel(
                label,
                classes="jump-label",
                name=label,
            )
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
        """Go to the widget whose label was clicked; a click elsewhere closes the labels."""
        event.stop()
        clicked, _ = self.get_widget_at(event.screen_x, event.screen_y)
        self.dismiss(self.targets.get(clicked.name or ""))


def make_labels(count: int) -> list[str]:
    """Return `count` labels: single letters while they suffice, else pairs.

    No label is the beginning of another.
    """
    if count <= len(LETTERS):
        return list(LETTERS[:count])
    return ["".join(pair) for pair in product(LETTERS, LETTERS)][:count]


def find_targets(widgets: Sequence[Widget]) -> list[Widget]:
    """Return the widgets of a focus chain that are visible on the screen."""
    targets = [widget for widget in widgets if widget.region.area and widget.visible]
    return targets[: len(LETTERS) ** 2]  # there are no more labels
