"""Standard streams."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import environment

COMMAND = f"exec {sys.executable} -m engine"


def run(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command], env=environment(), capture_output=True, text=True, check=False
    )


@pytest.mark.posix(reason="a shell that closes streams")
@pytest.mark.parametrize(
    ("streams", "command", "code"),
    [("<&-", "list", 0), (">&-", "list", 0), ("<&- >&- 2>&-", "list", 0), (">&-", "status x", 2)],
)
def test_a_command_runs_with_closed_streams(
    streams: str,
    command: str,
    code: int,
) -> None:
    completed = run(f"{COMMAND} {command} {streams}")
    assert completed.returncode == code, completed.stderr


@pytest.mark.posix(reason="a shell that closes streams")
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """What a library prints would else be written into the file."""
    program = (
        "import os; from engine.core.environment import prepare_process; prepare_process();"
        f" file = open({str(tmp_path / 'file')!r}, 'w'); os.write(1, b'printed')"
    )
    assert run(f'exec {sys.executable} -c "{program}" >&-').returncode == 0
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.posix(reason="Windows writes UTF-8")
@pytest.mark.parametrize(
    ("encoding", "written"),
    [("ascii", b"\\xfc \\u2713"), ("latin-1", b"\xfc \\u2713"), ("utf-8", "ü ✓".encode())],
)
def test_what_the_encoding_of_the_locale_lacks_is_written_as_its_number(
    encoding: str, written: bytes
) -> None:
    program = (
        "from engine.core.environment import prepare_process; prepare_process();"
        " print('\\xfc \\u2713', end='')"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment(), "PYTHONIOENCODING": encoding},
        capture_output=True,
        check=False,
    )
    assert (completed.stdout, completed.returncode) == (written, 0)
