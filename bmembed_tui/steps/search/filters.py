"""Filters of a search: path, dates, and the types, authors and languages of the found documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Container, Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Button, Input, OptionList

from bmembed_tui.steps.search.model import FACETS, Filters
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeOptions
from engine.core.messages.search import MAX_FACETS
from engine.core.text import format_count, language_name, visible

EXAMPLES = {
    "paths": "contracts/**, *.md",
    "after": "YYYY-MM-DD",
    "before": "YYYY-MM-DD",
}


class FilterRow(Vertical):
    """Fields for path and dates, and a list of the found documents' facets with counts.

    Enter on a value of a facet turns it into a filter, and back.
    """

    class Changed(Message):
        """A filter was changed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._chosen = Filters()
        self._values: list[tuple[str, str]] = []  # facet and value of each line; notes have none
        self._counts: Mapping[str, Mapping[str, int]] = {}

    def compose(self) -> ComposeResult:
        with Container(id="filter-lines"):
            with Horizontal(classes="filter-line"):
                yield from _compose_field("paths")
            with Horizontal(classes="filter-line", id="filter-dates"):
                yield from _compose_field("after")
                yield from _compose_field("before")
                yield SafeButton("Clear", id="filter-clear")
        yield SafeOptions(id="filter-facets")

    @property
    def filters(self) -> Filters:
        """The filters that the fields and the chosen values describe."""
        return replace(
            self._chosen,
            paths=self.query_one("#filter-paths", Input).value,
            after=self.query_one("#filter-after", Input).value,
            before=self.query_one("#filter-before", Input).value,
        )

    def show_counts(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Show other counts. Chosen values are listed even if no found document has them."""
        self._counts = counts
        lines: dict[tuple[str, str], Content] = {}
        for facet in FACETS:
            facet_counts = counts.get(facet, {})
            for value in dict.fromkeys([*self._chosen.get_values(facet), *facet_counts]):
                lines[facet, value] = plain(self._format_value(facet, value))
            if len(facet_counts) >= MAX_FACETS:
                note = f"{facet:<9}  (at most {MAX_FACETS} are listed)"
                lines[facet, ""] = plain(note, "$text-muted")
        options = self.query_one("#filter-facets", SafeOptions)
        if options.has_focus and not lines:
            self.screen.focus_previous()  # neither a hidden widget nor its parents receive keys
        options.display = bool(lines)
        self._values = list(lines)
        entries = []
        for number, ((_, value), line) in enumerate(lines.items()):
            entries.append((str(number) if value else "", line))
        options.show(entries)

    def _format_value(self, facet: str, value: str) -> str:
        """Return the line of a value: the facet, a sign if it is chosen, its name and its count."""
        name = language_name(value) if facet == "language" else value
        sign = "✓" if value in self._chosen.get_values(facet) else " "
        text = f"{facet:<9}{sign} {name}"
        count = self._counts.get(facet, {}).get(value)
        if count is None:
            return text
        return f"{text}  {format_count(count, 'document')}"

    @on(OptionList.OptionSelected)
    def _toggle_value(self, event: OptionList.OptionSelected) -> None:
        """Turn the selected value into a filter, or no longer use it as one."""
        event.stop()
        self._chosen = self._chosen.toggle(*self._values[event.option_index])
        self.show_counts(self._counts)
        self.post_message(self.Changed())

    @on(Button.Pressed)
    def clear(self, event: Button.Pressed | None = None) -> None:
        """Remove all filters."""
        if event is not None:
            event.stop()
        self._chosen = Filters()
        for field in self.query(Input):
            field.value = ""
        self.show_counts(self._counts)
        self.post_message(self.Changed())

    @on(Input.Changed)
    def _report_change(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _go_to_next(self, event: Input.Submitted) -> None:
        event.stop()
        self.screen.focus_next()


def _compose_field(name: str) -> ComposeResult:
    yield SafeLabel(name.removesuffix("s"))
    yield Field(placeholder=visible(EXAMPLES[name]), id=f"filter-{name}")
