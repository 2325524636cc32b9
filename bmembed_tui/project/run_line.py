"""The line at the top: the project's name, and what a run is doing."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from bmembed_tui.client.progress import STOPPED, format_progress
from bmembed_tui.client.project_status import format_current_step, format_step_titles
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.messages.project import ProjectStatus
from engine.core.text import approximate_duration, format_count

# How a run that did not finish has ended, by its state.
ENDINGS = {
    "failed": "failed",
    "cancelled": "was stopped; the next run resumes there",
    "lost": STOPPED,
}


class RunLine(SafeStatic):
    """The project's name, and the step and progress of its run."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(
            Content.assemble(plain(f" {name} ", "bold"), plain("  opening …")), **options
        )
        self._name = name
        self._drawn_activity: str | None = None

    def draw(
        self,
        status: ProjectStatus,
        run: RunState,
        requested: str = "",
    ) -> None:
        """Show the activity. `requested`: a control that has not taken effect yet."""
        activity = _format_activity(status, run, requested)
        if activity != self._drawn_activity:
            self._drawn_activity = activity
            self.update(Content.assemble(plain(f" {self._name} ", "bold"), plain(f"  {activity}")))


def _format_activity(
    status: ProjectStatus,
    run: RunState,
    requested: str,
) -> str:
    """Return what the run does, how it ended, what is wrong, or how many documents there are.

    `requested`: a control that has not taken effect yet, such as `pausing …`; empty for none.
    """
    if run.running or (status.running and not run.over):
        if not run.current:
            return requested or "starting …"
        if requested:
            state = requested.removesuffix(" …")
        elif run.paused:
            state = "paused"
        else:
            state = "running"
        progress = f"{format_current_step(run)}{format_progress(run)}"
        return f"{state}: {progress}{_format_estimate(run)}"
    if requested:
        return requested
    if run.state in ENDINGS and not _is_superseded(run, status):
        return f"the last run {ENDINGS[run.state]}"
    if status.problem:
        return f"✗ {status.problem.what}"
    if not status.counts:
        return ""
    documents = format_count(status.counts.get("documents", 0), "document")
    chunks = format_count(status.counts.get("chunks", 0), "chunk")
    return f"{documents} · {chunks}"


def _is_superseded(run: RunState, status: ProjectStatus) -> bool:
    """Return whether the stages that a cancelled run left unfinished are done by now."""
    unfinished = [
        name for name, stage in run.stages.items() if stage.state in ("running", "failed")
    ]
    return run.state == "cancelled" and status.done(*unfinished)


def _format_estimate(run: RunState) -> str:
    """Return the estimated time of the whole run, such as ` · about 15 minutes in all`.

    Empty without an estimate.
    """
    estimate = run.estimate
    if estimate is None or not estimate.seconds:
        return ""
    if estimate.unknown:
        scope = f"without {format_step_titles(estimate.unknown)}"
    else:
        scope = "in all"
    return f" · {approximate_duration(sum(estimate.seconds.values()))} {scope}"
