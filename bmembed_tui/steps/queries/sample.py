"""A sample: queries made from a few chunks, shown with their chunk, before a run makes them all."""

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

from bmembed_tui.client.engine_client import parse_answer, run_command
from bmembed_tui.steps.queries.text import format_chunk
from bmembed_tui.widgets.change_line import await_or_show_error
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeOptions, SafeStatic
from engine.core.messages.queries import QuerySample as Sample
from engine.core.messages.queries import SampledChunk, SampledQuery, SampleEstimate, evidence_span
from engine.core.records import query_label
from engine.core.text import approximate_duration

CHUNKS = 6  # chunks in a sample
WIDE = 84  # columns from which the chunk is shown next to the queries


async def make_sample(project: Path) -> Sample:
    """Return the answer of `engine sample`. Raises EngineError."""
    output = await run_command(
        "sample",
        str(project),
        "--count",
        str(CHUNKS),
        "--json",
    )
    return parse_answer(Sample, output)


class QuerySample(Container):
    """A sample of queries, the share that is kept, an estimate, and the highlighted query's chunk.

    `project`: the folder of the project. The sample is made in a process of its own, which `stop`
    ends.
    """

    class Changed(Message):
        """A sample has begun or ended."""

    def __init__(self, project: Path, **options: Any) -> None:
        super().__init__(**options)
        self._project = project
        # What the lines stand for: a query with its chunk, or a chunk without a query.
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
        sample = await await_or_show_error(
            self,
            make_sample(self._project),
            self.show_message,
        )
        if sample is not None:
            self.show(sample)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        event.stop()
        if self.is_attached:
            self.post_message(self.Changed())

    # Showing

    def show_message(self, text: Content | str) -> None:
        self._lines = []
        self.remove_class("-shown")
        self.query_one("#sample-summary", SafeStatic).update(text)

    def show(self, sample: Sample) -> None:
        """Show the queries, then the chunks without a query, then the basis of the estimate."""
        self._lines = []
        for chunk in sample.items:
            self._lines += [(chunk, query) for query in chunk.queries]
        self._lines += [(chunk, None) for chunk in sample.items if not chunk.queries]
        self.query_one("#sample-summary", SafeStatic).update(format_sample(sample))
        options = self.query_one("#sample-queries", SafeOptions)
        basis = plain(f"· The time is an estimate: {sample.estimate.basis}.", "$text-muted")
        lines = [
            (str(number), _format_line(chunk, query))
            for number, (chunk, query) in enumerate(self._lines)
        ]
        options.show([*lines, ("basis", basis)], "0")
        self.set_class(bool(self._lines), "-shown")
        self._show_chunk(0)

    @on(OptionList.OptionHighlighted, "#sample-queries")
    def _show_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._show_chunk(event.option_index)

    def _show_chunk(self, number: int) -> None:
        """Show the chunk of a line, with the evidence of the line's query marked."""
        if not 0 <= number < len(self._lines):
            return
        chunk, query = self._lines[number]
        evidence = query.evidence if query else ""
        span = evidence_span(evidence, chunk.chunk)
        text = format_chunk(
            chunk.path,
            chunk.title,
            chunk.chunk,
            span,
            evidence,
        )
        self.query_one("#sample-chunk", SafeStatic).update(text)
        self.query_one("#sample-source").scroll_home(animate=False)

    def on_resize(self) -> None:
        self.set_class(self.size.width >= WIDE, "-wide")


def _format_line(chunk: SampledChunk, query: SampledQuery | None) -> Content:
    """Return the line of a query, or of a chunk from which no query was made."""
    if query is None:
        problem = chunk.problem or "too little text"
        return plain(f"✗ no query from {chunk.path}: {problem}", "$text-muted")
    kind = plain(f"{query_label(query.kind)}: ", "$text-muted")
    if query.kept:
        return Content.assemble(
            plain("✓ ", "$text-success"),
            kind,
            plain(query.text),
        )
    reason = plain(f" — left out: {query.reason}", "$text-muted")
    return Content.assemble(
        plain("✗ ", "$text-error"),
        kind,
        plain(query.text),
        reason,
    )


def format_sample(sample: Sample) -> Content:
    """Return the share of queries that are kept, and how long all queries would take."""
    if not sample.items:
        return plain("No query could be made from these chunks.", "bold")
    query_count = 0
    kept_count = 0
    for chunk in sample.items:
        query_count += len(chunk.queries)
        kept_count += sum(query.kept for query in chunk.queries)
    model = f" by {sample.model}" if sample.model else ""
    share = f"{kept_count} of {query_count} queries kept ({sample.kept_share:.0%})"
    estimate = sample.estimate
    time = f"{approximate_duration(estimate.seconds)}{_format_check(estimate)}"
    return Content.assemble(
        plain(f"Sample of {len(sample.items)} chunks{model}: {share}. ", "bold"),
        plain(f"Queries for {estimate.chunks:,} different chunks: {time}."),
    )


def _format_check(estimate: SampleEstimate) -> str:
    """Return a note on the check by the base encoder, whose duration no sample shows."""
    if estimate.checked:
        return "; then the base encoder checks them against every chunk, which may take longer"
    return ""
