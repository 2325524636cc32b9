"""Process-wide switches that must be set before any heavy library is imported."""

from __future__ import annotations

import io
import os
import sys
from typing import TextIO

from engine.core.platforms import SYSTEM
from engine.core.platforms.processes import restore_child_signal

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_DATASETS_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    # ONNX Runtime from 1.29 on sends telemetry by default.
    "ORT_DISABLE_TELEMETRY": "1",
}
QUIET = {
    # Spinning OpenMP threads slow a busy machine tenfold.
    "OMP_WAIT_POLICY": "PASSIVE",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "GGML_NO_BACKTRACE": "1",
}


def prepare() -> None:
    """Set the offline and threading variables.

    Must be called before torch, transformers or llama_cpp is imported.
    """
    os.environ.update(OFFLINE)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def prepare_process() -> None:
    """Set the variables of `prepare`, a private umask and signals, for a process of our own."""
    prepare()
    os.umask(0o077)
    restore_child_signal()
    if SYSTEM == "windows":
        # A pipe would get the code page of the system, which lacks most letters.
        for stream in (sys.stdin, sys.stdout, sys.stderr):
            _use_utf8(stream)


def _use_utf8(stream: TextIO | None) -> None:
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
