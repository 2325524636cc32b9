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
RUN = "run"  # the stage of warnings that belong to none
CURVE_POINTS = 8192
WARNINGS = 100


@dataclass
class StageRun:
    """One stage of a run.

    `state`: waiting, running, done, skipped, failed or lost. `choices`: by setting.
    """

    stage: str
    state: str = "waiting"
    reason: str = ""
    fingerprint: str = ""
    seconds: float = 0.0
    peak_memory_mb: float = 0.0
    summary: dict[str, Any] = field(default_factory=dict)
    progress: events.Progress | None = None
    choices: dict[str, events.Choice] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass
class RunState:
    """Everything that screens show of a run.

    `state`: none, running, done, failed, cancelled or lost.

    `lost`: its process has ended without a word, as after kill -9 or a power failure. `steps` of a
        long training are
    thinned evenly, and never more than `CURVE_POINTS`. `warnings`: those that belong to no stage.
    """

    run: str = ""
    state: str = "none"
    stages: dict[str, StageRun] = field(default_factory=dict)
    current: str = ""
    paused: bool = False
    steps: list[events.TrainStep] = field(default_factory=list)
    held_out: list[events.HeldOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    error: EngineError | None = None
    seconds: float = 0.0
    estimate: events.RunEstimated | None = None

    @property
    def running(self) -> bool:
        return self.state == "running"

    @property
    def over(self) -> bool:
        return self.state not in ("none", "running")

    def stage(self, name: str) -> StageRun:
        """A stage; waiting where nothing is known of it."""
        return self.stages.get(name, StageRun(name))

    def apply_all(self, happened: Iterable[events.Event]) -> None:
        for event in happened:
            self.apply(event)

    def lose(self) -> None:
        """Its process is gone, and its log has no end."""
        stage = self.stages.get(self.current)
        if stage is not None and stage.state == "running":
            stage.state = LOST
        self.state = LOST
        self.paused = False
        self.current = ""

    def apply(self, event: events.Event) -> None:
        match event:
            case events.RunStarted() | events.RunEstimated():
                self._begin(event)
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
                warnings[:] = [*warnings, event.text][-WARNINGS:]
            case events.Paused() | events.Resumed():
                self.paused = isinstance(event, events.Paused)
            case (
                events.StageStarted()
                | events.StageSkipped()
                | events.StageFinished()
                | events.StageFailed()
            ):
                self._turn(event)
            case events.RunFinished():
                self.state = event.state
                self.seconds = event.seconds
                self.paused = False
                self.current = ""

    def _begin(self, event: events.RunStarted | events.RunEstimated) -> None:
        if isinstance(event, events.RunEstimated):
            self.estimate = event
            return
        self.run = event.run
        self.state = "running"
        self.stages = {stage: StageRun(stage) for stage in event.stages}

    def _stage(self, name: str) -> StageRun:
        return self.stages.setdefault(name, StageRun(name))

    def _turn(
        self,
        event: (
            events.StageStarted | events.StageSkipped | events.StageFinished | events.StageFailed
        ),
    ) -> None:
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
    """Append a step; later ones, of before a training was resumed from a checkpoint, are
    dropped.
    """
    while steps and steps[-1].step >= event.step:
        steps.pop()
    if len(steps) >= CURVE_POINTS:
        places = evenly([one.step for one in steps], CURVE_POINTS // 2)
        steps[:] = [steps[place] for place in places]
    steps.append(event)


def add_held_out(checks: list[events.HeldOut], event: events.HeldOut) -> None:
    """Append a held-out check; as `add_step`. The best one is never thinned out."""
    while checks and checks[-1].step >= event.step:
        checks.pop()
    if len(checks) >= CURVE_POINTS:
        places = set(evenly([one.step for one in checks], CURVE_POINTS // 2))
        best = max((place for place, one in enumerate(checks) if one.best), default=0)
        checks[:] = [one for place, one in enumerate(checks) if place in places or place == best]
    checks.append(event)


def evenly(numbers: Sequence[int], most: int) -> list[int]:
    """Places of about `most` of the rising `numbers`, as far from one another as can be; the
    first is one of them.
    """
    gap = (numbers[-1] - numbers[0]) / most
    places = [0]
    for place, number in enumerate(numbers):
        if place and number - numbers[places[-1]] >= gap:
            places.append(place)
    return places
