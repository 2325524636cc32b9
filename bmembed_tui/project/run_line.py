"""The head line: the project's name, and what a run is doing."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from bmembed_tui.client.progress import STOPPED, count, format_progress
from bmembed_tui.client.project_status import at_work, titles
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.messages.project import ProjectStatus
from engine.core.text import about

ENDINGS = {
    "failed": "failed",
    "cancelled": "was stopped; the next run resumes there",
    "lost": STOPPED,
}


class RunLine(SafeStatic):
    """One line: project · step · progress."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(
            Content.assemble(plain(f" {name} ", "bold"), plain("  opening …")), **options
        )
        self._name = name
        self._drawn: str | None = None

    def draw(self, status: ProjectStatus, run: RunState, requested: str = "") -> None:
        """`requested`: a control that has not taken effect yet."""
        activity = _activity(status, run, requested)
        if activity != self._drawn:
            self._drawn = activity
            self.update(Content.assemble(plain(f" {self._name} ", "bold"), plain(f"  {activity}")))


def _activity(status: ProjectStatus, run: RunState, requested: str) -> str:
    if run.running or (status.running and not run.over):
        how = requested.removesuffix(" …") or ("paused" if run.paused else "running")
        if run.current:
            return f"{how}: {at_work(run)}{format_progress(run)}{_whole(run)}"
        return requested or "starting …"
    if requested:
        return requested
    if run.state in ENDINGS and not (run.state == "cancelled" and status.done(*_broken_off(run))):
        return f"the last run {ENDINGS[run.state]}"
    if status.problem:
        return f"✗ {status.problem.what}"
    counts = status.counts
    parts = (count(counts.get(f"{noun}s", 0), noun) for noun in ("document", "chunk"))
    if counts:
        return " · ".join(parts)
    return ""


def _broken_off(run: RunState) -> list[str]:
    """The stages that it has begun and not ended."""
    return [name for name, stage in run.stages.items() if stage.state in ("running", "failed")]


def _whole(run: RunState) -> str:
    """` · about 15 minutes in all`; empty where nothing is known.

    The line has no room for each step.
    """
    found = run.estimate
    if found is None or not found.seconds:
        return ""
    if found.unknown:
        without = f" without {titles(found.unknown)}"
    else:
        without = " in all"
    return (
        f" · {about(sum(found.seconds.values()), 'roughly' if found.rough else 'about')}{without}"
    )
