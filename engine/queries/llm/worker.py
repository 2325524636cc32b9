"""A process for what llama.cpp is asked outside a run, which may crash it: `python -m engine.queries.llm.worker WHAT ARGUMENTS`.

`sample FOLDER COUNT`: a sample of queries; `vocabulary FILE`: whether a model's file can be used. Its one line on standard
output is the result as JSON or, with an exit code, the error.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.core import environment
from engine.core.errors import EngineError, StageError
from engine.core.subprocesses import exit_with_parent, told

MODULE = "engine.queries.llm.worker"


def _sample(should_stop: Callable[[], bool], folder: str, count: str) -> Any:
    from engine.project.folder import ProjectFolder
    from engine.queries.sample import sample_here

    return sample_here(ProjectFolder(Path(folder)), int(count), should_stop)


def _vocabulary(_should_stop: Callable[[], bool], file: str) -> Any:
    from engine.queries.llm.gguf_model import check_vocabulary

    check_vocabulary(Path(file))
    return {}


WORK: Mapping[str, Callable[..., Any]] = {"sample": _sample, "vocabulary": _vocabulary}


def main(arguments: Sequence[str]) -> int:
    """Do what is asked; the exit code."""
    environment.prepare_process()
    answer = os.dup(1)
    os.dup2(2, 1)  # what native libraries print is no answer
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    what, *others = arguments
    code = 0
    try:
        found = WORK[what](stopping.is_set, *others)
    except EngineError as error:
        found, code = told(error), error.exit_code
    except Exception as fault:
        own = StageError(f"It met a fault of its own ({type(fault).__name__}).", f"{fault}", "Try again.")
        found, code = told(own), own.exit_code
    with os.fdopen(answer, "w", encoding="utf-8") as file:
        json.dump(found, file)
    return code


if __name__ == "__main__":
    exit_with_parent()
    ended = main(sys.argv[1:])
    os._exit(ended)  # native libraries' threads must not hold it up
