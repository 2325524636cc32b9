"""llama.cpp with its log in our hands: it alone says why a file cannot be loaded.

`python -m engine.gguf.llama FILE` says whether llama.cpp can use a model, which may crash it.
"""

from __future__ import annotations

import ctypes
import os
from collections import deque
from pathlib import Path
from typing import Any

from engine.core.errors import ModelError
from engine.core.extras import check_llm
from engine.core.subprocesses import answer
from engine.gguf.file import unusable
from engine.gguf.header import not_a_writer, read_header

_WARNING = 3
_ERROR = 4
_CONTINUED = 5
_log: deque[str] = deque(maxlen=40)
_kept: list[Any] = []  # C calls these as long as the process lives


def library() -> Any:
    """The llama_cpp module, with its backend initialised.

    Raises UsageError where it is not installed.
    """
    check_llm()
    import llama_cpp

    if not _kept:
        level = 0

        def note(given: int, text: bytes, _data: object) -> None:
            nonlocal level
            level = level if given == _CONTINUED else given
            if level in (_WARNING, _ERROR):
                _log.append(text.decode("utf-8", "replace"))

        _kept.append(llama_cpp.llama_log_callback(note))
        llama_cpp.llama_log_set(_kept[0], ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
    return llama_cpp


def clear_log() -> None:
    """Forget earlier complaints."""
    _log.clear()


def complaint(path: Path) -> str:
    """The last complaints of llama.cpp on one line, without those that only say that loading
    failed.
    """
    lines = [" ".join(line.split()) for line in "".join(_log).splitlines()]
    texts = [
        line.replace(str(path), path.name).rpartition("error loading model: ")[2] for line in lines
    ]
    useful = [line for line in texts if line and "failed to load model" not in line]
    if useful:
        return f"llama.cpp says: {' / '.join(useful[-3:])[:500]}."
    return "llama.cpp gives no reason."


def why_not_loaded(path: Path) -> str:
    """What is wrong with a file by its own header, else what llama.cpp complained about."""
    try:
        wrong = not_a_writer(path, read_header(path))
    except ModelError as error:
        wrong = error
    if wrong:
        return wrong.why
    return complaint(path)


def load(path: Path, **options: Any) -> Any:
    """A model loaded with these parameters of llama.cpp; None where it cannot be, and
    `complaint` says why.
    """
    lib = library()
    clear_log()
    params = lib.llama_model_default_params()
    params.use_extra_bufts = False  # with them, quantised models crash on CPUs with AMX
    for name, value in options.items():
        setattr(params, name, value)
    return lib.llama_model_load_from_file(os.fsencode(path), params)


def tokenise(vocabulary: Any, text: str, *, around: bool, control: bool) -> list[int]:
    """Tokens of a text: with the model's own marks `around` it; with `control`, what is written
    as a control token is one.
    """
    lib = library()
    data = text.encode("utf-8", "replace")
    found = -(len(data) + 8)
    while found < 0:  # it is the room that is needed: a space may be three tokens
        buffer = (lib.llama_token * -found)()
        found = lib.llama_tokenize(vocabulary, data, len(data), buffer, -found, around, control)
    return list(buffer[:found])


def check_vocabulary(path: Path) -> None:
    """Load all of a model but its weights.

    Raises ModelError with the true reason where llama.cpp cannot use it.
    """
    if (model := load(path, vocab_only=True, n_gpu_layers=0)) is None:
        raise unusable(path, why_not_loaded(path))
    library().llama_model_free(model)


if __name__ == "__main__":
    answer(lambda _should_stop, file: check_vocabulary(Path(file)))
