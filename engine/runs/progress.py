"""The progress of a run, read from its log, and the point where a training would resume."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.core import events
from engine.core.disk import get_file_size
from engine.core.events import Event
from engine.project.control import is_paused, stage_at_work
from engine.project.stage import ProjectSnapshot, stage_fingerprint

TAIL = 1_000_000
"""Bytes at the end of a log that suffice: some thousand events."""


@dataclass(slots=True)
class RunProgress:
    """The progress of a run; values that are unknown or that the stage does not have are None.

    `paused` is "asked" until the run waits at its next safe point. `done` of `total` `unit`s:
    those of the latest event. `loss` and `seconds_left` (an estimate without pauses) belong to
    training.
    """

    stage: str = ""
    paused: Literal["", "asked", "waiting"] = ""
    done: int | None = None
    total: int | None = None
    unit: str | None = None
    loss: float | None = None
    seconds_left: float | None = None

    def take(self, event: Event) -> None:
        """Apply one event of the run's log."""
        match event:
            case events.StageStarted():
                self._enter(event.stage)
            case events.Progress():
                self.done = event.done
                self.total = event.total
                self.unit = event.unit
            case events.TrainStep():
                self.done = event.step
                self.total = event.steps
                self.unit = "steps"
                self.loss = event.loss
                self.seconds_left = event.seconds_left
            case events.Paused():
                self.paused = "waiting"
                # Between two stages the next one waits.
                if event.stage != self.stage:
                    self._enter(event.stage)
            case events.Resumed():
                self.paused = ""

    def _enter(self, stage: str) -> None:
        """Begin a stage, of which nothing is known yet."""
        self.stage = stage
        self.done = self.total = self.unit = self.loss = self.seconds_left = None


def read_progress(folder: Path, tail: int = TAIL) -> RunProgress:
    """Return the progress of the run in that folder, from the last `tail` bytes of its log."""
    log = folder / "events.jsonl"
    progress = RunProgress(stage=stage_at_work(folder))
    for event, _ in events.read(log, max(0, get_file_size(log) - tail)):
        progress.take(event)
    if is_paused(folder) and not progress.paused:
        progress.paused = "asked"
    return progress


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The step at which a training would resume, and the number of its steps.

    `pretraining`: these are steps of its pre-training.
    """

    step: int
    steps: int
    pretraining: bool = False


def find_resume_point(snapshot: ProjectSnapshot) -> ResumePoint | None:
    """Return where the next training would resume, None if it would start over or has no work.

    Raises what the fingerprint of the stage `train` raises, such as NotBuiltError.
    """
    from engine.training.checkpoint import newest_step
    from engine.training.methods import PRETRAINING
    from engine.training.recipe import resolve_config
    from engine.training.stage import TrainStage

    fingerprint = stage_fingerprint(
        "train",
        TrainStage.version,
        TrainStage().inputs(snapshot),
    )
    # A training that is done has removed this folder.
    folder = snapshot.project.path / "checkpoints" / fingerprint
    config = resolve_config(snapshot)
    step = newest_step(folder)
    if step is not None:
        return ResumePoint(step, config.steps)
    step = newest_step(folder / PRETRAINING)
    if step is None:
        return None
    return ResumePoint(
        step,
        config.pretrain_steps,
        pretraining=True,
    )
