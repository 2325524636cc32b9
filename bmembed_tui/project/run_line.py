"""The head line: the project's name, and what a run is doing."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from bmembed_tui.client.project_status import ProjectStatus
from bmembed_tui.client.run_state import RunState
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic

STOPPED = "stopped unexpectedly; run again to resume"
ENDINGS = {"failed": "failed", "cancelled": "was stopped; it goes on from there", "lost": STOPPED}


class RunLine(SafeStatic):
    """One line: project · stage · progress."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(plain(name, "bold"), **options)
        self._name, self._told = name, ""

    def draw(self, status: ProjectStatus, run: RunState, asked: str = "") -> None:
        """Show what goes on. `asked`: what was asked for and has not come about yet."""
        doing = _doing(status, run, asked)
        if doing != self._told:
            self._told = doing
            self.update(Content.assemble(plain(f" {self._name} ", "bold"), plain(f"  {doing}")))


def _doing(status: ProjectStatus, run: RunState, asked: str) -> str:
    if run.running or (status.running and not run.over):
        how = asked.removesuffix(" …") or ("paused" if run.paused else "running")
        return f"{how}: {run.current or 'starting'}{progress_of(run)}"
    if asked:
        return asked
    if run.state in ENDINGS:
        return f"the last run {ENDINGS[run.state]}"
    counts = status.counts
    parts = (_count(counts.get(name, 0), name) for name in ("documents", "chunks"))
    return " · ".join(parts) if counts else ""


def _count(number: int, things: str) -> str:
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"


def progress_of(run: RunState) -> str:
    """` · 3 of 7 chunks`, of the stage at work; empty where it has told nothing yet."""
    stage = run.stages.get(run.current)
    if run.current == "train" and run.steps:
        return f" · step {run.steps[-1].step:,} of {run.steps[-1].steps:,}"
    if stage is None or stage.progress is None or stage.progress.total <= 0:
        return ""
    progress = stage.progress
    return f" · {progress.done:,} of {progress.total:,} {progress.unit}"
