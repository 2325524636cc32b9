"""How tests that end their process are counted."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from types import ModuleType

import psutil
import pytest

TESTS = """
import os, sys

def test_first(): pass
def test_that_ends_the_process(): os._exit(3)
def test_that_fails(): assert False
def test_last(): pass
"""


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("suite")


@pytest.fixture
def record(tmp_path: Path) -> Path:
    path = tmp_path / "record.jsonl"
    path.touch()
    return path


@pytest.fixture
def resume(record: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    module = importlib.import_module("resume")
    monkeypatch.setenv(module.RECORD, str(record))
    return module


def test_a_run_goes_on_after_a_test_that_ends_the_process(
    suite: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "HERE", True)
    (tmp_path / "pytest.ini").touch()
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_four.py").write_text(TESTS)
    (tests / "test_import.py").write_text("import no_module_of_this_name")
    outcomes = suite.run_folder(str(tests), tmp_path / "tests.log")
    assert {name.rpartition("/")[2]: outcome for name, outcome in outcomes.items()} == {
        "test_four.py::test_first": "passed",
        "test_four.py::test_that_ends_the_process": suite.BROKEN_OFF,
        "test_four.py::test_that_fails": "failed",
        "test_four.py::test_last": "passed",
        "test_import.py": "failed",
    }


LEAVES_A_PROCESS = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
print(child.pid)
"""


def test_nobody_waits_for_a_process_that_a_test_has_left_behind(
    suite: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(suite, "HERE", False)
    monkeypatch.setattr(
        suite,
        "build_environment",
        lambda _seconds: dict(os.environ),
    )
    command = [sys.executable, "-c", LEAVES_A_PROCESS]
    monkeypatch.setattr(
        suite,
        "build_command",
        lambda _arguments: command,
    )
    log = tmp_path / "tests.log"
    suite.run_tests(
        "tests",
        log,
        tmp_path / "record.jsonl",
    )
    psutil.Process(int(log.read_text())).kill()  # it would have ended long after this test's time


@pytest.mark.parametrize(
    ("status", "is_complete"), [(0, True), (1, True), (2, False), (3, False), (4, False), (5, True)]
)
def test_only_a_run_that_left_out_no_test_has_an_end(
    resume: ModuleType, record: Path, status: int, *, is_complete: bool
) -> None:
    resume.pytest_sessionfinish(status)
    assert (resume.END in resume.read_record(record)) is is_complete


def test_a_test_that_is_begun_again_counts_as_broken_off_until_it_ends(
    resume: ModuleType, record: Path
) -> None:
    recorded = []
    for outcome in ("rerun", "passed"):
        report = pytest.TestReport(
            "a",
            ("a.py", 1, "a"),
            {},
            "passed",
            None,
            "call",
        )
        report.outcome = outcome  # type: ignore[assignment]
        resume.pytest_runtest_logreport(report)
        recorded.append(resume.read_record(record))
    assert recorded == [{"a": resume.BROKEN_OFF}, {"a": "passed"}]
