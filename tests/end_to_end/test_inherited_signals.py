"""What the program that starts `engine` has told the system to do with signals, which a process
inherits.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fixtures.pipeline import environment

from engine.project.folder import ProjectFolder

pytestmark = pytest.mark.posix(reason="Windows has no SIGCHLD")
IGNORING = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
HOW_A_CHILD_ENDED = """
import subprocess, sys
from engine.core.environment import prepare_process
prepare_process()
print(subprocess.run([sys.executable, "-c", "raise SystemExit(3)"]).returncode)
"""


def run_ignoring_child_signal(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python as a child of a program that ignores SIGCHLD."""
    return subprocess.run(
        [sys.executable, "-c", IGNORING, *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def test_how_children_ended_is_learnt_where_sigchld_was_ignored() -> None:
    completed = run_ignoring_child_signal("-c", HOW_A_CHILD_ENDED)
    assert completed.stdout == "3\n", completed.stderr


def test_a_stage_that_fails_ends_the_run_where_sigchld_was_ignored(tmp_path: Path) -> None:
    project = ProjectFolder.create(tmp_path / "project", {"corpus": {"paths": ["documents"]}})
    (project.path / "documents").mkdir()
    completed = run_ignoring_child_signal(
        "-m",
        "engine",
        "run",
        str(project.path),
        "--json",
    )
    events = [json.loads(line) for line in completed.stdout.splitlines()]
    failed = [
        (event["stage"], event["error"]["code"])
        for event in events
        if event["event"] == "stage_failed"
    ]
    assert failed == [("ingest", "no-documents")]
    assert completed.returncode == 3
