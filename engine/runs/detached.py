"""A run in a session of its own, which outlives the terminal and the process that started it.

`start` starts it and waits until it holds the project; `python -m engine.runs.detached FOLDER
STAGES FORCE` is the run itself. Until the run has begun, an error goes to a private file that only
the starter reads; from then on `runs/ID/` has everything.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from engine.core import environment
from engine.core.errors import EngineError, StageError
from engine.core.messages.project import RunRecord
from engine.core.platforms.stopping import ignore_terminal_loss
from engine.core.subprocesses import read_error, spawn, to_short_dict
from engine.project.control import POLL_SECONDS, run_records
from engine.project.folder import ProjectFolder
from engine.runs import pipeline

MAX_ERROR_BYTES = 20_000
"""How much of an early failure's output is read, from its end."""


def start(
    project: ProjectFolder,
    stages: Sequence[str],
    *,
    force: bool = False,
) -> RunRecord:
    """Start a run of `stages` in its own session; return when its run.json exists.

    The run continues when this process, its terminal or its process group ends. Raises what keeps
    it from beginning, such as ProjectBusyError; StageError if its process ends without an error
    message.
    """
    pipeline.order_stages(stages)
    former_folders = {record.folder for record in run_records(project)}
    arguments = [
        str(project.path),
        ",".join(stages),
        "force" if force else "",
    ]
    null = subprocess.DEVNULL
    with tempfile.TemporaryFile() as errors:
        child = spawn(
            "engine.runs.detached", arguments, os.environ, stdin=null, stdout=null, stderr=errors
        )
        try:
            while True:
                code = child.poll()
                record = _find_new_run(
                    project,
                    child.pid,
                    former_folders,
                )
                if record is not None:
                    return record
                if code is not None:
                    raise _read_early_error(errors, code)
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            child.terminate()
            raise


def _find_new_run(
    project: ProjectFolder,
    pid: int,
    former_folders: set[Path],
) -> RunRecord | None:
    """Return the new run of that process, None before it has begun."""
    for record in run_records(project):
        if record.folder not in former_folders and record.pid == pid:
            return record
    return None


def _read_early_error(errors: IO[bytes], code: int) -> EngineError:
    """Return the error that kept a run from beginning, from what its process has printed."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - MAX_ERROR_BYTES))
    text = errors.read().decode("utf-8", "replace").strip()
    error = read_error(text, code)
    if error:
        return error
    last_line = text.splitlines()[-1] if text else "It said nothing."
    return StageError(
        f"The run could not start (exit code {code}).",
        last_line,
        "Run again without --detach to see more.",
        code="run-not-started",
        command="run",
    )


def main(arguments: list[str]) -> int:
    """Execute the run in this process; return the exit code of the error that ended it, or 0."""
    environment.prepare_process()
    folder, stages, force = arguments
    stopping = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    ignore_terminal_loss()
    names = stages.split(",")
    forced = names if force else ()
    try:
        project = ProjectFolder(Path(folder))
        pipeline.run(
            project,
            stages=names,
            force=forced,
            should_stop=lambda: stopping,
        )
    except EngineError as error:
        print(json.dumps(to_short_dict(error)), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
