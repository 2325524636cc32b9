"""The modes of a search in one line, each with its key; a click or an arrow chooses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from bmembed_tui.widgets.plain import plain


class Choice(NamedTuple):
    """`key`: what is pressed for it; `name`: what it is called; `mode`: whether it is one of the modes, of which one is on."""

    value: str
    key: str
    name: str
    mode: bool = True


class ModeLine(Widget, can_focus=True):
    """`›F5 hybrid‹ F6 semantic …`; the chosen one stands out by its signs, not by colour alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", show=False),
        Binding("right", "step(1)", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down,enter", "done", show=False),
    ]
    DEFAULT_CSS = """
    ModeLine { height: 1; width: 1fr; color: $text-muted; }
    ModeLine:focus { text-style: bold; }
    """

    @dataclass
    class Chosen(Message):
        """One was chosen."""

        value: str

    class Done(Message):
        """Down or Enter: on to the hits."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._choices: tuple[Choice, ...] = ()
        self._current = ""

    def show(self, choices: Sequence[Choice], current: str) -> None:
        if (tuple(choices), current) != (self._choices, self._current):
            self._choices, self._current = tuple(choices), current
            self.refresh()

    def _labels(self) -> list[str]:
        names = ((f"{one.key} {one.name}", one.value == self._current) for one in self._choices)
        return [f"›{name}‹" if is_current else f" {name} " for name, is_current in names]

    def render(self) -> Content:
        parts = []
        for one, label in zip(self._choices, self._labels(), strict=True):
            parts.append(plain(label, "bold reverse" if one.value == self._current else ""))
        return Content.assemble(*parts)

    def on_click(self, event: events.Click) -> None:
        event.stop()
        at = 0
        for one, label in zip(self._choices, self._labels(), strict=True):
            at += len(label)
            if event.x < at:
                self.post_message(self.Chosen(one.value))
                return

    def action_step(self, by: int) -> None:
        values = [one.value for one in self._choices if one.mode]
        if self._current in values:
            self.post_message(self.Chosen(values[(values.index(self._current) + by) % len(values)]))

    def action_done(self) -> None:
        self.post_message(self.Done())
