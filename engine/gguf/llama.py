"""llama.cpp with its log captured, since only the log says why a file cannot be loaded.

`python -m engine.gguf.llama FILE` says whether llama.cpp can use a model, which may crash it.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError, UsageError
from engine.core.extras import check_llm, install_command
from engine.core.subprocesses import run_as_child
from engine.gguf.file import unusable
from engine.gguf.header import not_a_writer, read_header

# Values of enum ggml_log_level; the last one continues the message before it.
_WARNING = 3
_ERROR = 4
_CONTINUED = 5
_log: deque[str] = deque(maxlen=40)
"""The latest warnings and errors, in pieces as llama.cpp gives them."""
_callbacks: list[Any] = []  # Kept, as C calls them for the life of the process.


def import_llama() -> Any:
    """Return the llama_cpp module.

    Raises UsageError if it is not installed, or if its libraries do not fit this machine.
    """
    check_llm()
    try:
        import llama_cpp
    except (ImportError, OSError, RuntimeError) as error:
        raise UsageError(
            "llama.cpp is installed, but cannot be loaded.",
            str(error),
            f"Remove the package llama-cpp-python and install it again: {install_command('llm')}",
            code="package-broken",
        ) from error
    return llama_cpp


def capture_log() -> Any:
    """Return the llama_cpp module, with its backend initialised and its warnings recorded.

    Raises UsageError if it cannot be used.
    """
    llama_cpp = import_llama()
    if not _callbacks:
        level = 0

        def record(
            message_level: int,
            text: bytes,
            _data: object,
        ) -> None:
            nonlocal level
            if message_level != _CONTINUED:
                level = message_level
            if level in (_WARNING, _ERROR):
                _log.append(text.decode("utf-8", "replace"))

        _callbacks.append(llama_cpp.llama_log_callback(record))
        llama_cpp.llama_log_set(_callbacks[0], ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


def format_complaints(path: Path) -> str:
    """Return what llama.cpp last complained about, in a sentence; `path` is the model's file."""
    complaints = []
    for line in "".join(_log).splitlines():
        text = " ".join(line.split()).replace(str(path), path.name)
        text = text.rpartition("error loading model: ")[2]
        # This one says nothing more than that loading failed.
        if text and "failed to load model" not in text:
            complaints.append(text)
    if complaints:
        return f"llama.cpp says: {' / '.join(complaints[-3:])[:500]}."
    return "llama.cpp gives no reason."


def why_not_loaded(path: Path) -> str:
    """Return what is wrong with a file by its header, else what llama.cpp complained about."""
    try:
        unsuitable = not_a_writer(path, read_header(path))
    except ModelError as error:
        return error.why
    if unsuitable:
        return unsuitable.why
    return format_complaints(path)


def check_loadable(path: Path) -> None:
    """Load all of a model except its weights, to see whether llama.cpp can use it.

    Raises ModelError with the reason if it cannot.
    """
    library = capture_log()
    params = library.llama_model_default_params()
    params.vocab_only = True
    params.n_gpu_layers = 0
    model = library.llama_model_load_from_file(os.fsencode(path), params)
    if model is None:
        raise unusable(path, why_not_loaded(path))
    library.llama_model_free(model)


if __name__ == "__main__":
    run_as_child(lambda _should_stop, file: check_loadable(Path(file)))
