"""Why a model's file could not be loaded, in words of our own: what the file itself shows, or what llama.cpp complained about."""

from __future__ import annotations

import re
from pathlib import Path

from engine.core.errors import ModelError
from engine.gguf.header import not_a_writer, read_header

_NEWER = "It may be newer than the llama.cpp that is installed here"
_COMPLAINTS = (  # of llama.cpp → ours
    (r"unknown model architecture: '([^']*)'", f"Its architecture '{{}}' is not known. {_NEWER}."),
    (r"unknown pre-tokenizer type: '([^']*)'", f"Its tokenizer '{{}}' is not known. {_NEWER}."),
    (r"key not found in model: (\S+)", "Its header lacks '{}': it is not complete."),
    (
        r"tensor '([^']*)' not found",
        "It lacks the weights '{}' that its architecture needs: it is not complete, or another version's.",
    ),
    (r"tensor '([^']*)' has wrong shape", "Its weights '{}' are of another shape than its header says: it is corrupt."),
    (
        r"tensor '([^']*)' data is not within the file bounds",
        "It is cut off: the weights '{}' are beyond its end. A download may have broken off.",
    ),
    (r"(?:unable|failed) to allocate", "There is too little free memory for it."),
)


def why_not_loaded(path: Path, said: str) -> str:
    """The reason, where `said` is llama.cpp's message; that itself where it is none that is known."""
    try:
        wrong = not_a_writer(path, read_header(path))
    except ModelError as error:
        wrong = error
    if wrong is not None:
        return wrong.why
    for complaint, ours in _COMPLAINTS:
        if found := re.search(complaint, said):
            return ours.format(*found.groups())
    return f"llama.cpp cannot use it. {said}"
