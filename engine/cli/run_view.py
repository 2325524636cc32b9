"""A run's progress on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from engine.cli.console import progress_console
from engine.core import events
from engine.core.messages.documents import STATE_WORDS
from engine.core.records import query_label
from engine.core.systems import BASE
from engine.core.text import duration, estimate_line, harmless, language_name

# Entries of a stage's summary that are shown even if they are zero: without queries nothing can be
# trained.
ALWAYS_SHOWN = ("kept", "queries")
DETAILS = frozenset(
    (
        "new_chunks",
        "added",
        "embedded",
        "kinds",
        "k",
        "dimension",
        "adapter",
        "adapter_scope",
        "best_step",
        "ended",
        "fingerprint",
    )
)
"""Entries of a stage's summary that are shown only with --verbose."""
ENCODERS = {BASE: "not adapted"}


class RunView:
    """Shows a run's events: bars on a terminal, plain lines elsewhere.

    Use as a context manager; call it with events. `verbose`: also show automatic choices, the
    figures of validation, and, with progress bars, the beginnings of stages.
    """

    def __init__(self, console: Console | None = None, *, verbose: bool = False) -> None:
        self._console = console or progress_console()
        self._verbose = verbose
        self._bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            speed_estimate_period=600,
            disable=self._console.color_system is None,
        )
        self._tasks: dict[str, TaskID] = {}
        self._shown: set[str] = set()

    def __enter__(self) -> RunView:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def __call__(self, event: events.Event) -> None:
        """Show an event."""
        match event:
            case events.Progress():
                self._advance(event.unit, event.done, event.total, harmless(event.item))
            case events.TrainStep():
                note = (
                    f"loss {event.loss:.3f} · {event.tokens_per_second:,.0f} tokens/s ·"
                    f" {duration(event.seconds_left)} left"
                )
                self._advance("steps", event.step, event.steps, note)
            case events.Choice():
                self._explain(f"{event.setting}: {event.value}", f" — {event.reason}")
            case events.HeldOut():
                star = " (best so far)" if event.best else ""
                figures = (
                    f": held-out Hit@10 {event.hit_at_10:.1f}, nDCG@10 {event.ndcg_at_10:.1f}{star}"
                )
                self._explain(f"step {event.step}", figures)
            case events.StageFinished() | events.StageFailed() | events.RunFinished():
                self._clear()
        self._note(event)

    def _note(self, event: events.Event) -> None:
        """Print a line for an event that should stay visible."""
        match event:
            case events.RunEstimated():
                estimate = estimate_line(event.seconds, event.unknown)
                self._say("  · ", estimate, style="bold")
            case events.StageStarted():
                if self._bars.disable or self._verbose:  # otherwise the bars show the stage
                    reason = f" ({event.reason})" if event.reason else ""
                    self._say(f"▸ {event.stage}", reason, style="bold")
            case events.StageSkipped():
                self._say(f"✓ {event.stage}", f" {event.reason}, skipped", style="dim")
            case events.Paused():
                self._say(f"‖ {event.stage}", " waits: the run is paused", style="yellow")
            case events.Resumed():
                self._say(f"▸ {event.stage}", " resumes", style="bold")
            case events.Warned():
                self._say("  ! ", event.text, style="yellow")
            case events.StageFinished():
                summary = summary_line(event.summary, self._verbose)
                memory = f", {event.peak_memory_mb:,.0f} MB" if self._verbose else ""
                text = f" {summary} [{duration(event.seconds)}{memory}]"
                self._say(f"✓ {event.stage}", text, style="green")
            case events.StageFailed():
                # The error that ends the command says why.
                self._say(f"✗ {event.stage}", " failed", style="red")

    def _explain(self, head: str, rest: str) -> None:
        if self._verbose and head not in self._shown:
            self._shown.add(head)
            self._say("  · ", head + rest, style="cyan")

    def _advance(self, unit: str, done: int, total: int, note: str = "") -> None:
        if unit not in self._tasks:
            self._clear()
            self._tasks[unit] = self._bars.add_task(f"  {unit}", total=total, note="")
        self._bars.update(self._tasks[unit], completed=done, total=total)
        seconds = self._bars.tasks[-1].time_remaining
        if not note and seconds:
            note = f"{duration(seconds)} left"
        self._bars.update(self._tasks[unit], note=note)

    def _clear(self) -> None:
        """Remove finished bars, which would stay below later lines."""
        for task in self._tasks.values():
            self._bars.remove_task(task)
        self._tasks.clear()

    def _say(self, head: str, rest: str, style: str) -> None:
        self._console.print(Text.assemble((harmless(head), style), harmless(rest)))


def summary_line(summary: Mapping[str, Any], verbose: bool = False) -> str:
    """Return a stage's summary in words.

    Empty and zero entries are left out, except `ALWAYS_SHOWN`, and so are `DETAILS`, unless
    `verbose`.
    """
    parts = []
    for key, value in summary.items():
        if key in ("reason", "report") or (key in DETAILS and not verbose):
            continue
        text = _format_value(key, value)
        if text not in (None, "", 0, False) or key in ALWAYS_SHOWN:
            name = STATE_WORDS.get(key) or query_label(key.replace("_", " "))
            parts.append(name if text is True else f"{name}: {text}")
    return " · ".join(parts)


def _format_value(key: str, value: Any) -> Any:
    """Return a value of a summary as text where that differs from the value."""
    if isinstance(value, dict):
        value = ", ".join(f"{query_label(name)} {count}" for name, count in value.items())
    elif type(value) is int and value:
        value = f"{value:,}"
    if key == "language":
        return "no single one" if value == "none" else language_name(value)
    if key in ("in_use", "encoder"):
        return ENCODERS.get(value, value)
    return value
