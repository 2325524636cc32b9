"""What `make` says while it installs, and that nothing is lost where llama.cpp is not installed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def test_the_long_installation_is_announced_and_followed(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "--dry-run", f"VENV={tmp_path}/new", "demo"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = done.stdout.splitlines()
    said = next(place for place, line in enumerate(lines) if line.startswith(f'echo "Installing into {tmp_path}/new: '))
    installs, compiles = (
        next(place for place, line in enumerate(lines) if line.endswith(f"--editable {what}"))
        for what in (".", "'.[llm]'")
    )
    assert said < installs < lines.index(f"PYTHONDONTWRITEBYTECODE= {tmp_path}/new/bin/engine demo") < compiles
    assert "--quiet" not in lines[installs]


@pytest.fixture
def demo(tmp_path: Path) -> list[str]:
    """`make demo` in an environment where all but llama.cpp is installed, with a pip that does what the file `pip` says."""
    for name, text in (("engine", "echo RESULT"), ("python", f". {tmp_path}/pip")):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / ".installed").touch()
    return ["make", f"VENV={tmp_path}", "COMPILER=c++", "demo"]


@pytest.mark.parametrize(
    ("pip", "more", "installed"), [("exit 0", [], True), ("exit 1", [], False), ("exit 0", ["COMPILER="], False)]
)
def test_the_result_comes_first_and_stands_whatever_becomes_of_llama_cpp(
    demo: list[str], tmp_path: Path, pip: str, more: list[str], installed: bool
) -> None:
    (tmp_path / "pip").write_text(pip)
    done = subprocess.run([*demo, *more], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result, _, rest = done.stdout.partition("RESULT")
    assert "llama.cpp" not in result
    assert ("make llm" in rest, (tmp_path / ".installed-llm").exists()) == (not installed, installed)


def test_an_interrupt_says_how_to_add_llama_cpp(demo: list[str], tmp_path: Path) -> None:
    (tmp_path / "pip").write_text(f"touch {tmp_path}/begun\nexec sleep 60")
    demo[:0] = ["env", "--default-signal=INT"]  # what a shell starts in the background ignores it
    running = subprocess.Popen(demo, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    said = running.communicate(timeout=30)[0]
    assert running.returncode not in (0, None)
    assert "make llm" in said.partition("RESULT")[2]
    assert not (tmp_path / ".installed-llm").exists()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
