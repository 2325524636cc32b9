"""Steer a run from another process: cancel, pause, resume, finish.

A request is a file in the run's own folder `runs/ID/`, so later runs do not see it.
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
from engine.core.platforms.files import delete_file, read_bytes
from engine.project.folder import ProjectFolder

if TYPE_CHECKING:
    from engine.core.events import Emit
    from engine.core.messages.project import RunRecord

POLL_SECONDS = 0.05
CANCEL = "cancel"
PAUSE = "pause"
FINISH = "finish"


def run_records(project: ProjectFolder) -> Iterator[RunRecord]:
    """Yield every readable run.json, newest first."""
    from engine.core.messages.project import RunRecord
    from engine.core.messages.wire import from_json

    for path in sorted((project.path / "runs").glob("*/run.json"), reverse=True):
        with suppress(OSError, ValueError, TypeError, RecursionError):
            values = json.loads(read_bytes(path))
            yield from_json(RunRecord, {**values, "folder": str(path.parent)})


def latest_run(project: ProjectFolder) -> RunRecord | None:
    """Return the newest run, None before the first."""
    return next(run_records(project), None)


def find_run(project: ProjectFolder) -> RunRecord | None:
    """Return the run that holds the project, None if no run does.

    A killed run's run.json still says "running", so its process is checked too.
    """
    import psutil

    if not project.is_running():
        return None
    live_records = []
    for record in run_records(project):
        if record.state == "running" and record.pid and psutil.pid_exists(record.pid):
            live_records.append(record)
    return max(
        live_records,
        key=lambda record: record.time or 0.0,
        default=None,
    )


def with_run_hint(project: ProjectFolder, error: EngineError) -> EngineError:
    """Return `error`, or a copy that advises to wait instead of to run.

    The copy is for errors that advise a run while one is in progress.
    """
    if error.command not in ("run", "adapt"):
        return error
    run_record = None
    # The lock may be unreadable: then it is unknown whether a run is in progress.
    with suppress(EngineError):
        run_record = find_run(project)
    if run_record is None:
        return error
    hint = copy.copy(error)
    stages = read_run_stages(run_record.folder)
    if error.stage and stages and error.stage not in stages:
        hint.to_do = f"The current run does not do that. After it: {error.to_do}"
        return hint
    hint.command = "status"
    hint.to_do = (
        "A run is building the project now: try again when it has ended "
        f"('engine status {project.argument}' shows how far it is)."
    )
    return hint


def read_run_stages(folder: Path) -> list[str]:
    """Return the stages that the run in that folder brings up to date.

    Empty if its log does not say yet.
    """
    from engine.core.events import RunStarted, decode

    try:
        with (folder / "events.jsonl").open(encoding="utf-8", errors="replace") as log:
            first = decode(log.readline())
    except OSError:
        return []
    return first.stages if isinstance(first, RunStarted) else []


@contextmanager
def run_hints(project: ProjectFolder) -> Iterator[None]:
    """Pass errors of the block through `with_run_hint`."""
    try:
        yield
    except EngineError as error:
        hint = with_run_hint(project, error)
        if hint is error:
            raise
        raise hint from error


def is_paused(folder: Path) -> bool:
    """Return whether the run in that folder is asked to wait."""
    return (folder / PAUSE).exists()


def stage_at_work(folder: Path) -> str:
    """Return the stage that the run in that folder started last; empty before the first."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads(read_bytes(folder / "stage.json"))["stage"])
    return ""


def cancel(project: ProjectFolder) -> str:
    """Ask the current run, paused or not, to stop at the next safe point; return its id.

    Raises UsageError if no run is in progress.
    """
    return _send_request(project, CANCEL, "There is nothing to cancel.")


def pause(project: ProjectFolder) -> str:
    """Ask the current run to wait at the next safe point; return its id.

    A safe point lies within a stage or between two. The run keeps its memory and the project's lock
    until `resume` or `cancel`. Asking twice changes nothing. Raises UsageError if no run is in
    progress.
    """
    return _send_request(project, PAUSE, "There is nothing to pause.")


