"""What the Index step says in words and numbers. Pure: state in, text out."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from bmembed_tui.client.progress import count, doing
from bmembed_tui.client.run_history import History
from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.widgets.plain import plain
from engine.core.messages.project import ProjectStatus
from engine.core.text import duration

STAGES = ("ingest", "index", "generate", "rank")  # what this step runs
NOTHING = """Keyword search (BM25) finds chunks by the words of the query; rare words count more. It needs no encoder and is ready \
in seconds: you can search as soon as the index is built.

Then every training query is looked up with it. These rankings are what the encoder learns from."""  # noqa: E501
HEAD = 12
CHOICES = {"language": "  language", "other languages": "  others", "k": "  depth"}


def format_status(status: ProjectStatus, state: RunState, history: History) -> Content:
    """Index and rankings, a few lines each; progress while they are made."""
    lines = []
    if state.running and state.current in STAGES:
        lines.append(plain(doing(state), "bold $text-accent"))
    if not status.built("index"):
        if lines:
            return Content("\n").join(lines)
        return plain(NOTHING, lines=True)
    index, rank = (history.record(state, stage) or StageRun(stage) for stage in ("index", "rank"))
    lines.append(
        _line("Keywords", count(status.counts.get("chunks", 0), "chunk") + _seconds(index))
    )
    lines += _details(status, index)
    if status.built("rank"):
        lines.append(_line("Rankings", _rankings(status, rank)))
        lines += _details(status, rank)
    elif not state.running:
        lines.append(
            _line(
                "Rankings", "to do" if status.counts.get("queries") else "to do: they need queries"
            )
        )
    return Content("\n").join(lines)


def _line(head: str, text: str) -> Content:
    return Content.assemble(plain(f"{head:<{HEAD}}", "bold"), plain(text))


def _seconds(record: StageRun) -> str:
    if record.seconds:
        return f", built in {duration(record.seconds)}"
    return ""


def _rankings(status: ProjectStatus, record: StageRun) -> str:
    lists = record.summary.get("queries", status.counts.get("queries", 0))
    k = record.summary.get("k")
    if not lists or not isinstance(lists, int):
        return "none: without training queries, nothing can be trained"
    if isinstance(k, int):
        depth = f": its best {k:,} chunks"
    else:
        depth = ""
    return f"{lists:,} lists, one for each query{depth}{_seconds(record)}"


def _details(status: ProjectStatus, record: StageRun) -> Iterator[Content]:
    if status.state(record.stage) == "stale":
        yield plain(f"  out of date: {status.stage(record.stage).reason}", "$text-warning")
    for setting, choice in record.choices.items():
        if setting in CHOICES:
            yield _line(CHOICES[setting], f"{choice.value}: {choice.reason}")
    yield from (plain(f"  ! {text}", "$text-warning") for text in record.warnings)
