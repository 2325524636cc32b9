"""Steering a run from another process: cancel, pause, resume, finish.

Each is a file in `runs/ID/`.

A run is asked by the presence of `cancel`, `pause` and `finish` in its own folder, so that no later
run sees them.
"""

from __future__ import annotations

import copy
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.errors import EngineError, UsageError
from engine.project.folder import ProjectFolder

if TYPE_CHECKING:
    from engine.core.events import Emit
    from engine.core.messages.project import RunRecord

POLL_SECONDS = 0.05
CANCEL = "cancel"
PAUSE = "pause"
FINISH = "finish"


def run_records(project: ProjectFolder) -> Iterator[RunRecord]:
    """Every readable run.json, the newest first."""
    from engine.core.messages.project import RunRecord
    from engine.core.messages.wire import from_json

    for path in sorted((project.path / "runs").glob("*/run.json"), reverse=True):
        with suppress(OSError, ValueError, TypeError, RecursionError):
            yield from_json(
                RunRecord,
                {**json.loads(path.read_text(encoding="utf-8")), "folder": str(path.parent)},
            )


def latest_run(project: ProjectFolder) -> RunRecord | None:
    """The newest run; None before the first."""
    return next(run_records(project), None)


def running(project: ProjectFolder) -> RunRecord | None:
    """The run that holds the project; None where none does.

    A killed run's run.json says "running" too, but its process is gone.
    """
    import psutil

    if not project.is_running():
        return None
    records = (record for record in run_records(project) if record.state == "running")
    alive = [record for record in records if record.pid and psutil.pid_exists(record.pid)]
    return max(alive, key=lambda record: record.time or 0.0, default=None)


def with_run_hint(project: ProjectFolder, error: EngineError) -> EngineError:
    """`error`; where it advises a run although one goes on, as one of its kind that says to wait
    for that.
    """
    if error.command not in ("run", "adapt"):
        return error
    current = None
    with suppress(EngineError):  # a disk that cannot be written to: nobody knows
        current = running(project)
    if current is None:
        return error
    hint = copy.copy(error)
    stages = stages_of(current.folder)
    if error.stage and stages and error.stage not in stages:
        hint.to_do = f"The current run does not do that. After it: {error.to_do}"
        return hint
    hint.command = "status"
    hint.to_do = (
        "A run is building the project now: try again when it has ended "
        f"('engine status {project.argument}' shows how far it is)."
    )
    return hint


def stages_of(folder: Path) -> list[str]:
    """The stages that the run in that folder brings up to date; empty where its log does not say
    yet.
    """
    from engine.core.events import RunStarted, decode

    with (
        suppress(OSError),
        (folder / "events.jsonl").open(encoding="utf-8", errors="replace") as log,
    ):
        first = decode(log.readline())
        if isinstance(first, RunStarted):
            return list(first.stages)
        return []
    return []


@contextmanager
def run_hints(project: ProjectFolder) -> Iterator[None]:
    """Errors of the block pass through `with_run_hint`."""
    try:
        yield
    except EngineError as error:
        hint = with_run_hint(project, error)
        if hint is error:
            raise
        raise hint from error


def is_paused(folder: Path) -> bool:
    """Whether the run in that folder is asked to wait."""
    return (folder / PAUSE).exists()


def stage_at_work(folder: Path) -> str:
    """The stage whose process the run in that folder started last; empty before the first."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads((folder / "stage.json").read_text(encoding="utf-8"))["stage"])
    return ""


def cancel(project: ProjectFolder) -> str:
    """Ask the run that holds the project to stop at the next safe point, paused or not; returns
    its id.

    Raises UsageError when none is running.
    """
    return _ask(project, CANCEL, "There is nothing to cancel.")


def pause(project: ProjectFolder) -> str:
    """Ask the run that holds the project to wait at the next safe point, within a stage or
    between two.

    It keeps its memory and the project's lock until `resume` or `cancel`. Returns its id; asking
    twice changes nothing. Raises UsageError when none is running.
    """
    return _ask(project, PAUSE, "There is nothing to pause.")


def resume(project: ProjectFolder) -> str:
    """Let a paused run go on; returns its id.

    Raises UsageError when none is running, or when it is not paused.
    """
    current = _current(
        project, "There is nothing to resume.", f"Run 'engine run {project.argument}' to start one."
    )
    if not is_paused(current.folder):
        raise UsageError(
            "The run is not paused.", "There is nothing to resume.", "", code="run-not-paused"
        )
    (current.folder / PAUSE).unlink(missing_ok=True)
    return current.run


def finish(project: ProjectFolder) -> str:
    """Ask the running training to end at its next step with its best adapter; later stages go on.

    Returns the run's id.

    What it trained counts as up to date afterwards; a forced training starts anew. A paused run
    goes on to do it. Raises UsageError when no run is training.
    """
    current = _current(project, "There is no training to finish.", "")
    stage = stage_at_work(current.folder)
    if stage != "train":
        raise UsageError(
            "Only training can be finished early.",
            (
                f"The run is at the stage '{stage}' now."
                if stage
                else "The run has not reached it yet."
            ),
            f"Wait until it trains ('engine status {project.argument}'), or stop it ('engine cancel"
            f" {project.argument}').",
            code="run-not-training",
            stage="train",
            command="status",
        )
    (current.folder / FINISH).touch(mode=0o600)
    (current.folder / PAUSE).unlink(missing_ok=True)
    return current.run


def _ask(project: ProjectFolder, what: str, otherwise: str) -> str:
    current = _current(project, otherwise, "")
    (current.folder / what).touch(mode=0o600)
    return current.run


def _current(project: ProjectFolder, otherwise: str, to_do: str) -> RunRecord:
    current = running(project)
    if current is None and project.is_running():
        raise UsageError(
            f"No run of the project {project.name} has started yet, but the project is in use.",
            "A run is starting, or a change is being saved.",
            "Try again in a moment.",
            code="run-not-begun",
        )
    if current is None:
        raise UsageError(
            f"No run is in progress in the project {project.name}.",
            otherwise,
            to_do,
            code="no-run",
            command="run" if to_do else "",
        )
    return current


class Gate:
    """What is asked at safe points: waits while the run is paused, then says whether to stop.

    `paused_seconds` is the time waited so far. A wait ends within moments when `stopping` becomes
    true. Threads that ask at the same time wait together, and the pause is reported once.
    """

    def __init__(self, folder: Path, stage: str, emit: Emit, stopping: Callable[[], bool]) -> None:
        self._folder = folder
        self._stage = stage
        self._emit = emit
        self._stopping = stopping
        self._lock = threading.Lock()
        self.paused_seconds = 0.0

    def __call__(self) -> bool:
        """Whether the user has asked to stop."""
        if self._stopping():
            return True
        if is_paused(self._folder):
            with self._lock:
                self._wait()
        return self._stopping()

    def _wait(self) -> None:
        if self._stopping() or not is_paused(self._folder):
            return  # another thread has waited for both
        from engine.core.events import Paused, Resumed

        started = time.monotonic()
        self._emit(Paused(stage=self._stage))
        while is_paused(self._folder) and not self._stopping():
            time.sleep(
                POLL_SECONDS
            )  # and no lock: a signal's handler may set what `stopping` reads
        self.paused_seconds += time.monotonic() - started
        if not self._stopping():
            self._emit(Resumed(stage=self._stage))

    def should_finish(self) -> bool:
        """Whether the user wants the stage to end early with what it has."""
        return (self._folder / FINISH).exists()
