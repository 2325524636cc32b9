"""Queries made of a few chunks, each beside the chunk that it was made of, before a run makes
them all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Container, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.worker import Worker

from bmembed_tui.client.engine_client import command, parsed
from bmembed_tui.steps.queries.text import chunk_text
from bmembed_tui.widgets.change_line import answer_or_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions, SafeStatic
from engine.core.messages.queries import QuerySample as Sample
from engine.core.messages.queries import SampledChunk, SampledQuery, SampleEstimate, evidence_span
from engine.core.records import query_label
from engine.core.text import duration

CHUNKS = 6  # of a sample


async def make_sample(project: Path) -> Sample:
    """The answer of `engine sample`. Raises EngineError."""
    return parsed(Sample, await command("sample", str(project), "--count", str(CHUNKS), "--json"))


class QuerySample(Container):
    """The answer of `engine sample`: kept share and estimate, the queries, and the chunk of the
    highlighted one.

    `project`: the folder of the project. A sample runs in a process of its own, which ends with
        `stop`.
    """

    class Changed(Message):
        """A sample has begun or ended."""

    def __init__(self, project: Path, **options: Any) -> None:
        super().__init__(**options)
        self._project = project
        self._lines: list[tuple[SampledChunk, SampledQuery | None]] = []

    def compose(self) -> ComposeResult:
        yield SafeStatic("", id="sample-summary")
        with Container(id="sample-parts"):
            yield SafeOptions(id="sample-queries")
            with VerticalScroll(id="sample-source"):
                yield SafeStatic("", id="sample-chunk")

    @property
    def shown(self) -> bool:
        return bool(self._lines)

    # Sampling

    @property
    def sampling(self) -> bool:
        return any(worker.node is self and not worker.is_finished for worker in self.workers)

    def begin(self) -> None:
        self.show_message(f"Making queries of {CHUNKS} chunks … Esc stops.")
        self._sample()

    def stop(self) -> None:
        if self.sampling:
            self.workers.cancel_group(self, "sample")
            self.show_message("The sample was stopped. Press s to start again.")

    def forget(self) -> None:
        self.stop()
        self.show_message("")
        self.post_message(self.Changed())

    @work(exclusive=True, group="sample")
    async def _sample(self) -> None:
        if found := await answer_or_error(self, make_sample(self._project), self.show_message):
            self.show(found)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        event.stop()
        if self.is_attached:
            self.post_message(self.Changed())

    # Showing

    def show_message(self, text: Content | str) -> None:
        self._lines = []
        self.remove_class("-shown")
        self.query_one("#sample-summary", SafeStatic).update(text)

    def show(self, found: Sample) -> None:
        made = [(item, query) for item in found.items for query in item.queries]
        self._lines = [*made, *((item, None) for item in found.items if not item.queries)]
        self.query_one("#sample-summary", SafeStatic).update(sample_text(found))
        options = self.query_one("#sample-queries", SafeOptions)
        basis = plain(f"· The time is an estimate: {found.estimate.basis}.", "$text-muted")
        lines = [(str(number), _line(*line)) for number, line in enumerate(self._lines)]
        options.show([*lines, ("basis", basis)], "0")
        self.set_class(bool(self._lines), "-shown")
        self._show_chunk(0)

    @on(OptionList.OptionHighlighted, "#sample-queries")
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._show_chunk(event.option_index)

    def _show_chunk(self, number: int) -> None:
        if not 0 <= number < len(self._lines):
            return
        item, query = self._lines[number]
        evidence = query.evidence if query else ""
        span = evidence_span(evidence, item.chunk)
        text = chunk_text(item.path, item.title, item.chunk, span, evidence)
        self.query_one("#sample-chunk", SafeStatic).update(text)
        self.query_one("#sample-source").scroll_home(animate=False)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= 84, "-wide")


def _line(item: SampledChunk, query: SampledQuery | None) -> Content:
    if query is None:
        return plain(
            f"✗ no query from {item.path}: {item.problem or 'too little text'}", "$text-muted"
        )
    if query.kept:
        return Content.assemble(
            plain("✓ ", "$text-success"),
            plain(f"{query_label(query.kind)}: ", "$text-muted"),
            plain(query.text),
        )
    return Content.assemble(
        plain("✗ ", "$text-error"),
        plain(f"{query_label(query.kind)}: ", "$text-muted"),
        plain(query.text),
        plain(f" — left out: {query.reason}", "$text-muted"),
    )


def sample_text(found: Sample) -> Content:
    """Kept share, and what the whole corpus would take."""
    items = found.items
    estimate = found.estimate
    queries = [query for item in items for query in item.queries]
    kept = sum(query.kept for query in queries)
    model = f" by {found.model}" if found.model else ""
    if not items:
        return plain("No query could be made from these chunks.", "bold")
    share = f"{kept} of {len(queries)} queries kept ({found.kept_share:.0%})"
    return Content.assemble(
        plain(f"Sample of {len(items)} chunks{model}: {share}. ", "bold"),
        plain(
            f"Queries for {estimate.chunks:,} different chunks: about"
            f" {duration(estimate.seconds)}{_check(estimate)}."
        ),
    )


def _check(estimate: SampleEstimate) -> str:
    """What comes after the making, which no sample can time: the check by the base encoder."""
    if estimate.checked:
        return "; then the base encoder checks them against every chunk, which may take longer"
    return ""
