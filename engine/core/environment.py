"""Process-wide switches that must be set before any heavy library is imported."""

from __future__ import annotations

import os
import signal
import threading

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


def restore_child_signal() -> None:
    """Stop ignoring SIGCHLD, which the parent program may have done.

    A process that ignores it cannot learn how its children ended: to Python, all of them exited
    with 0.
    """
    if threading.current_thread() is not threading.main_thread():
        # Python can change signal handlers in the main thread only.
        return
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
