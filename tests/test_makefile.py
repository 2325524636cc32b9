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
# before those of `engine demo` (tests/end_to_end/test_demo.py), which may be 55: `make demo` prints
# 60
MOST_LINES_OF_MAKE = 5
pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def demo(tmp_path: Path) -> list[str]:
    """`make demo` in an environment where all but llama.cpp is installed, with a pip that does
    what the file `pip` says.
    """
    for name, text in (
        ("engine", f"echo engine >> {tmp_path}/order\necho RESULT"),
        ("python", f". {tmp_path}/pip"),
    ):
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / ".installed").touch()
    return [
        "make",
        f"VENV={tmp_path}",
        "COMPILER=c++",
        "demo",
    ]


def test_installing_takes_few_lines_and_names_the_log_of_pip(
    demo: list[str], tmp_path: Path
) -> None:
    (tmp_path / ".installed").unlink()
    talks = 'case "$*" in *"-qq --progress-bar off"*) ;; *) seq 200 ;; esac'
    (tmp_path / "pip").write_text(f'{talks}\necho "$*" >> {tmp_path}/order')
    done = subprocess.run(
        demo,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    before = done.stdout.partition("RESULT")[0] + done.stderr
    log = f"{tmp_path}/pip.log"
    assert before.count(log) == 1
    assert 1 <= len(before.splitlines()) <= MOST_LINES_OF_MAKE
    everything, shown, extra = (tmp_path / "order").read_text().splitlines()
    assert f"--log {log}" in everything
    assert (everything.split()[-2:], shown, extra.split()[-2:]) == (
        ["--editable", "."],
        "engine",
        ["--editable", ".[llm]"],
    )


@pytest.mark.parametrize(
    ("pip", "more", "installed"),
    [("exit 0", [], True), ("exit 1", [], False), ("exit 0", ["COMPILER="], False)],
)
def test_the_result_comes_first_and_stands_whatever_becomes_of_llama_cpp(
    demo: list[str], tmp_path: Path, pip: str, more: list[str], installed: bool
) -> None:
    (tmp_path / "pip").write_text(pip)
    done = subprocess.run(
        [*demo, *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result, _, rest = done.stdout.partition("RESULT")
    assert "llama.cpp" not in result
    assert ("make llm" in rest, (tmp_path / ".installed-llm").exists()) == (
        not installed,
        installed,
    )


def test_an_interrupt_says_how_to_add_llama_cpp(demo: list[str], tmp_path: Path) -> None:
    (tmp_path / "pip").write_text(f"touch {tmp_path}/begun\nexec sleep 60")
    # A shell's background processes ignore SIGINT, and other parents SIGCHLD.
    # Below `make --jobs`, a make takes itself for a part of that one.
    demo[:0] = [
        "env",
        "--default-signal",
        "-u",
        "MAKEFLAGS",
        "-u",
        "MAKELEVEL",
        "-u",
        "MFLAGS",
    ]
    running = subprocess.Popen(
        demo,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (tmp_path / "begun").exists():
        time.sleep(0.05)
    os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
    said, complaints = running.communicate(timeout=30)
    assert running.returncode not in (0, None)
    assert "make llm" in said.partition("RESULT")[2]
    assert "***" not in complaints  # to skip it is no error
    assert not (tmp_path / ".installed-llm").exists()


@pytest.mark.parametrize(
    ("compiler", "is_built", "packed"),
    [("", False, ""), ("g++", False, "WHEELS"), ("g++", True, "WHEELS")],
)
def test_the_folder_for_windows_has_gguf_models_where_there_is_a_compiler(
    tmp_path: Path, compiler: str, is_built: bool, packed: str
) -> None:
    wheels = tmp_path / "WHEELS"
    if is_built:
        wheels.mkdir()
        (wheels / ".built").touch()
    variables = [
        f"MINGW={compiler}",
        f"WINDOWS_LLM={wheels}",
        "PYTHON_ZIP=python.zip",
    ]
    command = [
        "make",
        "--dry-run",
        "windows-zip",
        f"VENV={tmp_path}",
        *variables,
    ]
    done = subprocess.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    packing = next(line for line in lines if "windows_zip.py" in line)
    target = packing.rstrip().rpartition("build/windows-zip/bmembed")[2].strip()
    assert target == (str(wheels) if packed else "")
    compiling = [line for line in lines if "mingw.cmake" in line]
    assert len(compiling) == int(bool(compiler) and not is_built)
    assert len([line for line in lines if line.startswith("echo")]) == int(not compiler)


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
