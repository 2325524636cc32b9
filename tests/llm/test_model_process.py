"""How the process of a model is ended while it loads, without llama.cpp."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from fixtures.pipeline import WAIT_SECONDS

from engine.core.errors import CancelledError
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
        code = ["-c", LOADING, str(note), str(WAIT_SECONDS)]
        return subprocess.Popen([sys.executable, *code], **options)

    def stop() -> None:
        if note.read_text().endswith("."):
            raise CancelledError("stopped")

    monkeypatch.setattr(model_process, "check_llm", lambda: None)
    monkeypatch.setattr(model_process, "spawn", start)
    begun = time.monotonic()
    with pytest.raises(CancelledError):
        ModelProcess(ServedFile(path="model.gguf", context=512), stop)
    assert time.monotonic() - begun < WAIT_SECONDS
    psutil.Process(int(note.read_text().rstrip("."))).kill()
