"""A plugin of pytest that records the outcome of each test in the file of RECORD.

Tests that are recorded there already are left out, so that a run goes on where a test that hung or
crashed has ended the one before.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

RECORD = "BMEMBED_TESTS_RECORD"
BROKEN_OFF = "broken off"
END = "end"
COMPLETE = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)
"""How a run ends that has left out no test."""


def read_record(path: Path) -> dict[str, str]:
    """Return the outcome of each test; that of END is there once a run has reached its end."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(json.loads(line) for line in lines)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the tests that were begun."""
    begun = read_record(_record_path())
    items[:] = [item for item in items if item.nodeid not in begun]


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Record a file that cannot be imported."""
    if report.failed:
        _write(report.nodeid, report.outcome)


def pytest_runtest_logstart(nodeid: str) -> None:
    """Record that a test has begun."""
    _write(nodeid, BROKEN_OFF)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Record the outcome of a test, or that of its preparation if that failed.

    The reason of a failure is printed at once: a run that is broken off prints no summary.
    """
    if report.outcome == "rerun":
        # Only the test's last attempt counts, and until it is over, none has passed or failed.
        _write(report.nodeid, BROKEN_OFF)
    elif report.when == "call" or not report.passed:
        _write(report.nodeid, report.outcome)
    if report.failed:
        print(f"\n{report.longreprtext}", flush=True)


def pytest_sessionfinish(exitstatus: int) -> None:
    """Record that all tests were run; pytest also calls this after an error of its own."""
    if exitstatus in COMPLETE:
        _write(END, "")


def _write(name: str, outcome: str) -> None:
    with _record_path().open("a", encoding="utf-8") as file:
        print(json.dumps([name, outcome]), file=file)


def _record_path() -> Path:
    return Path(os.environ[RECORD])
