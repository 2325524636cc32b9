"""A choice of one among a few values, shown side by side with a sign at the chosen one.

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
    """A value and its label."""

    value: str
    label: str


class _Place(NamedTuple):
    """Where a choice stands in the widget. `number`: the index of the choice."""

    number: int
    line: int
    column: int
    width: int


class ChoiceRow(Widget, can_focus=True):
    """A label and its choices, on as many lines as they need.

    `choices`: (value, label) pairs. `value` is the chosen one; moving the cursor chooses nothing.
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
        self._reset_cursor()

    @property
    def values(self) -> list[str]:
        return [choice.value for choice in self._choices]

    def show(self, value: str, choices: Sequence[tuple[str, str]] | None = None) -> None:
        """Show another value, and other choices if given. An unknown value is added as a choice."""
        if choices is None:
            new_choices = self._choices
        else:
            new_choices = [Choice(*choice) for choice in choices]
        if value and all(choice.value != value for choice in new_choices):
            new_choices = [*new_choices, Choice(value, value)]
        if (value, new_choices) == (self.value, self._choices):
            return
        self.value = value
        self._choices = new_choices
        self._reset_cursor()
        self.refresh(layout=True)

    def _reset_cursor(self) -> None:
        """Put the cursor on the chosen value."""
        values = self.values
        self._cursor = values.index(self.value) if self.value in values else 0

    # Drawing

    def get_content_height(
        self,
        container: Size,
        viewport: Size,
        width: int,
    ) -> int:
        return 1 + max((place.line for place in self._find_places(width)), default=0)

    def _find_places(self, width: int) -> Iterator[_Place]:
        """Return where each choice stands in `width` columns.

        A choice takes a sign and a space before its label, and a space after it.
        """
        line = 0
        first_column = len(self._label)
        column = first_column
        for number, choice in enumerate(self._choices):
            choice_width = 2 + cell_len(visible(choice.label))
            if column > first_column and column + choice_width > width:
                line += 1
                column = first_column
            yield _Place(
                number,
                line,
                column,
                choice_width,
            )
            column += choice_width + 1

    def render(self) -> Content:
        lines = [plain(self._label, "bold")]
        for place in self._find_places(self.content_size.width):
            if place.line == len(lines):
                lines.append(plain(" " * len(self._label)))
            lines[place.line] = Content.assemble(
                lines[place.line], self._render_choice(place.number), " "
            )
        return Content("\n").join(lines)

    def _render_choice(self, number: int) -> Content:
        """Return a choice with its sign; reversed if the cursor is on it."""
        choice = self._choices[number]
        if choice.value == self.value:
            sign = "●"
            style = "bold $text-primary"
        else:
            sign = "○"
            style = "$text-muted" if self.disabled else ""
        if self.has_focus and number == self._cursor:
            style += " reverse"
        return plain(f"{sign} {choice.label}", style.strip())

    # Choosing

    def action_move(self, by: int) -> None:
        self._cursor = max(0, min(len(self._choices) - 1, self._cursor + by))
        self.refresh()

    def action_choose(self) -> None:
        """Choose the value at the cursor; if it is chosen already, go on to the next field."""
        if not self._choices or self._choices[self._cursor].value == self.value:
            self.screen.focus_next()
            return
        self.value = self._choices[self._cursor].value
        self.refresh()
        self.post_message(self.Chosen(self, self.value))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        for place in self._find_places(self.content_size.width):
            end = place.column + place.width
            is_hit = place.line == event.y and place.column <= event.x < end
            if is_hit and self._choices[place.number].value != self.value:
                self._cursor = place.number
                self.action_choose()
                return

    def on_blur(self) -> None:
        self._reset_cursor()
