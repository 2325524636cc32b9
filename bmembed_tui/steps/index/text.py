"""What the Index step says in words and numbers. Pure: state in, text out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.content import Content

from bmembed_tui.client.run_history import History, StageRecord
from bmembed_tui.client.run_state import RunState
from bmembed_tui.steps.progress import bar
from bmembed_tui.widgets.folder_tree import size_text
from bmembed_tui.widgets.plain import marked, plain
from engine.core.messages.project import ProjectStatus
from engine.core.messages.search import Found
from engine.core.text import duration

OWN_STAGES = ("index", "rank")
NOTHING = """BM25 finds chunks by their exact words, weighing rare words more. It needs no model and is ready in seconds: \
search works as soon as it is built.

Then every training query is looked up with it. These rankings are what the encoder learns from."""
SHOWN = 5
HEAD = 12


@dataclass(frozen=True)
class Facts:
    """What is known besides the runs. `size`: bytes of the index on disk, None while not known."""

    size: int | None = None
    settings: Mapping[str, Mapping[str, Any]] | None = None
    preset: Mapping[str, Any] | None = None

    @property
    def objective(self) -> str:
        chosen = (self.settings or {}).get("training", {}).get("objective") or (self.preset or {}).get("objective")
        return str(chosen or "")


def format_status(status: ProjectStatus, state: RunState, history: History, facts: Facts) -> Content:
    """Index and rankings, a few lines each; progress while they are made."""
    lines = list(_progress(state))
    index, rank = (history.record(state, stage) for stage in OWN_STAGES)
    if not status.built("index") and not lines:
        return plain(NOTHING, lines=True)
    if status.built("index"):
        lines += _index(status, index, facts)
    if status.built("rank"):
        lines += _rankings(status, rank, facts)
    elif status.built("index") and not state.running:
        lines.append(_line("Rankings", "to do: they need the queries"))
    return Content("\n").join(lines)


def _line(head: str, text: str) -> Content:
    return Content.assemble(plain(f"{head:<{HEAD}}", "bold"), plain(text))


def _progress(state: RunState) -> Iterator[Content]:
    run = state.stages.get(state.current)
    if not state.running or run is None or state.current not in ("ingest", "index", "generate", "rank"):
        return
    how = "paused" if state.paused else "at work"
    progress = run.progress
    if progress is None or progress.total <= 0:
        yield Content.assemble(plain(f"{state.current}: {how} …", "bold $text-accent"))
        return
    share = progress.done / progress.total
    yield Content.assemble(
        plain(f"{state.current}: {how}  ", "bold $text-accent"), plain(bar(share), "$text-primary"),
        plain(f" {progress.done:,} of {progress.total:,} {progress.unit}"),
    )  # fmt: skip


def _index(status: ProjectStatus, record: StageRecord | None, facts: Facts) -> Iterator[Content]:
    summary = record.summary if record else {}
    chunks = summary.get("chunks", status.counts.get("chunks", 0))
    parts = [f"{chunks:,} chunks" if isinstance(chunks, int) else ""]
    parts.append(size_text(facts.size) if facts.size is not None else "")
    parts.append(f"built in {duration(record.seconds)}" if record else "")
    yield _line("BM25 index", ", ".join(part for part in parts if part))
    yield from _stale(status, "index")
    language = record.choices.get("language") if record else None
    if language is not None:
        yield _line("  language", f"{language.value}: {language.reason}")
    elif "language" in summary:
        yield _line("  language", f"{summary['language']}: as set")
    others = record.choices.get("other languages") if record else None
    if others is not None:
        yield _line("  others", f"{others.value}: {others.reason}")
    if summary.get("updated"):
        yield _line("  updated", f"{summary.get('added')} chunks added, {summary.get('removed')} removed")
    yield from _warnings(record)


def _rankings(status: ProjectStatus, record: StageRecord | None, facts: Facts) -> Iterator[Content]:
    summary, settings = (record.summary if record else {}), (facts.settings or {}).get("ranking", {})
    lists = summary.get("queries", status.counts.get("queries", 0))
    depth = summary.get("k", settings.get("k"))
    text = f"{lists:,} lists, one for each query" if isinstance(lists, int) else ""
    text += f": its best {depth:,} chunks (k = {depth})" if isinstance(depth, int) else ""
    text += f", mined in {duration(record.seconds)}" if record else ""
    yield _line("Rankings", text if lists else "none: there are no training queries, so nothing can be trained")
    yield from _stale(status, "rank")
    choice = record.choices.get("k") if record else None
    if choice is not None:
        yield _line("  depth", f"{choice.value}: {choice.reason}")
    m = settings.get("m")
    if m is not None and facts.objective in ("listnet", "listmle"):
        yield _line("  intervals", f"m = {m}, {settings.get('strategy')}: training draws one chunk from each")
    elif m is not None and facts.objective:
        compared = (
            "a query's own negatives" if facts.objective in ("triplet", "plackett_luce") else "all chunks of a batch"
        )
        yield _line("  intervals", f"not used: the loss '{facts.objective}' compares {compared}")
    yield from _warnings(record)


def _stale(status: ProjectStatus, stage: str) -> Iterator[Content]:
    if status.state(stage) == "stale":
        yield plain(f"  out of date: {status.stage(stage).reason}", "$text-warning")


def _warnings(record: StageRecord | None) -> Iterator[Content]:
    for text in record.warnings if record else ():
        yield plain(f"  ! {text}", "$text-warning")


def format_hits(found: Found) -> Content:
    """The first hits of a search: path, then the place with its matched words."""
    lines = [plain(note, "$text-warning") for note in found.notes]
    for hit in found.hits[:SHOWN]:
        lines.append(Content.assemble(plain(f"{hit.rank}  {hit.score:.1f}  ", "$text-muted"), plain(hit.path, "bold")))
        lines.append(Content.assemble(plain("   "), marked(hit.snippet, hit.marks)))
    return Content("\n").join(lines) if lines else plain("No chunk holds these words.")


def index_size(project: Path) -> int | None:
    """Bytes of the newest BM25 index; None where there is none. Reads a folder; never raises."""
    try:
        folders = [path for path in (project / "lexical").iterdir() if path.is_dir() and not path.name.startswith(".")]
        newest = max(folders, key=lambda path: path.stat().st_mtime)
        return sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())
    except (OSError, ValueError):
        return None
