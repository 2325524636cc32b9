"""What a run has reported so far, as one value that screens draw from.

Pure: events in, state out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.core import events
from engine.core.errors import EngineError

LOST = "lost"
RUN = "run"  # the stage of warnings that belong to no stage
CURVE_POINTS = 8192  # at most so many steps, and held-out checks, of a training are kept
MAX_WARNINGS = 100  # kept for a stage, the newest ones


@dataclass
class StageRun:
    """A stage of a run."""

    stage: str
    state: str = "waiting"  # or running, done, skipped, failed, lost
    reason: str = ""  # why it was run or skipped
    fingerprint: str = ""  # of the stage's inputs
    seconds: float = 0.0
    peak_memory_mb: float = 0.0
    summary: dict[str, Any] = field(default_factory=dict)  # what the stage reports at its end
    progress: events.Progress | None = None
    choices: dict[str, events.Choice] = field(default_factory=dict)  # automatic ones, by setting
    warnings: list[str] = field(default_factory=list)


@dataclass
class RunState:
    """Everything that screens show of a run.

    A lost run's process ended without a last event, as after kill -9 or a power failure.
    """

    run: str = ""  # the run's name
    state: str = "none"  # or running, done, failed, cancelled, lost
    stages: dict[str, StageRun] = field(default_factory=dict)  # by name, in order
    current: str = ""  # the name of the stage that is running
    paused: bool = False
    steps: list[events.TrainStep] = field(default_factory=list)  # thinned out if there are many
    held_out: list[events.HeldOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)  # those that belong to no stage
    error: EngineError | None = None
    seconds: float = 0.0  # the run's duration, known at its end
    estimate: events.RunEstimated | None = None

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def over(self) -> bool:
        return self.state not in ("none", "running")

    def stage(self, name: str) -> StageRun:
        """Return the stage `name`; a waiting stage if the run has none of this name."""
        return self.stages.get(name, StageRun(name))

    def apply_all(self, new_events: Iterable[events.Event]) -> None:
        for event in new_events:
            self.apply(event)

    def mark_lost(self) -> None:
        """Record that the process is gone although its log has no end."""
        stage = self.stages.get(self.current)
        if stage is not None and stage.state == "running":
            stage.state = LOST
        self.state = LOST
        self.paused = False
        self.current = ""

    def apply(self, event: events.Event) -> None:
        """Change the state as the run's next event says."""
        match event:
            case events.RunStarted():
                self.run = event.run
                self.state = "running"
                self.stages = {stage: StageRun(stage) for stage in event.stages}
            case events.RunEstimated():
                self.estimate = event
            case events.TrainStep():
                add_step(self.steps, event)
            case events.Progress():
                self._stage(event.stage).progress = event
            case events.HeldOut():
                add_held_out(self.held_out, event)
            case events.Choice():
                self._stage(event.stage).choices[event.setting] = event
            case events.Warned():
                if event.stage == RUN:
                    warnings = self.warnings
                else:
                    warnings = self._stage(event.stage).warnings
                warnings[:] = [*warnings, event.text][-MAX_WARNINGS:]
            case events.Paused() | events.Resumed():
                self.paused = isinstance(event, events.Paused)
            case (
                events.StageStarted()
                | events.StageSkipped()
                | events.StageFinished()
                | events.StageFailed()
            ):
                self._change_stage(event)
            case events.RunFinished():
                self.state = event.state
                self.seconds = event.seconds
                self.paused = False
                self.current = ""

    def _stage(self, name: str) -> StageRun:
        return self.stages.setdefault(name, StageRun(name))

    def _change_stage(
        self,
        event: (
            events.StageStarted | events.StageSkipped | events.StageFinished | events.StageFailed
        ),
    ) -> None:
        """Change the state of the event's stage."""
        stage = self._stage(event.stage)
        match event:
            case events.StageStarted():
                stage.state = "running"
                stage.reason = event.reason
                stage.fingerprint = event.fingerprint
                self.current = event.stage
                self.paused = False
            case events.StageSkipped():
                stage.state = "skipped"
                stage.reason = event.reason
            case events.StageFinished():
                stage.state = "done"
                stage.seconds = event.seconds
                stage.summary = event.summary
                stage.peak_memory_mb = event.peak_memory_mb
            case events.StageFailed():
                stage.state = "failed"
                self.error = EngineError.from_dict(event.error)


def add_step(steps: list[events.TrainStep], event: events.TrainStep) -> None:
    """Append a step to `steps`.

    Steps with the same or a higher number are dropped: the run has resumed from a checkpoint and
    repeats them. A list of `CURVE_POINTS` steps is thinned out to half its length.
    """
    while steps and steps[-1].step >= event.step:
        steps.pop()
    if len(steps) >= CURVE_POINTS:
        indices = pick_evenly([step.step for step in steps], CURVE_POINTS // 2)
        steps[:] = [steps[index] for index in indices]
    steps.append(event)


def add_held_out(checks: list[events.HeldOut], event: events.HeldOut) -> None:
    """Append a held-out check, as `add_step` does. The best check is never thinned out."""
    while checks and checks[-1].step >= event.step:
        checks.pop()
    if len(checks) >= CURVE_POINTS:
        indices = set(pick_evenly([check.step for check in checks], CURVE_POINTS // 2))
        best = [index for index, check in enumerate(checks) if check.best]
        indices.update(best[-1:])
        checks[:] = [check for index, check in enumerate(checks) if index in indices]
    checks.append(event)


def pick_evenly(numbers: Sequence[int], count: int) -> list[int]:
    """Return the indices of about `count` of the rising `numbers`, evenly spaced by value.

    The first index is always among them.
    """
    gap = (numbers[-1] - numbers[0]) / count
    picked = [0]
    for index in range(1, len(numbers)):
        if numbers[index] - numbers[picked[-1]] >= gap:
            picked.append(index)
    return picked
