"""The steps' panes, in order."""

from __future__ import annotations

from bmembed_tui.steps.base import StepPane


def pane_types() -> tuple[type[StepPane], ...]:
    """The steps' classes. Imported here, so that the first screen does not wait for them."""
    from bmembed_tui.steps.documents.pane import DocumentsPane
    from bmembed_tui.steps.index.pane import IndexPane
    from bmembed_tui.steps.model.pane import ModelPane
    from bmembed_tui.steps.queries.pane import QueriesPane
    from bmembed_tui.steps.result.pane import ResultPane
    from bmembed_tui.steps.search.pane import SearchPane
    from bmembed_tui.steps.train.pane import TrainPane

    return (DocumentsPane, ModelPane, QueriesPane, IndexPane, TrainPane, ResultPane, SearchPane)
