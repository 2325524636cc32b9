"""How tests that end their process are counted."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

TESTS = """
import os, sys

def test_first(): pass
def test_that_ends_the_process(): os._exit(3)
def test_that_fails(): assert False
def test_last(): pass
"""


def test_a_run_goes_on_after_a_test_that_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    suite = importlib.import_module("suite")
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


@pytest.mark.parametrize(
    ("status", "is_complete"), [(0, True), (1, True), (2, False), (3, False), (4, False), (5, True)]
)
def test_only_a_run_that_left_out_no_test_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, *, is_complete: bool
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    resume = importlib.import_module("resume")
    record = tmp_path / "record.jsonl"
    record.touch()
    monkeypatch.setenv(resume.RECORD, str(record))
    resume.pytest_sessionfinish(status)
    assert (resume.END in resume.read_record(record)) is is_complete


def test_a_test_that_is_begun_again_counts_as_broken_off_until_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    resume = importlib.import_module("resume")
    record = tmp_path / "record.jsonl"
    record.touch()
    monkeypatch.setenv(resume.RECORD, str(record))
    recorded = []
    for outcome in ("rerun", "passed"):
        report = pytest.TestReport("a", ("a.py", 1, "a"), {}, "passed", None, "call")
        report.outcome = outcome  # type: ignore[assignment]
        resume.pytest_runtest_logreport(report)
        recorded.append(resume.read_record(record))
    assert recorded == [{"a": resume.BROKEN_OFF}, {"a": "passed"}]
