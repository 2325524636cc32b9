"""Progress as text: how far a stage is, and a bar."""

from __future__ import annotations

import math

from bmembed_tui.client.run_state import RunState
from engine.core.messages.project import STAGE_WORDS

STOPPED = "stopped unexpectedly; run again to resume"
BAR = 12


def count(number: int, noun: str) -> str:
    """`1 chunk`, `1,200 chunks`."""
    if number == 1:
        return f"{number:,} {noun}"
    return f"{number:,} {noun}s"


def bar(share: float, columns: int = BAR) -> str:
    """`███░░░`: a share from 0 to 1."""
    if math.isfinite(share):
        full = round(max(0.0, min(1.0, share)) * columns)
    else:
        full = 0
    return "█" * full + "░" * (columns - full)


def doing(run: RunState) -> str:
    """`▶ Reading the documents ███░ 3 of 4 files`."""
    what = STAGE_WORDS.get(run.current, "starting")
    return (
        f"{'‖ paused:' if run.paused else '▶'}"
        f" {what}{format_progress(run, ' ', with_bar=True) or ' …'}"
    )


def format_progress(run: RunState, before: str = " · ", *, with_bar: bool = False) -> str:
    """` · 3 of 7 chunks`, of what the stage at work does now; empty where that is not counted."""
    stage = run.stages.get(run.current)
    if run.current == "train" and run.steps:
        return f"{before}step {run.steps[-1].step:,} of {run.steps[-1].steps:,}"
    progress = stage.progress if stage else None
    if progress is None or progress.done >= progress.total:  # what is over is not what it does now
        return ""
    if with_bar:
        drawn = f"{bar(progress.done / progress.total)} "
    else:
        drawn = ""
    item = f", now {progress.item}" if progress.item else ""
    return f"{before}{drawn}{progress.done:,} of {progress.total:,} {progress.unit}{item}"
