"""What this place is for, and the keys that work here."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen

from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic

GENERAL = """Tab and the arrows move, Enter activates what is selected. The mouse works everywhere.
Ctrl+P lists everything that can be done here. Ctrl+O puts a letter on every field and button."""
NAMES = {
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "slash": "/",
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "backspace": "Backspace",
    "delete": "Del",
}


class HelpDialog(ModalScreen[None]):
    """Help for the place that the user is at. A click beside it closes it, too."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,question_mark,q", "dismiss", "close", id="dialog.close-help")
    ]

    def __init__(self, title: str, text: str, keys: list[tuple[str, str]]) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._keys = keys

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog help-dialog"):
            yield SafeStatic(self._title, classes="dialog-title")
            with VerticalScroll(classes="dialog-body", can_focus=True):
                if self._text:
                    yield SafeStatic(f"{self._text.strip()}\n")
                yield SafeStatic(GENERAL)
                yield SafeStatic(
                    Content("\n").join(_line(key, text) for key, text in self._keys), id="help-keys"
                )
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton("Close", id="close", variant="primary", action="screen.dismiss")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_click(self, event: events.Click) -> None:
        if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss()


def _line(key: str, text: str) -> Content:
    return Content.assemble(plain(f"{key:>12}  ", "bold"), plain(text))


def keys_of(screen: Screen[object]) -> list[tuple[str, str]]:
    """(key, what it does) of everything that works on a screen now, each action once."""
    found: dict[tuple[str, str], list[str]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if (
            active.enabled
            and binding.description
            and (binding.id or binding.show)
            and not binding.system
        ):
            found.setdefault((binding.action, binding.description), []).append(
                key_name(binding.key)
            )
    return [(" ".join(dict.fromkeys(keys)), text) for (_action, text), keys in found.items()]


def key_name(key: str) -> str:
    """`ctrl+p` → `Ctrl+P`, `f1` → `F1`, `question_mark` → `?`."""
    *modifiers, last = key.split("+")
    shown = NAMES.get(last) or (
        last.upper() if modifiers or (last[:1] == "f" and last[1:].isdigit()) else last
    )
    return "+".join([*(part.capitalize() for part in modifiers), shown])
