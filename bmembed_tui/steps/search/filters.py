"""Filters of a search: path and dates, and what the found documents are, to choose from."""

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

from bmembed_tui.client.progress import count
from bmembed_tui.steps.search.model import FACETS, Filters
from bmembed_tui.widgets.fields import Field
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeOptions
from engine.core.messages.search import MAX_FACETS
from engine.core.text import language_name, visible

EXAMPLES = {"paths": "contracts/**, *.md", "after": "YYYY-MM-DD", "before": "YYYY-MM-DD"}


class FilterRow(Vertical):
    """Fields for path and dates; types, authors and languages of the found documents with their
    counts, of which Enter takes one as a filter, and again lets it go.
    """

    class Changed(Message):
        """A filter was changed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._chosen = Filters()
        self._values: list[tuple[str, str]] = []
        self._counts: Mapping[str, Mapping[str, int]] = {}

    def compose(self) -> ComposeResult:
        with Container(id="filter-lines"):
            with Horizontal(classes="filter-line"):
                yield from _field("paths")
            with Horizontal(classes="filter-line", id="filter-dates"):
                yield from _field("after")
                yield from _field("before")
                yield SafeButton("Clear", id="filter-clear")
        yield SafeOptions(id="filter-facets")

    @property
    def filters(self) -> Filters:
        paths, after, before = (self.query_one(f"#filter-{name}", Input).value for name in EXAMPLES)
        return replace(self._chosen, paths=paths, after=after, before=before)

    def count(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Other counts. What is chosen stands there also where nothing found has it."""
        self._counts = counts
        lines: dict[tuple[str, str], Content] = {}
        for facet in FACETS:
            found = counts.get(facet, {})
            chosen = self._chosen.of(facet)
            for value in dict.fromkeys([*chosen, *found]):
                if facet == "language":
                    name = language_name(value)
                else:
                    name = value
                text = f"{facet:<9}{'✓' if value in chosen else ' '} {name}"
                lines[facet, value] = plain(
                    f"{text}  {count(found[value], 'document')}" if value in found else text
                )
            if len(found) >= MAX_FACETS:
                lines[facet, ""] = plain(
                    f"{facet:<9}  (at most {MAX_FACETS} are listed)", "$text-muted"
                )
        options = self.query_one("#filter-facets", SafeOptions)
        if options.has_focus and not lines:
            self.screen.focus_previous()  # what is hidden hears no key, nor do those around it
        options.display = bool(lines)
        self._values = list(lines)
        options.show(
            [(value and str(place), line) for place, ((_, value), line) in enumerate(lines.items())]
        )

    @on(OptionList.OptionSelected)
    def _facet_chosen(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._chosen = self._chosen.toggled(*self._values[event.option_index])
        self.count(self._counts)
        self.post_message(self.Changed())

    @on(Button.Pressed)
    def clear(self, event: Button.Pressed | None = None) -> None:
        if event is not None:
            event.stop()
        self._chosen = Filters()
        for field in self.query(Input):
            field.value = ""
        self.count(self._counts)
        self.post_message(self.Changed())

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.screen.focus_next()


def _field(name: str) -> ComposeResult:
    yield SafeLabel(name.removesuffix("s"))
    yield Field(placeholder=visible(EXAMPLES[name]), id=f"filter-{name}")
