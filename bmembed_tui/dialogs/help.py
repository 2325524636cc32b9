"""The help dialog: the help text of a screen or step, and the keys that work there."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen

from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeStatic

HELP_FOLDER = Path(__file__).parent.parent / "help"
GENERAL = """Tab and the arrows move, Enter activates what is selected. The mouse works everywhere.
Ctrl+P lists everything that can be done here. Ctrl+O puts a letter on every field and button."""
KEY_NAMES = {
    "question_mark": "?",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "slash": "/",
    "escape": "Esc",
    "enter": "Enter",
    "space": "Space",
    "backspace": "Backspace",
    "delete": "Del",
}


class HelpDialog(ModalScreen[None]):
    """Help for the current screen or step.

    `keys`: as `list_keys` returns them. A click outside the dialog closes it, too.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,question_mark,q", "dismiss", "close", id="dialog.close-help")
    ]

    def __init__(
        self,
        title: str,
        text: str,
        keys: list[tuple[str, str]],
    ) -> None:
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
                lines = [_format_key_line(key, text) for key, text in self._keys]
                yield SafeStatic(Content("\n").join(lines), id="help-keys")
            with Horizontal(classes="dialog-buttons"):
                yield SafeButton(
                    "Close",
                    id="close",
                    variant="primary",
                    action="screen.dismiss",
                )

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_click(self, event: events.Click) -> None:
        if self.get_widget_at(event.screen_x, event.screen_y)[0] is self:
            self.dismiss()


def read_help(name: str) -> str:
    """Return the help text of a screen or step from `bmembed_tui/help`; empty without a name."""
    if not name:
        return ""
    return (HELP_FOLDER / f"{name}.md").read_text(encoding="utf-8")


def _format_key_line(key: str, text: str) -> Content:
    return Content.assemble(plain(f"{key:>12}  ", "bold"), plain(text))


def list_keys(screen: Screen[object]) -> list[tuple[str, str]]:
    """Return the keys that work on a screen now, and what they do: ("+ Space", "right").

    All keys of an action are in one pair.
    """
    keys_by_action: dict[tuple[str, str], list[str]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        is_listed = binding.description and (binding.id or binding.show) and not binding.system
        if active.enabled and is_listed:
            keys = keys_by_action.setdefault((binding.action, binding.description), [])
            keys.append(format_key(binding.key))
    lines = []
    for (_, description), keys in keys_by_action.items():
        lines.append((" ".join(dict.fromkeys(keys)), description))
    return lines


def format_key(key: str) -> str:
    """Return a key as users know it: `ctrl+p` becomes `Ctrl+P`, `question_mark` becomes `?`."""
    *modifiers, last = key.split("+")
    is_function_key = last[:1] == "f" and last[1:].isdigit()
    if last in KEY_NAMES:
        name = KEY_NAMES[last]
    elif modifiers or is_function_key:
        name = last.upper()
    else:
        name = last
    return "+".join([*(modifier.capitalize() for modifier in modifiers), name])
