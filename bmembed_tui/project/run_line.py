"""The head line: the project's name, and what a run is doing."""

from __future__ import annotations

from typing import Any

from textual.content import Content

from bmembed_tui.client.run_state import RunState
from bmembed_tui.steps.progress import STOPPED, format_progress
from bmembed_tui.widgets.plain import plain
from bmembed_tui.widgets.safe import SafeStatic
from engine.core.messages.project import ProjectStatus

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
        return f"{how}: {run.current or 'starting'}{format_progress(run)}"
    if asked:
        return asked
    if run.state in ENDINGS:
        return f"the last run {ENDINGS[run.state]}"
    counts = status.counts
    parts = (_count(counts.get(name, 0), name) for name in ("documents", "chunks"))
    return " · ".join(parts) if counts else ""


def _count(number: int, things: str) -> str:
    return f"{number:,} {things.removesuffix('s') if number == 1 else things}"
