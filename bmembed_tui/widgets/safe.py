"""Textual's widgets that show text, made safe: strings are shown as typed, never read as markup.

Screens use only these widgets; the lint rule (`make lint`) forbids the originals outside this
module.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Size
from textual.visual import VisualType
from textual.widgets import Button, DataTable, Label, OptionList, Static, Tree
from textual.widgets.option_list import Option

from bmembed_tui.widgets.plain import plain, rich_text

Data = TypeVar("Data")


def _to_content(text: VisualType) -> VisualType:
    """Return a string as content that is no markup; anything else as it is."""
    if isinstance(text, str):
        return plain(text, lines=True)
    return text


class SafeStatic(Static):
    """A `Static` that shows strings as typed."""

    def __init__(self, content: VisualType = "", **options: Any) -> None:
        super().__init__(_to_content(content), **{**options, "markup": False})

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        super().update(_to_content(content), layout=layout)


class SafeLabel(Label, SafeStatic):
    """A `Label` that shows strings as typed."""


class SafeButton(Button):
    """A `Button` whose label is shown as typed.

    Left and right move between the buttons of a row.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,up", "app.focus_previous", show=False),
        Binding("right,down", "app.focus_next", show=False),
    ]

    def __init__(self, label: str = "", **options: Any) -> None:
        super().__init__(plain(label), **options)

    def validate_label(self, label: Any) -> Content:
        if isinstance(label, str):
            return plain(label)
        return super().validate_label(label)

    def watch_label(self) -> None:
        self.refresh(layout=True)


class SafeOptions(OptionList):
    """An `OptionList` whose prompts are shown as typed."""

    def __init__(self, *options: Any, **settings: Any) -> None:
        super().__init__(*options, **{**settings, "markup": False})

    def get_content_height(
        self,
        container: Size,
        viewport: Size,
        width: int,
    ) -> int:
        """Return the height, also at widths where OptionList cannot wrap its prompts."""
        return super().get_content_height(
            container,
            viewport,
            max(width, self._get_min_width()),
        )

    def _get_min_width(self) -> int:
        """Return the width that leaves an option one column besides its padding."""
        return 1 + self.get_component_styles("option-list--option").padding.width

    def show(
        self, options: Iterable[tuple[str, VisualType]], highlighted: str | None = None
    ) -> None:
        """Replace all options by (id, prompt) pairs; headings have the id "".

        `highlighted`: the id of the option to highlight; without it, or if there is no such option,
        the highlight stays at its place as far as possible.
        """
        former_index = self.highlighted or 0
        new_options = [
            Option(_to_content(prompt), id=key or None, disabled=not key) for key, prompt in options
        ]
        self.set_options(new_options)
        if highlighted is not None and any(option.id == highlighted for option in new_options):
            self.highlighted = self.get_option_index(highlighted)
            return
        selectable = [index for index, option in enumerate(new_options) if not option.disabled]
        if selectable:
            following = [index for index in selectable if index >= former_index]
            self.highlighted = following[0] if following else selectable[-1]


class SafeTable(DataTable[Any]):
    """A `DataTable` whose string cells and headings are shown as typed."""

    def watch_virtual_size(self) -> None:
        """Redraw the headings when rows have widened their columns, as `DataTable` does not."""
        self.notify_style_update()

    def add_column(self, label: Any, **options: Any) -> Any:
        return super().add_column(_to_cell(label), **options)

    def add_row(self, *cells: Any, **options: Any) -> Any:
        label = _to_cell(options.pop("label", None))
        return super().add_row(
            *map(_to_cell, cells),
            label=label,
            **options,
        )

    def update_cell(
        self,
        row_key: Any,
        column_key: Any,
        value: Any,
        **options: Any,
    ) -> None:
        super().update_cell(
            row_key,
            column_key,
            _to_cell(value),
            **options,
        )


class SafeTree(Tree[Data]):
    """A `Tree` whose labels are shown as typed."""

    def process_label(self, label: Any) -> Text:
        if isinstance(label, str):
            return rich_text(label)
        return super().process_label(label)


def _to_cell(value: Any) -> Any:
    """Return a string as text that is no markup; anything else as it is."""
    if isinstance(value, str):
        return rich_text(value)
    return value
