"""How far the queries of a project are, as a state and as text."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.client.progress import format_activity
from bmembed_tui.client.project_status import format_current_step
from bmembed_tui.client.run_history import History
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import mark_spans, plain
from engine.core.messages.project import UP_TO_DATE, ProjectStatus

OWN_STAGES = ("ingest", "index", "generate")
# Choices that are made only where a language model is used, or could have been.
MODEL_CHOICES = ("queries", "cost", "gpu layers")
NONE_MADE = (
    "✗ problem: no query could be made, so nothing can be trained. A sample shows why; choose"
    " another way below."
)


def find_queries_state(
    status: ProjectStatus,
    run: RunState,
    is_busy: bool,
) -> str:
    """Return unknown, unread, new, running, busy, stale or made.

    running: a run is at a stage up to generate, or is being started. busy: a run is at a later
    stage. `is_busy`: whether a run is in progress or being started.
    """
    if not status.stages:
        return "unknown"
    if is_busy:
        if run.running and run.current and run.current not in OWN_STAGES:
            return "busy"
        return "running"
    if status.state("ingest") == "to do" or status.state("index") == "to do":
        return "unread"
    if status.done("generate"):
        return "made"
    return "stale" if status.counts.get("queries") else "new"


def format_state(
    state: str,
    status: ProjectStatus,
    run: RunState,
) -> Content:
    """Return the line on the state, with what to do; empty if there is nothing to say."""
    if state == "unknown" and status.problem:
        return plain(f"✗ problem: {status.problem.what}", "bold $text-error")
    if state == "unknown":
        return plain("looking …", "$text-muted")
    if state == "unread":
        return plain(
            "· Queries are made from the documents' chunks. The documents have not been read yet."
        )
    if state == "running":
        return plain(format_activity(run), "bold $text-accent")
    if state == "busy":
        step = format_current_step(run)
        return plain(
            f"▶ A run is in progress ({step}). Queries can be changed when it has ended.",
            "$text-accent",
        )
    reason = status.stage("generate").reason
    if state == "made" and not status.counts.get("queries"):
        return plain(NONE_MADE, "bold $text-error")
    if state == "made":
        if reason == UP_TO_DATE:
            return Content("")
        return plain(f"· {reason}.", "$text-muted")
    if status.stage("generate").code:  # no query can be made before that is solved
        return plain(f"✗ problem: {reason}", "bold $text-error")
    if state == "stale":
        return plain(f"~ Out of date: {reason}. Generate the queries again.", "$text-warning")
    return Content("")


def format_generation(run: RunState, history: History) -> Content:
    """Return the report of the stage `generate`, of the run in progress or the last one.

    The report has automatic choices, if a language model was used or could have been, and warnings.
    Empty if there is none of this.
    """
    stage = history.find_report(run, "generate")
    lines = []
    if any(setting in stage.choices for setting in MODEL_CHOICES):
        for name, choice in stage.choices.items():
            lines.append(plain(f"· {name}: {choice.value} ({choice.reason})", "$text-muted"))
    lines += [plain(f"! {warning}", "$text-warning") for warning in stage.warnings]
    return Content("\n").join(lines)


def format_chunk(
    path: str, title: str, chunk: str, span: tuple[int, int] | None, evidence: str = ""
) -> Content:
    """Return a chunk below its document's path and title, with the evidence marked.

    `span`: the place of the evidence in the chunk. None if the chunk does not contain the evidence,
    which then follows the chunk.
    """
    heading = [plain(path, "$text-muted"), plain(title, "bold")]
    head = Content("\n").join(part for part in heading if part.plain)
    if chunk:
        body = mark_spans(
            chunk,
            [span] if span else [],
            lines=True,
        )
    else:
        body = plain("The document is gone.")
    parts = [
        head,
        Content("\n\n"),
        body,
    ]
    if evidence and span is None:
        parts.append(plain(f"\n\nIts evidence: {evidence}", lines=True))
    return Content.assemble(*parts)
