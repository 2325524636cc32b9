"""One of a few: the choices side by side, the chosen one marked by a sign.

Left and right move, Enter chooses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from bmembed_tui.widgets.plain import plain
from engine.core.text import visible

LABEL_WIDTH = 10


class Choice(NamedTuple):
    """A value and how it is called."""

    value: str
    name: str


class _Place(NamedTuple):
    number: int
    line: int
    column: int


class ChoiceRow(Widget, can_focus=True):
    """A label and its choices, on as many lines as they need.

    `value` is the chosen one; nothing is chosen by moving.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", show=False),
        Binding("right", "move(1)", show=False),
        Binding("up", "app.focus_previous", show=False),
        Binding("down", "app.focus_next", show=False),
        Binding("enter,space", "choose", "choose", show=False),
    ]
    DEFAULT_CSS = """
    ChoiceRow { width: 1fr; height: auto; }
    """

    @dataclass
    class Chosen(Message):
        """The user chose another value."""

        row: ChoiceRow
        value: str

        @property
        def control(self) -> ChoiceRow:
            return self.row

    def __init__(
        self, label: str, choices: Sequence[tuple[str, str]], value: str = "", **options: Any
    ) -> None:
        super().__init__(**options)
        self._label = f"{label:<{LABEL_WIDTH}}" if label else ""
        self._choices = [Choice(*choice) for choice in choices]
        self.value = value
        self._cursor = 0
        self._to_value()

    @property
    def values(self) -> list[str]:
        return [choice.value for choice in self._choices]

    def show(self, value: str, choices: Sequence[tuple[str, str]] | None = None) -> None:
        """Show another value, and other choices. A value that is none of them is added to them."""
        if choices is None:
            made = self._choices
        else:
            made = [Choice(*choice) for choice in choices]
        if value and value not in (choice.value for choice in made):
            made = [*made, Choice(value, value)]
        if (value, made) == (self.value, self._choices):
            return
        self.value = value
        self._choices = made
        self._to_value()
        self.refresh(layout=True)

    def _to_value(self) -> None:
        self._cursor = next(
            (n for n, choice in enumerate(self._choices) if choice.value == self.value), 0
        )

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1 + max((place.line for place in self._places(width)), default=0)

    def _places(self, width: int) -> Iterator[_Place]:
        """Where each choice stands; a sign and a space before its name, two spaces after it."""
        line = 0
        column = len(self._label)
        for number, choice in enumerate(self._choices):
            wide = 2 + cell_len(visible(choice.name))
            if column > len(self._label) and column + wide > width:
                line = line + 1
                column = len(self._label)
            yield _Place(number, line, column)
            column += wide + 1

    def render(self) -> Content:
        lines = [plain(self._label, "bold")]
        for number, line, _ in self._places(self.content_size.width):
            if line == len(lines):
                lines.append(plain(" " * len(self._label)))
            lines[line] = Content.assemble(lines[line], self._drawn(number), " ")
        return Content("\n").join(lines)

    def _drawn(self, number: int) -> Content:
        choice = self._choices[number]
        chosen = choice.value == self.value
        if chosen:
            style = "bold $text-primary"
        elif self.disabled:
            style = "$text-muted"
        else:
            style = ""
        if self.has_focus and number == self._cursor:
            style += " reverse"
        return plain(f"{'●' if chosen else '○'} {choice.name}", style.strip())

    # Choosing

    def action_move(self, by: int) -> None:
        self._cursor = max(0, min(len(self._choices) - 1, self._cursor + by))
        self.refresh()

    def action_choose(self) -> None:
        """Take the choice at the cursor; where it is taken already, go on to the next field."""
        if not self._choices or self._choices[self._cursor].value == self.value:
            self.screen.focus_next()
            return
        self.value = self._choices[self._cursor].value
        self.refresh()
        self.post_message(self.Chosen(self, self.value))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        for number, line, column in self._places(self.content_size.width):
            end = column + 2 + cell_len(visible(self._choices[number].name))
            if (
                line == event.y
                and column <= event.x < end
                and self._choices[number].value != self.value
            ):
                self._cursor = number
                self.action_choose()
                return

    def on_blur(self) -> None:
        self._to_value()
