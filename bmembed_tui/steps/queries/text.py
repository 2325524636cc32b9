"""Where the queries of a project stand, in a word and in words."""

from __future__ import annotations

from textual.content import Content

from bmembed_tui.client.progress import doing
from bmembed_tui.client.project_status import at_work
from bmembed_tui.client.run_history import History
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import marked, plain
from engine.core.messages.project import UP_TO_DATE, ProjectStatus

OWN_STAGES = ("ingest", "index", "generate")
BY_MODEL = (
    "queries",
    "cost",
    "gpu layers",
)  # shown only where a language model is used, or could have been
NONE_MADE = (
    "✗ problem: no query could be made, so nothing can be trained. A sample shows why; choose"
    " another way below."
)


def queries_state(status: ProjectStatus, run: RunState, going: bool) -> str:
    """unknown, unread, new, running (a stage up to generate), busy (a later one), stale or made.

    `going`: whether a run goes on, or is being started.
    """
    if not status.stages:
        return "unknown"
    if going:
        if run.running and run.current and run.current not in OWN_STAGES:
            return "busy"
        return "running"
    if status.state("ingest") == "to do" or status.state("index") == "to do":
        return "unread"
    if status.done("generate"):
        return "made"
    return "stale" if status.counts.get("queries") else "new"


def format_state(state: str, status: ProjectStatus, run: RunState) -> Content:
    """What the user should know first; empty where there is nothing to say."""
    if state == "unknown" and status.problem:
        return plain(f"✗ problem: {status.problem.what}", "bold $text-error")
    if state == "unknown":
        return plain("looking …", "$text-muted")
    if state == "unread":
        return plain(
            "· Queries are made from the documents' chunks. The documents have not been read yet."
        )
    if state == "running":
        return plain(doing(run), "bold $text-accent")
    if state == "busy":
        return plain(
            f"▶ A run is in progress ({at_work(run)}). Queries can be changed when it has ended.",
            "$text-accent",
        )
    reason = status.stage("generate").reason
    if state == "made" and not status.counts.get("queries"):
        return plain(NONE_MADE, "bold $text-error")
    if state == "made":
        if reason == UP_TO_DATE:
            return Content("")
        return plain(f"· {reason}.", "$text-muted")
    if status.stage("generate").code:  # no query can be made before its cure
        return plain(f"✗ problem: {reason}", "bold $text-error")
    if state == "stale":
        return plain(f"~ Out of date: {reason}. Generate the queries again.", "$text-warning")
    return Content("")


def format_generation(run: RunState, history: History) -> Content:
    """What the stage reports of how a language model is asked, what that takes and what each
    filter leaves, and its warnings; while it does not run, what it reported last. Empty where
    there is nothing of this.
    """
    stage = history.reported(run, "generate")
    choices = stage.choices
    warnings = stage.warnings
    if any(setting in choices for setting in BY_MODEL):
        generate = choices
    else:
        generate = {}
    lines = [
        plain(f"· {name}: {choice.value} ({choice.reason})", "$text-muted")
        for name, choice in generate.items()
    ]
    return Content("\n").join([*lines, *(plain(f"! {text}", "$text-warning") for text in warnings)])


def chunk_text(
    path: str, title: str, chunk: str, span: tuple[int, int] | None, evidence: str = ""
) -> Content:
    """A chunk under its document's path and title, the evidence marked.

    `evidence` follows where it is not in it.
    """
    parts = [
        Content("\n").join(
            part for part in (plain(path, "$text-muted"), plain(title, "bold")) if part.plain
        )
    ]
    parts.append(Content("\n\n"))
    parts.append(
        marked(chunk, [span] if span else [], lines=True)
        if chunk
        else plain("The document is gone.")
    )
    if evidence and span is None:
        parts.append(plain(f"\n\nIts evidence: {evidence}", lines=True))
    return Content.assemble(*parts)
