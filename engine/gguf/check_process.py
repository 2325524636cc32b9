"""`python -m engine.gguf.check_process FILE`: whether llama.cpp can use a model, which may crash it."""

from __future__ import annotations

from pathlib import Path

from engine.core.subprocesses import answer
from engine.gguf.llama import check_vocabulary

if __name__ == "__main__":
    answer(lambda _should_stop, file: check_vocabulary(Path(file)))
