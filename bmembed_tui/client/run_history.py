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
    """The steps and held-out checks of a training, which may be spread over several runs."""

    # Of the stage's inputs. A run that resumes the training has the same fingerprint.
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

        Such queries are easier than what people ask, so their figures are shown only on request.
        """
        return any(check.synthetic for check in self.held_out)


@dataclass
class History:
    """What is kept of all runs before the one that the app follows."""

    stages: dict[str, StageRun] = field(default_factory=dict)
    """The last report of each stage that has finished, by the stage's name."""
    trained: Curve = field(default_factory=Curve)
    """The newest training that finished."""
    newest: Curve = field(default_factory=Curve)
    """The newest training that made a step, finished or not."""

    def find_record(self, state: RunState, stage: str) -> StageRun | None:
        """Return the last report of a finished stage, in the followed run or an earlier one.

        `state`: the followed run. None where the stage never finished.
        """
        run = state.stages.get(stage)
        if run is not None and run.state == "done":
            return run
        return self.stages.get(stage)

    def find_report(self, state: RunState, stage: str) -> StageRun:
        """Return the report of a stage that is running, else its last report."""
        if state.running and state.current == stage:
            return state.stage(stage)
        return self.find_record(state, stage) or state.stage(stage)

    def build_curve(self, state: RunState, *, current: bool) -> Curve:
        """Return the training to show.

        That is the training of the followed run, whose state is `state`, together with the earlier
        runs that it resumes. If that run does not train, the newest finished training is returned
        where the adapter is up to date (`current`), else the newest training.
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
        # The followed run repeats what the earlier one did after its last checkpoint.
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

    `before`: the name of a run; this run and later ones are left out. Never raises.
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
