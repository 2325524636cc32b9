"""What the runs of a project have done so far, read from their event logs: the last result of
each stage, and the curve of the training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.client.run_watch import EVENTS, LogReader
from engine.core.events import HeldOut, TrainStep

TRAIN = "train"


@dataclass
class Curve:
    """A training's steps and held-out checks, also where several runs made them one after
    another.
    """

    fingerprint: str = ""
    steps: list[TrainStep] = field(default_factory=list)
    held_out: list[HeldOut] = field(default_factory=list)
    finished: bool = False

    @property
    def best(self) -> HeldOut | None:
        """The check whose adapter is kept; None before the first."""
        return next((check for check in reversed(self.held_out) if check.best), None)

    @property
    def synthetic(self) -> bool:
        """Whether the held-out queries were made from the documents: their figures flatter, and
        are shown on request only.
        """
        return any(check.synthetic for check in self.held_out)


@dataclass
class History:
    """All runs before the one that is followed. `stages`: those that came to their end, by name.

    `trained`: the newest training that came to its end; `newest`: the newest that made a step, at
        its end or not.
    """

    stages: dict[str, StageRun] = field(default_factory=dict)
    trained: Curve = field(default_factory=Curve)
    newest: Curve = field(default_factory=Curve)

    def record(self, state: RunState, stage: str) -> StageRun | None:
        """What a stage reported last, in the run that is followed or in one before; None where
        it never came to its end.
        """
        run = state.stages.get(stage)
        if run is not None and run.state == "done":
            return run
        return self.stages.get(stage)

    def reported(self, state: RunState, stage: str) -> StageRun:
        """What a stage reports while it is at work, else what it reported last."""
        at_work = state.running and state.current == stage
        if at_work:
            return state.stage(stage)
        return self.record(state, stage) or state.stage(stage)

    def curve(self, state: RunState, *, current: bool) -> Curve:
        """The training to show: the one of the run that is followed, with what runs that it
        resumes did before; else the adapter's own where that is `current`, else the newest.
        """
        run = state.stages.get(TRAIN)
        if (
            run is None
            or not run.fingerprint
            or not (state.steps or state.held_out or run.state == "running")
        ):
            if current and self.trained.steps:
                return self.trained
            return self.newest
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

    def add(self, state: RunState) -> None:
        """Take in a run that is over."""
        train = state.stage(TRAIN)
        if state.steps or state.held_out:
            self.newest = self.curve(state, current=False)
        if (
            train.state == "done"
            and self.newest.steps
            and self.newest.fingerprint == train.fingerprint
        ):
            self.newest.finished = True
            self.trained = self.newest
        self.stages |= {
            name: stage for name, stage in state.stages.items() if stage.state == "done"
        }


def read_history(runs: Path, before: str = "") -> History:
    """From the runs in the folder `runs`, oldest first, up to the one named `before`.

    Reads files; never raises.
    """
    history = History()
    try:
        folders = sorted(path for path in runs.iterdir() if not before or path.name < before)
    except OSError:
        return history
    for folder in folders:
        state = RunState()
        state.apply_all(LogReader(folder / EVENTS).rest())
        history.add(state)
    return history
