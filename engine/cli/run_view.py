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
                self._advance(
                    event.unit,
                    event.done,
                    event.total,
                    harmless(event.item),
                )
            case events.TrainStep():
                note = f"loss {event.loss:.3f} · {event.tokens_per_second:,.0f} tokens/s"
                if event.step < event.steps:
                    note += f" · {duration(event.seconds_left)} left"
                self._advance(
                    "steps",
                    event.step,
                    event.steps,
                    note,
                )
            case events.Choice():
                self._explain(f"{event.setting}: {event.value}", f" — {event.reason}")
            case events.HeldOut():
                figures = f": held-out Hit@10 {event.hit_at_10:.1f}, nDCG@10 {event.ndcg_at_10:.1f}"
                if event.best:
                    figures += " (best so far)"
                self._explain(f"step {event.step}", figures)
            case events.StageFinished() | events.StageFailed() | events.RunFinished():
                self._clear()
        self._note(event)

    def _note(self, event: events.Event) -> None:
        """Print a line for an event that stays visible after the bars are gone."""
        match event:
            case events.RunEstimated():
                estimate = estimate_line(event.seconds, event.unknown)
                self._say(
                    "  · ",
                    estimate,
                    style="bold",
                )
            case events.StageStarted():
                if self._bars.disable or self._verbose:  # otherwise the bars show the stage
                    reason = ""
                    if event.reason:
                        reason = f" ({event.reason})"
                    self._say(
                        f"▸ {event.stage}",
                        reason,
                        style="bold",
                    )
            case events.StageSkipped():
                self._say(
                    f"✓ {event.stage}",
                    f" {event.reason}, skipped",
                    style="dim",
                )
            case events.Paused():
                self._say(
                    f"‖ {event.stage}",
                    " waits: the run is paused",
                    style="yellow",
                )
            case events.Resumed():
                self._say(
                    f"▸ {event.stage}",
                    " resumes",
                    style="bold",
                )
            case events.Warned():
                self._say(
                    "  ! ",
                    event.text,
                    style="yellow",
                )
            case events.StageFinished():
                summary = summary_line(event.summary, self._verbose)
                costs = duration(event.seconds)
                if self._verbose:
                    costs += f", {event.peak_memory_mb:,.0f} MB"
                self._say(
                    f"✓ {event.stage}",
                    f" {summary} [{costs}]",
                    style="green",
                )
            case events.StageFailed():
                # The error that ends the command says why.
                self._say(
                    f"✗ {event.stage}",
                    " failed",
                    style="red",
                )

    def _explain(self, head: str, detail: str) -> None:
        """With `verbose`, print a detail, once for each `head`, as several stages may repeat it."""
        if self._verbose and head not in self._shown:
            self._shown.add(head)
            self._say(
                "  · ",
                head + detail,
                style="cyan",
            )

    def _advance(
        self,
        unit: str,
        done: int,
        total: int,
        note: str = "",
    ) -> None:
        """Move the bar of a unit of work, with a note beside it; by default the time left."""
        if unit not in self._tasks:
            self._clear()
            self._tasks[unit] = self._bars.add_task(
                f"  {unit}",
                total=total,
                note="",
            )
        self._bars.update(
            self._tasks[unit],
            completed=done,
            total=total,
        )
        seconds_left = self._bars.tasks[-1].time_remaining
        if not note and seconds_left:
            note = f"{duration(seconds_left)} left"
        self._bars.update(self._tasks[unit], note=note)

    def _clear(self) -> None:
        """Remove finished bars, which would stay below later lines."""
        for task in self._tasks.values():
            self._bars.remove_task(task)
        self._tasks.clear()

    def _say(
        self,
        head: str,
        text: str,
        style: str,
    ) -> None:
        """Print a line. `style`: of its `head`."""
        self._console.print(Text.assemble((harmless(head), style), harmless(text)))


def summary_line(summary: Mapping[str, Any], verbose: bool = False) -> str:
    """Return a stage's summary in words.

    Empty and zero entries are left out, except `ALWAYS_SHOWN`, and so are `DETAILS`, unless
    `verbose`.
    """
    parts = []
    for key, value in summary.items():
        if key in ("reason", "report") or (key in DETAILS and not verbose):
            continue
        if not value and key not in ALWAYS_SHOWN:
            continue
        name = STATE_WORDS.get(key) or query_label(key.replace("_", " "))
        if value is True:
            parts.append(name)
        else:
            parts.append(f"{name}: {_format_value(key, value)}")
    return " · ".join(parts)


def _format_value(key: str, value: Any) -> str:
    """Return a value of a summary in words."""
    if isinstance(value, dict):
        return ", ".join(f"{query_label(name)} {count}" for name, count in value.items())
    if isinstance(value, int):
        return f"{value:,}"
    if key == "language" and value == "none":
        return "no single one"
    if key == "language":
        return language_name(value)
    if key in ("in_use", "encoder") and value == BASE:
        return "not adapted"
    return str(value)
