"""How the process of a model is ended while it loads, without llama.cpp."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.pipeline import WAIT_SECONDS

from engine.core.errors import CancelledError, UsageError
from engine.llm import model_process
from engine.llm.model_process import ModelProcess, ServedFile

# Starts a process that outlives it and holds its standard output.
LOADING = """
import subprocess, sys, time
from pathlib import Path
wait = f"import time; time.sleep({sys.argv[2]})"
other = subprocess.Popen([sys.executable, "-c", wait], stdout=sys.stdout)
Path(sys.argv[1]).write_text(f"{other.pid}.")
time.sleep(float(sys.argv[2]))
"""


def test_a_stop_does_not_wait_for_another_process_that_holds_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "pid"
    note.touch()

    def start(
        module: str, arguments: Sequence[str], environ: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[bytes]:
        code = [
            "-c",
            LOADING,
            str(note),
            str(WAIT_SECONDS),
        ]
        return subprocess.Popen([sys.executable, *code], **options)

    def stop() -> None:
        if note.read_text().endswith("."):
            raise CancelledError("stopped")

    monkeypatch.setattr(
        model_process,
        "check_llm",
        lambda: None,
    )
    monkeypatch.setattr(model_process, "spawn", start)
    begun = time.monotonic()
    with pytest.raises(CancelledError):
        ModelProcess(ServedFile(path="model.gguf", context=512), stop)
    assert time.monotonic() - begun < WAIT_SECONDS
    psutil.Process(int(note.read_text().rstrip("."))).kill()


def test_a_library_that_does_not_load_is_an_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a wheel that was built for other processors or another C library."""
    pytest.importorskip("llama_cpp")
    broken = tmp_path / "packages" / "llama_cpp"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise OSError('version GLIBC_9.9 not found')")
    path = [str(broken.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setattr(
        model_process,
        "check_llm",
        lambda: None,
    )
    with pytest.raises(UsageError) as caught:
        ModelProcess(ServedFile(path="model.gguf", context=512), lambda: None)
    assert caught.value.code == "package-broken"
    assert caught.value.why == "version GLIBC_9.9 not found"
