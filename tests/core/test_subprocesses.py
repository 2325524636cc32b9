"""Child processes that have died."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from fixtures.errors import fails

from engine.core.errors import InputError, StageError
from engine.core.subprocesses import (
    ChildOutput,
    end_child,
    explain_memory,
    read_error,
    run_in_subprocess,
    spawn,
    to_short_dict,
)
from engine.settings.schema import Settings


def test_one_that_died_with_unsent_input_is_let_go_of() -> None:
    child = spawn(
        "this",
        [],
        os.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
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


def test_the_error_on_the_last_line_is_read() -> None:
    error = InputError(
        "It is empty.",
        "It has 0 bytes.",
        "Choose another.",
        code="empty-file",
    )
    read = read_error(f"noise of a library\n{json.dumps(to_short_dict(error))}\n", 3)
    assert isinstance(read, InputError)
    assert read.as_dict() == error.as_dict()


@pytest.mark.parametrize(
    "output",
    ["", "\n", "{", "7", "null", "[1]", '"what"', '["what"]', "{}", '{"code": 3}', "[" * 100_000],
)
def test_what_is_no_error_is_not_taken_for_one(output: str) -> None:
    assert read_error(output, 1) is None


CHILD = """
import os, sys
from engine.core.subprocesses import run_as_child


def work(_should_stop, _how):
    raise ValueError("in: the code of the vault")


if __name__ == "__main__":
    if sys.argv[1] == "number":
        os.write(1, b"7")
        os._exit(3)
    run_as_child(work)
"""


@pytest.mark.parametrize(
    ("how", "code"), [("number", "model-crashed"), ("raise", "internal-fault")]
)
def test_an_unexpected_end_of_a_child_is_an_error_that_quotes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, code: str
) -> None:
    (tmp_path / "failing_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with fails(StageError, code) as caught:
        run_in_subprocess("failing_child", [how], "The work")
    assert "vault" not in str(caught.value)
    if how == "raise":
        assert "ValueError" in caught.value.what
        assert "failing_child.py, line " in caught.value.why


@pytest.mark.parametrize(
    ("stage", "settings"),
    [
        ("ingest", ["corpus.reading_processes"]),
        ("index", []),
        ("train", ["training.queries_per_step", "training.max_tokens"]),
        ("embed", ["encoder.max_tokens"]),
    ],
)
def test_advice_about_memory_names_settings_of_the_stage(stage: str, settings: list[str]) -> None:
    named = re.findall(r"\b[a-z]+\.[a-z_]+", explain_memory(stage).replace("project.toml", ""))
    assert named == settings
    for name in named:
        section, key = name.split(".")
        assert hasattr(getattr(Settings(), section), key)
