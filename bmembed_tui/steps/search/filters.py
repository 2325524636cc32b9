"""Filters of a search: path, type, dates, author, language; and what the found documents are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.message import Message
from textual.widgets import Button, Input

from bmembed_tui.steps.search.facets import FacetList
from bmembed_tui.steps.search.model import Filters
from bmembed_tui.widgets.plain import visible
from bmembed_tui.widgets.safe import SafeButton, SafeLabel, SafeStatic

FIELDS: Mapping[str, tuple[str, str]] = {
    "paths": ("path", "contracts/**, *.md"),
    "formats": ("type", "md txt"),
    "after": ("after", "YYYY-MM-DD"),
    "before": ("before", "YYYY-MM-DD"),
    "authors": ("author", "Ada, Quay"),
    "languages": ("lang", "en de"),
}
ROWS = (("paths", "formats"), ("after", "before"), ("authors", "languages"))


class CleanInput(Input):
    """An input that shows control characters instead of sending them to the terminal."""

    def validate_value(self, value: str) -> str:
        return visible(value)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Draw anew. Its size does not depend on its text: a letter typed lays nothing out."""
        return super().refresh(*regions, repaint=repaint, recompose=recompose)


class FilterRow(Vertical):
    """Six fields, and the facets, which write into them. `Changed` is posted at every key; errors stand below the fields."""

    class Changed(Message):
        """A filter was changed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.shown_problem = ""

    def compose(self) -> ComposeResult:
        for row in ROWS:
            with Horizontal(classes="filter-line"):
                for name in row:
                    label, example = FIELDS[name]
                    yield SafeLabel(label)
                    yield CleanInput(
                        placeholder=visible(example), compact=True, id=f"filter-{name}", select_on_focus=False
                    )
                if row is ROWS[-1]:
                    yield SafeButton("Clear", id="filter-clear")
        yield SafeStatic("", id="filter-problem")
        yield FacetList(id="filter-facets")

    def on_mount(self) -> None:
        self.query_one("#filter-problem").display = False

    @property
    def filters(self) -> Filters:
        return Filters(**{name: self.query_one(f"#filter-{name}", Input).value for name in FIELDS})

    def show_problem(self, problem: str) -> None:
        if problem != self.shown_problem:
            self.shown_problem = problem
            note = self.query_one("#filter-problem", SafeStatic)
            note.update(f"! {problem}" if problem else "")
            note.display = bool(problem)

    def count(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        self.query_one(FacetList).show(counts, self.filters)

    @on(FacetList.Chosen)
    def _facet_chosen(self, event: FacetList.Chosen) -> None:
        event.stop()
        wanted = self.filters.toggled(event.facet, event.value)
        for name in FIELDS:
            self.query_one(f"#filter-{name}", Input).value = getattr(wanted, name)

    def clear(self) -> None:
        for field in self.query(Input):
            field.value = ""

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.screen.focus_next()

    @on(Button.Pressed)
    def _pressed(self, event: Button.Pressed) -> None:
        event.stop()
        self.clear()
