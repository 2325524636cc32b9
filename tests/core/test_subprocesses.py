"""Child processes that have died."""

from __future__ import annotations

import os
import subprocess

import pytest

from engine.core.subprocesses import end_child, spawn


def test_one_that_died_with_unsent_input_is_let_go_of() -> None:
    child = spawn("this", [], os.environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.wait() == 0
    assert child.stdin is not None
    child.stdin.write(b"text")
    with pytest.raises(OSError):  # noqa: PT011 - its kind depends on the system
        child.stdin.flush()
    end_child(child)
    assert child.stdin.closed
