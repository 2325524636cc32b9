"""The error of a command that ends early: for people in sentences, for programs as one line of
JSON; never twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fixtures.pipeline import engine, engine_here, environment

from engine.project.folder import ProjectFolder


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    """A project without documents."""
    (tmp_path / "documents").mkdir()
    return ProjectFolder.create(
        tmp_path / "my project", {"corpus": {"paths": [str(tmp_path / "documents")]}}
    ).path


def error_of(
    *arguments: str, code: str = "from engine.cli import main; main()"
) -> tuple[int, dict[str, Any], str]:
    """Exit code, the JSON object on the last line of standard error, and what stands before it."""
    completed = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.argv[0] = 'engine'; {code}", *arguments],
        env={**environment(), "BMEMBED_ERRORS": "json"},
        capture_output=True,
        text=True,
        check=False,
    )
    *before, last = completed.stderr.splitlines()
    assert completed.stdout == ""
    return completed.returncode, json.loads(last), "\n".join(before)


@pytest.mark.parametrize(
    ("arguments", "status", "kind", "code"),
    [
        (["status", "/no/project"], 2, "UsageError", "project-missing"),
        (["search", "PROJECT", "x", "--mode", "bm25"], 3, "NotBuiltError", "not-built"),
        (["frobnicate"], 2, "UsageError", "wrong-use"),
        (["search", "PROJECT"], 2, "UsageError", "wrong-use"),
        ([], 2, "UsageError", "wrong-use"),
        (["ingest", "PROJECT"], 3, "NoDocumentsError", "no-documents"),
        (["pause", "PROJECT"], 2, "UsageError", "no-run"),
    ],
)
def test_an_error_is_one_line_of_json(
    empty: Path, arguments: list[str], status: int, kind: str, code: str
) -> None:
    ended, error, before = error_of(
        *[str(empty) if part == "PROJECT" else part for part in arguments]
    )
    assert (ended, error["type"], error["code"]) == (status, kind, code)
    assert list(error) == ["type", "code", "what", "why", "to_do", "stage", "command"]
    assert all(isinstance(text, str) for text in error.values())
    assert error["what"] not in before


@pytest.mark.parametrize(
    ("fault", "status", "kind", "code", "value"),
    [
        (
            "ValueError('broken \\x1b[2J')",
            1,
            "EngineError",
            "internal-fault",
            "ValueError: broken \x1b[2J",
        ),
        ("OSError(28, 'No space left')", 6, "ResourceError", "disk-full", ""),
        ("PermissionError(13, 'Permission denied')", 3, "InputError", "file-access", ""),
        ("KeyboardInterrupt()", 130, "CancelledError", "cancelled", ""),
    ],
)
def test_an_unexpected_fault_has_the_same_shape(
    fault: str, status: int, kind: str, code: str, value: str
) -> None:
    failing = f"import engine.cli as cli\ndef copy(_): raise {fault}\ncli.copy = copy\ncli.main()"
    ended, error, before = error_of(code=failing)
    assert (ended, error["type"], error["code"], before) == (status, kind, code, "")
    assert value in error["what"]


def test_an_error_is_printed_once_and_in_sentences(empty: Path) -> None:
    completed = engine_here(
        "adapt",
        str(empty),
        check=False,
    )
    assert completed.returncode == 3
    (first,) = (line for line in completed.stderr.splitlines() if line.startswith("Error: "))
    assert completed.stderr.count(first.removeprefix("Error: ")) == 1
    assert any(line.startswith("✗ ingest") for line in completed.stderr.splitlines())


def test_a_fault_does_not_steer_the_terminal() -> None:
    code = (
        "import engine.cli as cli\n"
        "def copy(_): raise ValueError('a\\x1b[2Jb')\n"
        "cli.copy = copy\n"
        "cli.main()"
    )
    completed = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert completed.returncode == 1
    assert "ValueError: a�[2Jb" in completed.stderr
    assert "Traceback" not in completed.stderr


@pytest.mark.posix(reason="its shell is bash")
def test_what_to_do_next_can_be_pasted_into_a_shell(tmp_path: Path) -> None:
    (tmp_path / "documents").mkdir()
    path = tmp_path / "it's mine; rm -rf x"
    created = engine_here(
        "new",
        str(path),
        str(tmp_path / "documents"),
    )
    command = created.stderr.strip().partition("Next: engine run ")[2]
    echo = subprocess.run(
        ["bash", "-c", f"printf %s {command}"], capture_output=True, text=True, check=True
    )
    assert echo.stdout == str(path)
    early = engine_here(
        "search",
        str(path),
        "x",
        "--mode",
        "bm25",
        check=False,
    )
    assert f"engine run {command}" in early.stderr


def test_the_version_is_printed() -> None:
    from engine.version import __version__

    assert engine("--version").stdout == f"engine {__version__}\n"


LAUNCHED = {
    "RANK": "0",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}


@pytest.mark.parametrize(
    ("error", "launched", "code"),
    [
        ("CancelledError", False, 130),
        ("CancelledError", True, 0),
        ("StageError", True, 5),
        ("StageError", False, 5),
    ],
)
def test_to_be_stopped_is_no_crash_for_a_launcher(
    error: str,
    launched: bool,
    code: int,
) -> None:
    """torchrun shows a traceback where a process of its own ends with any code but 0."""
    raising = (
        f"import engine.cli as cli, engine.core.errors as errors; cli._end_with(errors.{error}('It"
        " ended.'))"
    )
    completed = subprocess.run(
        [sys.executable, "-c", raising],
        env={**environment(), **(LAUNCHED if launched else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (completed.returncode, "It ended." in completed.stderr) == (code, True)