def resume(project: ProjectFolder) -> str:
    """Let a paused run continue; return its id.

    Raises UsageError if no run is in progress or it is not paused.
    """
    to_do = f"Run 'engine run {project.argument}' to start one."
    record = _need_run(project, "There is nothing to resume.", to_do)
    if not is_paused(record.folder):
        raise UsageError(
            "The run is not paused.", "There is nothing to resume.", "", code="run-not-paused"
        )
    delete_file(record.folder / PAUSE)
    return record.run


def finish(project: ProjectFolder) -> str:
    """Ask the running training to end at its next step with its best adapter; return the run's id.

    Later stages follow. The adapter counts as up to date afterwards; a forced training starts over.
    A paused run continues to do this. Raises UsageError if no run is training.
    """
    record = _need_run(project, "There is no training to finish.", "")
    stage = stage_at_work(record.folder)
    if stage != "train":
        if stage:
            why = f"The run is at the stage '{stage}' now."
        else:
            why = "The run has not reached it yet."
        raise UsageError(
            "Only training can be finished early.",
            why,
            f"Wait until it trains ('engine status {project.argument}'), or stop it ('engine cancel"
            f" {project.argument}').",
            code="run-not-training",
            stage="train",
            command="status",
        )
    (record.folder / FINISH).touch(mode=0o600)
    delete_file(record.folder / PAUSE)
    return record.run


def _send_request(
    project: ProjectFolder,
    request: str,
    why: str,
) -> str:
    """Leave a request in the folder of the current run, and return the run's id.

    `request`: `CANCEL` or `PAUSE`. `why`: the reason in the error if there is no run.
    """
    record = _need_run(project, why, "")
    (record.folder / request).touch(mode=0o600)
    return record.run


def _need_run(
    project: ProjectFolder,
    why: str,
    to_do: str,
) -> RunRecord:
    """Return the current run.

    Raises UsageError with `why` and `to_do` if there is none.
    """
    record = find_run(project)
    if record is not None:
        return record
    if project.is_running():
        raise UsageError(
            f"No run of the project {project.name} has started yet, but the project is in use.",
            "A run is starting, or a change is being saved.",
            "Try again in a moment.",
            code="run-not-begun",
        )
    raise UsageError(
        f"No run is in progress in the project {project.name}.",
        why,
        to_do,
        code="no-run",
        command="run" if to_do else "",
    )


class Gate:
    """Check for requests at safe points: wait while the run is paused, then say whether to stop.

    `folder`: that of the run. `paused_seconds`: the time waited so far. A wait ends within moments
    after `stopping` becomes true. Threads that ask at the same time wait together, and the pause is
    reported once.
    """

    def __init__(
        self,
        folder: Path,
        stage: str,
        emit: Emit,
        stopping: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._stage = stage
        self._emit = emit
        self._stopping = stopping
        self._lock = threading.Lock()
        self.paused_seconds = 0.0

    def __call__(self) -> bool:
        """Wait while the run is paused; return whether the user has asked to stop."""
        if self._stopping():
            return True
        if is_paused(self._folder):
            with self._lock:
                self._wait()
        return self._stopping()

    def _wait(self) -> None:
        """Wait for the end of the pause, and report its beginning and end."""
        if self._stopping() or not is_paused(self._folder):
            # Another thread had the lock until the pause was over.
            return
        from engine.core.events import Paused, Resumed

        started = time.monotonic()
        self._emit(Paused(stage=self._stage))
        while is_paused(self._folder) and not self._stopping():
            # Sleep, not a lock: a signal handler may set what `stopping` reads.
            time.sleep(POLL_SECONDS)
        self.paused_seconds += time.monotonic() - started
        if not self._stopping():
            self._emit(Resumed(stage=self._stage))

    def should_finish(self) -> bool:
        """Return whether the user wants the stage to end early with its result so far."""
        return (self._folder / FINISH).exists()
