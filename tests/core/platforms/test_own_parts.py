"""What comes with Windows itself, and what it lacks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from fixtures.pipeline import environment

from engine.core.platforms.own_parts import system_program

RUNTIME = """
import os, sys
os.add_dll_directory = print
sys.platform = "win32"
import engine
"""


def test_programs_of_windows_are_named_by_their_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSTEMROOT", r"E:\WINNT")
    assert system_program("clip.exe") == r"E:\WINNT\System32\clip.exe"
    monkeypatch.delenv("SYSTEMROOT")
    assert system_program("a", "b.exe") == r"C:\Windows\System32\a\b.exe"


def test_the_runtime_library_is_found_before_any_library_needs_it() -> None:
    completed = subprocess.run(
        [sys.executable, "-c", RUNTIME],
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert completed.stdout.splitlines() == [sys.prefix]
