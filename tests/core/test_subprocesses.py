"""Child processes that have died."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from engine.core.subprocesses import ChildOutput, end_child, spawn


def test_one_that_died_with_unsent_input_is_let_go_of() -> None:
    child = spawn("this", [], os.environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert child.wait() == 0
    assert child.stdin is not None
    child.stdin.write(b"text")
    with pytest.raises(OSError):  # noqa: PT011 - its kind depends on the system
        child.stdin.flush()
    end_child(child)
    assert child.stdin.closed


def test_the_output_of_a_child_is_read_while_it_runs() -> None:
    code = f"import os; os.write(1, bytes({1 << 20}))"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    output = ChildOutput(child)
    assert child.wait(60) == 0
    assert output.read() == bytes(1 << 20)


def test_a_child_whose_own_child_keeps_its_output_can_be_ended() -> None:
    code = (
        "import subprocess, sys;"
        " other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        " print(other.pid, flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    output = ChildOutput(child)
    while not output.read(0.1):
        assert child.poll() is None
    grandchild = psutil.Process(int(output.read(0.1)))
    try:
        end_child(child)
        assert grandchild.is_running()
        assert output.read(0.1).split() == [str(grandchild.pid).encode()]
    finally:
        grandchild.kill()
