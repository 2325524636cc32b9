"""How far a run is, read from its log; and where a training that was broken off would go on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.core import events
from engine.core.events import Event
from engine.project.control import is_paused, stage_at_work
from engine.project.stage import ProjectSnapshot, stage_fingerprint

TAIL = 1_000_000  # bytes of a log that show where a run stands: some thousand events


@dataclass(slots=True)
class RunProgress:
    """Where a run stands. What is not known yet, or is none of the stage's business, is None.

    `paused`: "" | "asked" (it waits as soon as it comes to a safe point) | "waiting". `done` of
        `total` `unit`s: the latest
    event's. `loss` and `seconds_left` (an estimate, pauses left out) are those of training.
    """

    stage: str = ""
    paused: str = ""
    done: int | None = None
    total: int | None = None
    unit: str | None = None
    loss: float | None = None
    seconds_left: float | None = None

    def take(self, event: Event) -> None:
        """Follow one event of the run's log."""
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
                if event.stage != self.stage:  # between two stages, the next one waits
                    self._enter(event.stage)
            case events.Resumed():
                self.paused = ""

    def _enter(self, stage: str) -> None:
        self.stage = stage
        self.done = self.total = self.unit = self.loss = self.seconds_left = None


def progress_of(folder: Path) -> RunProgress:
    """Where the run in that folder stands by the end of its log."""
    log = folder / "events.jsonl"
    found = RunProgress(stage=stage_at_work(folder))
    if log.is_file():
        size = log.stat().st_size
    else:
        size = 0
    for event, _ in events.read(log, max(0, size - TAIL)):
        found.take(event)
    if is_paused(folder) and not found.paused:
        found.paused = "asked"
    return found


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The step that a training would go on from, and how many it has; `pretraining`: those of
    its pre-training.
    """

    step: int
    steps: int
    pretraining: bool = False


def resume_point(snapshot: ProjectSnapshot) -> ResumePoint | None:
    """Where the next training would go on from; None where it would begin, or has nothing to do.

    Raises what the fingerprint of the stage `train` raises, such as NotBuiltError.
    """
    from engine.training.checkpoint import newest_step
    from engine.training.methods import PRETRAINING
    from engine.training.recipe import resolve_config
    from engine.training.stage import TrainStage

    fingerprint = stage_fingerprint("train", TrainStage.version, TrainStage().inputs(snapshot))
    # gone once it is done
    folder = snapshot.project.path / "checkpoints" / fingerprint
    config = resolve_config(snapshot)
    if (step := newest_step(folder)) is not None:
        return ResumePoint(step, config.steps)
    step = newest_step(folder / PRETRAINING)
    if step is None:
        return None
    return ResumePoint(step, config.pretrain_steps, pretraining=True)
