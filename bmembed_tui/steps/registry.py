"""The steps' panes, in order."""

from __future__ import annotations

from collections.abc import Iterator

from bmembed_tui.steps.base import StepPane


def pane_types() -> tuple[type[StepPane], ...]:
    """The steps' classes. Imported here, so that the first screen does not wait for them."""
    from bmembed_tui.steps.documents import DocumentsPane
    from bmembed_tui.steps.index import IndexPane
    from bmembed_tui.steps.model import ModelPane
    from bmembed_tui.steps.queries import QueriesPane
    from bmembed_tui.steps.result import ResultPane
    from bmembed_tui.steps.search import SearchPane
    from bmembed_tui.steps.train import TrainPane

    return (DocumentsPane, ModelPane, QueriesPane, IndexPane, TrainPane, ResultPane, SearchPane)


def panes() -> Iterator[StepPane]:
    """One pane for each step."""
    for kind in pane_types():
        yield kind(id=kind.step)
