"""The texts of step Index, as pure functions."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from bmembed_tui.client.progress import format_activity
from bmembed_tui.client.run_history import History
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.widgets.plain import plain
from engine.core.messages.project import ProjectStatus
from engine.core.text import duration, format_count

STAGES = ("ingest", "index", "generate", "rank")  # what this step runs
NOTHING = (
    "Keyword search (BM25) finds chunks by the words of the query; rare words count more. It needs"
    " no encoder and is ready in seconds: you can search as soon as the index is built.\n"
    "\n"
    "Then every training query is looked up with it. These rankings are what the encoder learns"
    " from."
)
HEAD = 12  # columns for the heading of a line
# The automatic choices that are shown, with their headings.
CHOICES = {
    "language": "  language",
    "other languages": "  others",
    "k": "  depth",
}


def format_status(
    status: ProjectStatus,
    state: RunState,
    history: History,
) -> Content:
    """Return a few lines each on the index and the rankings, and their progress in a run."""
    lines = []
    if state.running and state.current in STAGES:
        lines.append(plain(format_activity(state), "bold $text-accent"))
    if not status.built("index"):
        return Content("\n").join(lines) if lines else plain(NOTHING, lines=True)
    index = history.find_record(state, "index") or StageRun("index")
    rank = history.find_record(state, "rank") or StageRun("rank")
    chunks = format_count(status.counts.get("chunks", 0), "chunk")
    lines.append(_format_line("Keywords", f"{chunks}{_format_seconds(index)}"))
    lines += _format_details(status, index)
    if status.built("rank"):
        lines.append(_format_line("Rankings", _format_rankings(status, rank)))
        lines += _format_details(status, rank)
    elif not state.running:
        to_do = "to do" if status.counts.get("queries") else "to do: they need queries"
        lines.append(_format_line("Rankings", to_do))
    return Content("\n").join(lines)


def _format_line(heading: str, text: str) -> Content:
    return Content.assemble(plain(f"{heading:<{HEAD}}", "bold"), plain(text))


def _format_seconds(record: StageRun) -> str:
    if record.seconds:
        return f", built in {duration(record.seconds)}"
    return ""


def _format_rankings(status: ProjectStatus, record: StageRun) -> str:
    """Return `132 lists, one for each query: its best 100 chunks, built in 3 s`."""
    list_count = record.summary.get("queries", status.counts.get("queries", 0))
    if not list_count or not isinstance(list_count, int):
        return "none: without training queries, nothing can be trained"
    k = record.summary.get("k")
    depth = ""
    if isinstance(k, int):
        depth = f": its best {k:,} chunks"
    return f"{list_count:,} lists, one for each query{depth}{_format_seconds(record)}"


def _format_details(status: ProjectStatus, record: StageRun) -> Iterator[Content]:
    """Return why a stage is out of date, its automatic choices, and its warnings."""
    if status.state(record.stage) == "stale":
        yield plain(f"  out of date: {status.stage(record.stage).reason}", "$text-warning")
    for setting, choice in record.choices.items():
        if setting in CHOICES:
            yield _format_line(CHOICES[setting], f"{choice.value}: {choice.reason}")
    yield from (plain(f"  ! {text}", "$text-warning") for text in record.warnings)
