"""A run in a session of its own, which outlives the terminal and whoever started it.

`start` starts it and waits until it holds the project; `python -m engine.runs.detached FOLDER
STAGES FORCE` is the run itself. It has no terminal. Until it has begun, an error goes to a private
file that only the starter reads; from then on `runs/ID/` has everything.
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
from contextlib import suppress
from pathlib import Path
from typing import IO

from engine.core import environment
from engine.core.errors import EngineError, StageError
from engine.core.messages.project import RunRecord
from engine.core.subprocesses import spawn, to_dict
from engine.project.control import POLL_SECONDS, run_records
from engine.project.folder import ProjectFolder
from engine.runs import pipeline

TEXT_READ = 20_000  # bytes of an early failure's output


def start(project: ProjectFolder, stages: Sequence[str], *, force: bool = False) -> RunRecord:
    """Start a run of `stages` in its own session; returns once its run.json is there.

    Raises what keeps it from beginning, such as ProjectBusyError; StageError when its process ends
    without a word. The run goes on when this process, its terminal or its process group ends.
    """
    pipeline.checked_stages(stages)
    before = {record.folder for record in run_records(project)}
    with tempfile.TemporaryFile() as errors:
        child = _spawn([str(project.path), ",".join(stages), "force" if force else ""], errors)
        try:
            while True:
                code = child.poll()
                found = _begun(project, child.pid, before)
                if found is not None:
                    return found
                if code is not None:
                    raise _early(errors, code)
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            child.terminate()
            raise


def _spawn(arguments: list[str], errors: IO[bytes]) -> subprocess.Popen[bytes]:
    null = subprocess.DEVNULL
    return spawn(
        "engine.runs.detached", arguments, os.environ, stdin=null, stdout=null, stderr=errors
    )


def _begun(project: ProjectFolder, pid: int, before: set[Path]) -> RunRecord | None:
    """The new run of that process."""
    new = (record for record in run_records(project) if record.folder not in before)
    return next((record for record in new if record.pid == pid), None)


def _early(errors: IO[bytes], code: int) -> EngineError:
    """The error that kept a run from beginning."""
    errors.seek(max(0, errors.seek(0, os.SEEK_END) - TEXT_READ))
    text = errors.read().decode("utf-8", "replace").strip()
    with suppress(ValueError, IndexError, AttributeError):
        return EngineError.from_dict(json.loads(text.splitlines()[-1]), code)
    if text:
        last = text.splitlines()[-1]
    else:
        last = "It said nothing."
    return StageError(
        f"The run could not start (exit code {code}).",
        last,
        "Run again without --detach to see more.",
        code="run-not-started",
        command="run",
    )


def main(arguments: list[str]) -> int:
    """The run's own process; returns the exit code of the error that ended it, or 0."""
    environment.prepare_process()
    folder, stages, force = arguments
    asked = False

    def ask(_number: int, _frame: object) -> None:
        nonlocal asked
        asked = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    wanted = stages.split(",")
    try:
        project = ProjectFolder(Path(folder))
        pipeline.run(
            project, stages=wanted, force=wanted if force else (), should_stop=lambda: asked
        )
    except EngineError as error:
        print(json.dumps(to_dict(error)), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
