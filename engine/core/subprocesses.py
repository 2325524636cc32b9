"""Child processes of a run: starting, stopping, and passing on their results and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, NoReturn

from engine.core.environment import prepare_process
from engine.core.errors import (
    CancelledError,
    EngineError,
    ResourceError,
    StageError,
    internal_fault,
)
from engine.core.messages.project import STAGE_WORDS
from engine.core.platforms.processes import (
    describe_exit_code,
    is_killed,
    own_session,
    python_environment,
    python_program,
)
from engine.core.platforms.stopping import ask_to_stop, obey_parent, take_input

TEXT_SENT = 2000
"""Maximum number of characters of each part of an error."""
GRACE_SECONDS = 5.0  # for a child that was asked to stop
BLOCK = 65_536  # bytes that are read at a time
OUTPUT_SECONDS = 5.0  # for the rest of the output of a child that has ended
POLL_SECONDS = 0.05
_MEMORY_SETTINGS = {
    "ingest": "corpus.reading_processes",
    "train": "training.queries_per_step or training.max_tokens",
    "evaluate": "encoder.max_tokens",
    "embed": "encoder.max_tokens",
}
"""The settings that decide how much memory a stage takes."""


def import_path() -> str:
    """Return the PYTHONPATH with which a child finds the same `engine` as its parent."""
    here = str(Path(__file__).resolve().parents[2])
    # An empty entry would mean the user's working directory.
    others = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    return os.pathsep.join([here, *others])


def spawn(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE ARGUMENTS` in its own session; `options` are those of Popen."""
    variables = {
        **environ,
        **python_environment(),
        "PYTHONPATH": import_path(),
    }
    return subprocess.Popen(
        python_command(module, *arguments), env=variables, **own_session(), **options
    )


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line of `python -m MODULE ARGUMENTS`.

    With -P, modules in the user's working directory do not hide the installed ones.
    """
    return [
        *python_program(),
        "-P",
        "-m",
        module,
        *arguments,
    ]


class ChildOutput:
    """The standard output of a child process, read while it runs.

    A child whose output nobody reads stops once the pipe is full (4 KiB on Windows). This class
    takes the pipe from the child and closes it at its end. That may come after the end of the
    child, if a process that the child started still holds the pipe.
    """

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdout is not None
        self._parts: list[bytes] = []
        self._reader = threading.Thread(
            target=self._read,
            args=(child.stdout,),
            daemon=True,
        )
        # `Popen` then neither reads nor closes the pipe.
        child.stdout = None
        self._reader.start()

    def _read(self, pipe: IO[bytes]) -> None:
        """Read the pipe to its end, in a thread."""
        with pipe:
            while part := os.read(pipe.fileno(), BLOCK):
                self._parts.append(part)

    def read(self, wait: float = OUTPUT_SECONDS) -> bytes:
        """Return what the child has written, at its end or after `wait` seconds."""
        self._reader.join(wait)
        return b"".join(self._parts)


def to_short_dict(error: EngineError) -> dict[str, str]:
    """Return `error.as_dict()` with its texts cut short, for a pipe or a log."""
    return {name: text[:TEXT_SENT] for name, text in error.as_dict().items()}


def run_in_subprocess(
    module: str,
    arguments: Sequence[str],
    what: str,
    should_stop: Callable[[], bool] = lambda: False,
    stderr: int | None = subprocess.DEVNULL,
) -> Any:
    """Return what `python -m MODULE ARGUMENTS` prints as JSON.

    `what`: the work, as the subject of errors, such as `The measurement`. If `should_stop` returns
    true, the child is asked to stop and may answer with an error. `stderr`: as for Popen. Raises
    the EngineError that the child wrote to its standard output, or StageError that says how it
    died.
    """
    pipe = subprocess.PIPE
    child = spawn(
        module,
        arguments,
        os.environ,
        stdin=pipe,
        stdout=pipe,
        stderr=stderr,
    )
    output = ChildOutput(child)
    was_asked_to_stop = False
    try:
        while child.poll() is None:
            if should_stop() and not was_asked_to_stop:
                ask_to_stop(child)
                was_asked_to_stop = True
            time.sleep(POLL_SECONDS)
    finally:
        end_child(child)
    answer = output.read().decode("utf-8", "replace")
    if child.returncode == 0:
        with suppress(ValueError):
            return json.loads(answer)
    else:
        error = read_error(answer, child.returncode)
        if error is not None:
            raise error
    if was_asked_to_stop:
        raise CancelledError(
            f"{what} was cancelled.",
            "",
            "Nothing was changed.",
        )
    raise StageError(
        f"{what} crashed ({describe_exit_code(child.returncode)}).",
        "Native code of a model library crashed.",
        "Try another model.",
        code="model-crashed",
    )


def read_error(output: str, exit_code: int | None = None) -> EngineError | None:
    """Return the error in the last line that a child wrote, None if that line is no error."""
    lines = output.strip().splitlines()
    if not lines:
        return None
    try:
        data = json.loads(lines[-1])
        return EngineError.from_dict(data, exit_code) if "what" in data else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        # A crashed library may have written anything.
        return None


def run_as_child(work: Callable[..., Any]) -> NoReturn:
    """Act as the child of `run_in_subprocess`: print the result or error of the work, and exit.

    The work is called as `work(should_stop, *arguments)`.
    """
    output = os.fdopen(
        os.dup(1),
        "w",
        encoding="utf-8",
    )
    stopping = threading.Event()
    obey_parent(take_input(), stopping)
    prepare_process()
    # What native libraries print must not mix with the answer.
    os.dup2(2, 1)
    code = 0
    try:
        result = work(stopping.is_set, *sys.argv[1:])
    except EngineError as error:
        result = to_short_dict(error)
        code = error.exit_code
    except Exception as caught:
        fault = internal_fault("It had an internal fault", caught)
        result = to_short_dict(fault)
        code = fault.exit_code
    with output:
        json.dump(result, output)
    # Threads of native libraries must not hold up the exit.
    os._exit(code)


def explain_memory(stage: str) -> str:
    """Return the advice after a stage for which there was too little memory."""
    settings = _MEMORY_SETTINGS.get(stage)
    if settings:
        return f"Close other programs, or lower {settings} in project.toml, and run again."
    return "Close other programs, and run again."


def crash_error(
    stage: str,
    code: int,
    folder: Path,
) -> EngineError:
    """Return the error of a stage that ended without one.

    `code`: as subprocess returns it. `folder`: that of the run.
    """
    log = folder / f"{stage}.log"
    if is_killed(code):
        return ResourceError(
            f"{STAGE_WORDS[stage]} was killed from outside.",
            "Most often the system does this when memory runs out.",
            explain_memory(stage),
            code="memory-full",
            stage=stage,
            command="run",
        )
    return StageError(
        f"{STAGE_WORDS[stage]} crashed ({describe_exit_code(code)}).",
        f"Its output is in {log}.",
        "Run again: it resumes from the last checkpoint.",
        code="stage-crashed",
        stage=stage,
        command="run",
    )


def run_folder_missing(stage: str, folder: Path) -> EngineError:
    """Return the error of a run whose folder is gone.

    Such a run must end: it could keep nothing, and nobody could cancel it.
    """
    return StageError(
        f"The folder of the run, {folder}, is gone.",
        "It was deleted or moved during the run.",
        "Run again in the project's present folder.",
        code="run-folder-missing",
        stage=stage,
    )


def end_child(child: subprocess.Popen[bytes], grace_seconds: float = GRACE_SECONDS) -> None:
    """End a child process, politely first, and close its pipes."""
    try:
        if child.poll() is None:
            ask_to_stop(child)
            child.wait(grace_seconds)
    except subprocess.TimeoutExpired:
        # It did not reach a safe point in time.
        pass
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                # Unsent data for a dead child cannot be flushed.
                with suppress(OSError):
                    pipe.close()
