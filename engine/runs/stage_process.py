"""The child process of a stage: `python -m engine.runs.stage_process FOLDER STAGE FINGERPRINT RUN`.

A further argument `force` forces the stage. On failure its only line on standard output is the
error as JSON; whatever libraries print goes to `runs/ID/STAGE.log`.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from engine.core import environment
from engine.core.errors import (
    CancelledError,
    EngineError,
    ResourceError,
    StageError,
    fault_record,
    internal_fault,
)
from engine.core.events import EventLog, StageFailed, StageFinished
from engine.core.messages.project import STAGE_WORDS
from engine.core.platforms.files import open_private
from engine.core.platforms.processes import peak_memory
from engine.core.platforms.stopping import ORPHAN_SECONDS, obey_parent, take_input
from engine.core.subprocesses import explain_memory, to_short_dict
from engine.project.control import Gate
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.runs.pipeline import load_stage

LOCK_WAIT_SECONDS = 30.0
"""How long to wait for the lock of a stage whose parent was killed: it lets go within moments."""


def main(arguments: list[str]) -> int:
    """Run the stage; return the exit code of the error that ended it, or 0."""
    environment.prepare_process()
    folder, stage, wanted, run, *more = arguments
    project = ProjectFolder(Path(folder))
    real_output = _redirect_output(project.path / "runs" / run / f"{stage}.log")
    _log_faults_without_messages()
    stopping = threading.Event()
    obey_parent(
        take_input(buffered=False),
        stopping,
        ORPHAN_SECONDS,
    )
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log = EventLog(project.path / "runs" / run / "events.jsonl")
    try:
        with project.locked("stage", wait=LOCK_WAIT_SECONDS):
            execute_stage(
                project,
                stage,
                wanted,
                run,
                log,
                stopping,
                forced=bool(more),
            )
        return 0
    except BaseException as caught:
        error = explain(
            caught,
            stage,
            project.path / "runs" / run / f"{stage}.log",
        )
        if not isinstance(error, CancelledError):
            log(StageFailed(stage=stage, error=to_short_dict(error)))
        line = json.dumps(to_short_dict(error), ensure_ascii=False) + "\n"
        os.write(real_output, line.encode("utf-8", "backslashreplace"))
        return error.exit_code


def execute_stage(
    project: ProjectFolder,
    stage: str,
    wanted: str,
    run: str,
    log: EventLog,
    stopping: threading.Event,
    *,
    forced: bool,
) -> None:
    """Run a stage in this process and log its end.

    `wanted`: the fingerprint of its artifact. `run`: the run's id.
    """
    started = time.monotonic()
    gate = Gate(
        project.path / "runs" / run,
        stage,
        log,
        stopping.is_set,
    )
    with closing(project.store()) as store:
        context = StageContext(
            project,
            project.settings(),
            store,
            stage=stage,
            fingerprint=wanted,
            run=run,
            emit=log,
            should_stop=gate,
            should_finish=gate.should_finish,
            forced=forced,
        )
        summary = load_stage(stage).run(context)
    seconds = round(time.monotonic() - started - gate.paused_seconds, 3)
    log(
        StageFinished(
            stage=stage, seconds=seconds, peak_memory_mb=peak_memory_mb(), summary=summary
        )
    )


def peak_memory_mb() -> float:
    """Return the highest resident memory of this process so far, in MB (10^6 bytes)."""
    return round(peak_memory() / 1e6, 1)


def _redirect_output(path: Path) -> int:
    """Send what native libraries print to a log; return a descriptor of the real output."""
    real_output = os.dup(1)
    try:
        target = open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError:
        target = os.open(os.devnull, os.O_WRONLY)
    os.dup2(target, 1)
    os.dup2(target, 2)
    return real_output


def _log_faults_without_messages() -> None:
    """Log faults that Python itself prints, of threads and finalizers, without messages.

    Messages of exceptions may quote a document.
    """
    threading.excepthook = lambda raised: _log_fault(raised.exc_value)
    sys.unraisablehook = lambda raised: _log_fault(raised.exc_value)


def _log_fault(caught: BaseException | None) -> None:
    """Write an exception without its message to the stage's log."""
    if caught is not None:
        sys.stderr.write(fault_record(caught))
        sys.stderr.flush()


def explain(
    caught: BaseException,
    stage: str,
    log: Path,
) -> EngineError:
    """Return the error that ended a stage as an EngineError that names the stage."""
    error = _convert(caught, stage, log)
    error.stage = error.stage or stage
    return error


def _convert(
    caught: BaseException,
    stage: str,
    log: Path,
) -> EngineError:
    """Return an exception as an EngineError; any other exception is also logged."""
    if isinstance(caught, EngineError):
        return caught
    _log_fault(caught)
    if isinstance(caught, OSError) and caught.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceError(
            "The disk is full.",
            f"{STAGE_WORDS[stage]} could not go on: {caught}.",
            "Free some disk space and run again: what was finished is kept.",
            code="disk-full",
            command="run",
        )
    if isinstance(caught, MemoryError) or "out of memory" in str(caught).lower():
        # The message of any other exception may quote a document.
        is_safe = isinstance(caught, MemoryError) or type(caught).__name__ == "OutOfMemoryError"
        why = str(caught).splitlines()[0] if is_safe and str(caught) else ""
        return ResourceError(
            f"Memory ran out: {STAGE_WORDS[stage]} could not go on.",
            why,
            explain_memory(stage),
            code="memory-full",
            command="run",
        )
    if isinstance(caught, PermissionError):
        return StageError(
            f"{STAGE_WORDS[stage]} has no permission for a file.",
            f"{caught}.",
            "Correct its permissions and run again.",
            code="file-access",
            command="run",
        )
    what = f"{STAGE_WORDS[stage]} had an internal fault"
    return internal_fault(
        what,
        caught,
        record=str(log),
        command="run",
    )


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    # Threads of native libraries must not hold up a finished stage.
    os._exit(code)
