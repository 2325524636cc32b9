"""Progress as text: how far a stage is, and a bar."""

from __future__ import annotations

import math

from bmembed_tui.client.run_state import RunState

STOPPED = "stopped unexpectedly; run again to resume"
BAR = 12


def count(number: int, noun: str) -> str:
    """`1 chunk`, `1,200 chunks`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def bar(share: float, columns: int = BAR) -> str:
    """`███░░░`: a share from 0 to 1."""
    full = round(max(0.0, min(1.0, share)) * columns) if math.isfinite(share) else 0
    return "█" * full + "░" * (columns - full)


def format_progress(run: RunState, before: str = " · ", *, with_bar: bool = False) -> str:
    """` · 3 of 7 chunks`, of the stage at work; empty before its first progress."""
    stage = run.stages.get(run.current)
    if run.current == "train" and run.steps:
        return f"{before}step {run.steps[-1].step:,} of {run.steps[-1].steps:,}"
    if stage is None or stage.progress is None or stage.progress.total <= 0:
        return ""
    progress = stage.progress
    drawn = f"{bar(progress.done / progress.total)} " if with_bar else ""
    return f"{before}{drawn}{progress.done:,} of {progress.total:,} {progress.unit}"
