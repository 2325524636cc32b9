"""Process-wide switches that must be set before any heavy library is imported."""

from __future__ import annotations

import os
import sys

from engine.core.platforms.pipes import accept_any_text, open_missing_streams
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
ONLY_ON_PATH = "NoDefaultCurrentDirectoryInExePath"


def prepare() -> None:
    """Set the offline and threading variables.

    Must be called before torch, transformers or llama_cpp is imported.
    """
    os.environ.update(OFFLINE)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def prepare_process() -> None:
    """Prepare a process that runs only this program: variables, umask, signals and streams.

    `engine.api`, which other programs import, calls only `prepare`.
    """
    prepare()
    open_missing_streams()
    # With it, Windows does not look for programs in the working directory.
    os.environ[ONLY_ON_PATH] = "1"
    os.umask(0o077)
    restore_child_signal()
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        accept_any_text(stream)
