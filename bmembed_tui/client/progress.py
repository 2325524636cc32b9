"""Progress as text: how far a stage is, and a bar."""

from __future__ import annotations

import math

from bmembed_tui.client.run_state import RunState
from engine.core.messages.project import STAGE_WORDS

STOPPED = "stopped unexpectedly; run again to resume"
BAR_COLUMNS = 12


def format_bar(share: float, columns: int = BAR_COLUMNS) -> str:
    """Return a bar such as `███░░░` for a share from 0 to 1."""
    filled = 0
    if math.isfinite(share):
        filled = round(max(0.0, min(1.0, share)) * columns)
    return "█" * filled + "░" * (columns - filled)


def format_activity(run: RunState) -> str:
    """Return what a run does: `▶ Reading the documents ███░ 3 of 4 files`."""
    sign = "‖ paused:" if run.paused else "▶"
    stage = STAGE_WORDS.get(run.current, "starting")
    progress = format_progress(run, " ", with_bar=True) or " …"
    return f"{sign} {stage}{progress}"


def format_progress(
    run: RunState,
    separator: str = " · ",
    *,
    with_bar: bool = False,
) -> str:
    """Return the progress of the current stage, such as ` · 3 of 7 chunks`.

    Empty where the stage counts nothing. `separator`: what precedes the text.
    """
    if run.current == "train" and run.steps:
        last = run.steps[-1]
        return f"{separator}step {last.step:,} of {last.steps:,}"
    progress = run.stage(run.current).progress
    # After a complete count the stage does something else, which it has not begun to count.
    if progress is None or progress.done >= progress.total:
        return ""
    bar = ""
    if with_bar:
        bar = f"{format_bar(progress.done / progress.total)} "
    item = f", now {progress.item}" if progress.item else ""
    return f"{separator}{bar}{progress.done:,} of {progress.total:,} {progress.unit}{item}"
