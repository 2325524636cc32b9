"""Child processes of a run: how they find the engine, how their errors come back, and how none
is left behind.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from engine.core.environment import prepare_process
from engine.core.errors import CancelledError, EngineError, ResourceError, StageError
from engine.core.messages.project import STAGE_WORDS

TEXT_SENT = 2000  # characters of each part of an error: a pipe that nobody reads yet holds 64 KiB
GRACE_SECONDS = 5.0
POLL_SECONDS = 0.05


def import_path() -> str:
    """PYTHONPATH for a child: it must find the same `engine`, wherever the parent was started
    from.
    """
    here = str(Path(__file__).resolve().parents[2])
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(
        [here, *filter(None, others)]
    )  # an empty entry would mean the folder the user stands in


def spawn(
    module: str, arguments: Sequence[str], environ: Mapping[str, str], **options: Any
) -> subprocess.Popen[bytes]:
    """Start `python -m MODULE ARGUMENTS` in a session of its own. `options`: those of Popen."""
    # -P: without it, modules of the folder that the user stands in would come before the installed
    # ones
    command = [sys.executable, "-P", "-m", module, *arguments]
    return subprocess.Popen(
        command, start_new_session=True, env=dict(environ, PYTHONPATH=import_path()), **options
    )


def to_dict(error: EngineError) -> dict[str, str]:
    """`error.as_dict()` for a pipe: its texts are cut."""
    return {name: text[:TEXT_SENT] for name, text in error.as_dict().items()}


def run_in_subprocess(
    module: str,
    arguments: Sequence[str],
    what: str,
    should_stop: Callable[[], bool] = lambda: False,
    stderr: int | None = subprocess.DEVNULL,
    *,
    sent: str = "",
    hear: Callable[[Any], None] | None = None,
) -> Any:
    """What `python -m MODULE ARGUMENTS` prints as JSON.

    It is asked to stop by SIGTERM; the error it then writes is raised. `stderr`: as Popen takes it.
    With `hear`, the child is one that `streams`: it gets the line `sent`, and `hear` each partial
    result.

    Raises the EngineError that it wrote to its standard output, or StageError that says how it
    died.
    """
    pipe = subprocess.PIPE
    child = spawn(module, arguments, os.environ, stdin=pipe, stdout=pipe, stderr=stderr)
    reader = threading.Thread(target=lambda: output.extend(child.stdout or ()), daemon=True)
    output: list[bytes] = []
    reader.start()
    stopped = False
    heard = 0
    try:
        if hear and child.stdin is not None:
            with suppress(OSError):  # of one that has died: its end says why
                child.stdin.write(f"{sent}\n".encode())
                child.stdin.flush()
        while reader.is_alive() or child.poll() is None:
            if should_stop() and not stopped:
                child.terminate()
                stopped = True
            heard = _pass_on(output, heard, hear)
            time.sleep(POLL_SECONDS)
        heard = _pass_on(output, heard, hear)
    finally:
        end(child)
    try:
        answer = json.loads(b"".join(output[heard:]))
    except ValueError:
        if stopped:
            raise CancelledError(f"{what} was cancelled.", "", "Nothing was changed.") from None
        raise StageError(
            f"{what} crashed ({how_it_ended(child.returncode)}).",
            "Native code of a model library crashed.",
            "Try another model.",
            code="model-crashed",
        ) from None
    if child.returncode:
        raise EngineError.from_dict(answer, child.returncode)
    return answer


def _pass_on(output: Sequence[bytes], heard: int, hear: Callable[[Any], None] | None) -> int:
    """How many lines of the child's `hear` has got now.

    Its answer, which comes last, does not end with a line end.
    """
    while hear and heard < len(output) and output[heard].endswith(b"\n"):
        hear(json.loads(output[heard]))
        heard += 1
    return heard


def answer(work: Callable[..., Any], *, streams: bool = False) -> NoReturn:
    """Be the child of `run_in_subprocess`: print what `work(should_stop, *arguments)` returns,
    or its error, and exit.

    One that `streams` is called `work(should_stop, emit, sent, *arguments)`: `emit` passes JSON on
    at once.
    """
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    if streams:
        more = [lambda part: print(json.dumps(part), file=output, flush=True), sys.stdin.readline()]
    else:
        more = []
    exit_with_parent()
    prepare_process()
    os.dup2(2, 1)  # what native libraries print is no answer
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    code = 0
    try:
        found = work(stopping.is_set, *more, *sys.argv[1:])
    except EngineError as error:
        found = to_dict(error)
        code = error.exit_code
    except Exception as fault:
        own = StageError(
            f"It had an internal fault ({type(fault).__name__}).",
            f"{fault}",
            "Try again.",
            code="internal-fault",
        )
        found = to_dict(own)
        code = own.exit_code
    with output:
        json.dump(found, output)
    os._exit(code)  # native libraries' threads must not hold it up


def exit_with_parent() -> None:
    """Leave at once when the process that started this one dies: it holds the other end of our
    standard input.
    """

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def how_it_ended(code: int) -> str:
    """`SIGSEGV` or `exit code 3`. `code` as subprocess gives it."""
    if code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"


def crash(stage: str, code: int, folder: Path) -> EngineError:
    """The error of a stage that ended without one.

    `code` as subprocess gives it; `folder` of the run.
    """
    log = folder / f"{stage}.log"
    if code == -signal.SIGKILL:
        return ResourceError(
            f"{STAGE_WORDS[stage]} was killed from outside.",
            "Most often the system does this when memory runs out.",
            "Close other programs, or lower queries_per_step or max_tokens in project.toml, and run"
            " again: it resumes.",
            code="memory-full",
            stage=stage,
            command="run",
        )
    return StageError(
        f"{STAGE_WORDS[stage]} crashed ({how_it_ended(code)}).",
        f"Its output is in {log}.",
        "Run again: it resumes from the last checkpoint.",
        code="stage-crashed",
        stage=stage,
        command="run",
    )


def run_folder_missing(stage: str, folder: Path) -> EngineError:
    """The error of a run whose folder is gone: nothing can be kept, and nobody could cancel it
    any more.
    """
    return StageError(
        f"The folder of the run, {folder}, is gone.",
        "It was deleted or moved during the run.",
        "Run again in the project's present folder.",
        code="run-folder-missing",
        stage=stage,
    )


def end(child: subprocess.Popen[bytes]) -> None:
    """Leave no child behind, whatever ended the wait for it: ask it to stop, then end it."""
    try:
        if child.poll() is None:
            child.terminate()
            child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        pass  # it did not come to a safe point in time
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not yet sent to one that has died
                    pipe.close()
