"""What the runs of a project have done so far, read from their event logs: the last result of each stage, and the
curve of the training."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmembed_tui.client.run_state import WARNINGS, RunState, add_held_out, add_step, is_sound
from bmembed_tui.client.run_watch import EVENTS, LogReader
from engine.core.events import Choice, Event, HeldOut, StageFinished, StageStarted, TrainStep, Warned

TRAIN = "train"


@dataclass
class StageRecord:
    """What a stage reported when it worked last."""

    stage: str
    fingerprint: str = ""
    seconds: float = 0.0
    peak_memory_mb: float = 0.0
    summary: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Curve:
    """A training's steps and held-out checks, also where several runs made them one after another."""

    fingerprint: str = ""
    steps: list[TrainStep] = field(default_factory=list)
    held_out: list[HeldOut] = field(default_factory=list)
    finished: bool = False

    @property
    def best(self) -> HeldOut | None:
        """The check whose adapter is kept; None before the first."""
        return next((check for check in reversed(self.held_out) if check.best), None)


@dataclass
class History:
    """All runs before the one that is followed. `stages`: those that came to their end, by name.

    `trained`: the newest training that came to its end; `newest`: the newest that made a step, at its end or not.
    """

    stages: dict[str, StageRecord] = field(default_factory=dict)
    trained: Curve = field(default_factory=Curve)
    newest: Curve = field(default_factory=Curve)

    def record(self, state: RunState, stage: str) -> StageRecord | None:
        """What a stage reported last, in the run that is followed or in one before; None where it never came to its end."""
        run = state.stages.get(stage)
        if run is None or run.state != "done":
            return self.stages.get(stage)
        choices = {setting: choice for (owner, setting), choice in state.choices.items() if owner == stage}
        warnings = [warning.text for warning in state.warnings if warning.stage == stage]
        return StageRecord(stage, run.fingerprint, run.seconds, run.peak_memory_mb, run.summary, choices, warnings)

    def curve(self, state: RunState, *, current: bool) -> Curve:
        """The training to show: the one of the run that is followed, with what runs that it resumes did before; else the
        adapter's own where that is `current`, else the newest."""
        run = state.stages.get(TRAIN)
        if run is None or not run.fingerprint or not (state.steps or state.held_out or run.state == "running"):
            return self.trained if current and self.trained.steps else self.newest
        curve = Curve(run.fingerprint, list(state.steps), list(state.held_out), run.state == "done")
        earlier = self.newest
        if earlier.fingerprint != run.fingerprint or earlier.finished:
            return curve
        first = min((part[0].step for part in (curve.steps, curve.held_out) if part), default=None)
        if first is not None and not curve.held_out and curve.steps[0].step == 1:
            return curve
        curve.steps[:0] = [one for one in earlier.steps if first is None or one.step < first]
        curve.held_out[:0] = [one for one in earlier.held_out if first is None or one.step < first]
        return curve


def read_history(runs: Path, before: str = "") -> History:
    """From the runs in the folder `runs`, oldest first, up to the one named `before`. Reads files; never raises."""
    reading = _Reading()
    try:
        folders = sorted(path for path in runs.iterdir() if not before or path.name < before)
    except OSError:
        return reading.history
    for folder in folders:
        for event in LogReader(folder / EVENTS).rest():
            if is_sound(event):
                reading.take(event)
    return reading.history


class _Reading:
    def __init__(self) -> None:
        self.history, self._at_work = History(), dict[str, StageRecord]()
        self._curve = Curve()

    def take(self, event: Event) -> None:
        match event:
            case StageStarted():
                self._begin(event)
            case Choice():
                self._record(event.stage).choices[event.setting] = event
            case Warned():
                record = self._record(event.stage)
                record.warnings = [*record.warnings, event.text][-WARNINGS:]
            case TrainStep():
                add_step(self._curve.steps, event)
                self.history.newest = self._curve
            case HeldOut():
                add_held_out(self._curve.held_out, event)
            case StageFinished():
                self._end(event)

    def _record(self, stage: str) -> StageRecord:
        return self._at_work.setdefault(stage, StageRecord(stage))

    def _begin(self, event: StageStarted) -> None:
        self._at_work[event.stage] = StageRecord(event.stage, event.fingerprint)
        if event.stage == TRAIN and (event.fingerprint != self._curve.fingerprint or self._curve.finished):
            self._curve = Curve(event.fingerprint)

    def _end(self, event: StageFinished) -> None:
        record = self._record(event.stage)
        record.seconds, record.peak_memory_mb, record.summary = event.seconds, event.peak_memory_mb, event.summary
        self.history.stages[event.stage] = record
        if event.stage == TRAIN:
            self._curve.finished = True
            if self._curve.steps:
                self.history.trained = self._curve
