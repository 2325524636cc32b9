"""The history of a project's runs, read from their event logs.

It holds the last result of each stage and the curve of the training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from pathlib import Path

from bmembed_tui.client.run_state import RunState, StageRun
from bmembed_tui.client.run_watch import EVENTS, LogReader
from engine.core.events import HeldOut, TrainStep

TRAIN = "train"


@dataclass
class Curve:
    """The steps and held-out checks of a training, possibly spread over several runs.

    `fingerprint`: that of the training's stage; a run that resumes the training has the same.
    """

    fingerprint: str = ""
    steps: list[TrainStep] = field(default_factory=list)
    held_out: list[HeldOut] = field(default_factory=list)
    finished: bool = False

    @property
    def best(self) -> HeldOut | None:
        """The check whose adapter is kept; None before the first check."""
        return next((check for check in reversed(self.held_out) if check.best), None)

    @property
    def synthetic(self) -> bool:
        """Whether the held-out queries were made from the documents.

        Their figures flatter, and are shown on request only.
        """
        return any(check.synthetic for check in self.held_out)


@dataclass
class History:
    """All runs before the followed one.

    `stages`: the finished stages, by name. `trained`: the newest training that finished. `newest`:
    the newest training that made a step, finished or not.
    """

    stages: dict[str, StageRun] = field(default_factory=dict)
    trained: Curve = field(default_factory=Curve)
    newest: Curve = field(default_factory=Curve)

    def find_record(self, state: RunState, stage: str) -> StageRun | None:
        """Return the last report of a finished stage, in the followed run or an earlier one.

        None where the stage never finished.
        """
        run = state.stages.get(stage)
        if run is not None and run.state == "done":
            return run
        return self.stages.get(stage)

    def find_report(self, state: RunState, stage: str) -> StageRun:
        """Return what a stage reports while it runs, else what it reported last."""
        if state.running and state.current == stage:
            return state.stage(stage)
        return self.find_record(state, stage) or state.stage(stage)

    def build_curve(self, state: RunState, *, current: bool) -> Curve:
        """Return the training to show.

        That is the training of the followed run, together with the earlier runs that it resumes. If
        that run does not train: the training of the adapter, if the adapter is `current`, else the
        newest training.
        """
        stage = state.stage(TRAIN)
        has_data = bool(state.steps or state.held_out or stage.state == "running")
        if not stage.fingerprint or not has_data:
            if current and self.trained.steps:
                return self.trained
            return self.newest
        curve = Curve(
            stage.fingerprint, list(state.steps), list(state.held_out), stage.state == "done"
        )
        earlier = self.newest
        if earlier.fingerprint != stage.fingerprint or earlier.finished:
            return curve
        begins_anew = bool(curve.steps) and curve.steps[0].step == 1 and not curve.held_out
        if begins_anew:
            return curve
        first_steps = [points[0].step for points in (curve.steps, curve.held_out) if points]
        # The earlier run's points from there on were made again after its last checkpoint.
        resumed_at = min(first_steps, default=inf)
        earlier_steps = [step for step in earlier.steps if step.step < resumed_at]
        earlier_checks = [check for check in earlier.held_out if check.step < resumed_at]
        curve.steps = earlier_steps + curve.steps
        curve.held_out = earlier_checks + curve.held_out
        return curve

    def add(self, state: RunState) -> None:
        """Add a run that is over."""
        train = state.stage(TRAIN)
        if state.steps or state.held_out:
            self.newest = self.build_curve(state, current=False)
        is_newest = self.newest.fingerprint == train.fingerprint
        if train.state == "done" and self.newest.steps and is_newest:
            self.newest.finished = True
            self.trained = self.newest
        self.stages |= {
            name: stage for name, stage in state.stages.items() if stage.state == "done"
        }


def read_history(runs: Path, before: str = "") -> History:
    """Return the history of the runs in the folder `runs`, oldest first.

    Runs from the one named `before` on are left out. Never raises.
    """
    history = History()
    try:
        folders = sorted(path for path in runs.iterdir() if not before or path.name < before)
    except OSError:
        return history
    for folder in folders:
        state = RunState()
        state.apply_all(LogReader(folder / EVENTS).read_rest())
        history.add(state)
    return history
