"""The portable part of the test suite under Wine: `suite.py [TESTS…]`.

Each folder of tests is a run of pytest of its own, so that a process that hangs costs one folder.
Prints the last line of each run, and ends with 1 if fewer than 95 % of all tests pass.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from wine import ROOT, run_python

FOLDERS = ("core", "project", "lexical", "vectors", "search", "runs", "service", "training")
SECONDS = 1800.0
LEAST_SHARE = 0.95
COUNT = re.compile(r"(\d+) (passed|failed|error)")


def run_tests(tests: str) -> tuple[int, int, str]:
    """Return how many tests passed and failed, and the end of the output."""
    options = ("-p", "no:cacheprovider", "--timeout", "300", "-m", "not slow and not posix")
    try:
        output = run_python(["-m", "pytest", *options, tests], SECONDS).stdout
    except subprocess.TimeoutExpired as error:
        output = f"{error.stdout!r}\n1 failed: it took longer than {SECONDS:.0f} s"
    last = output.strip().splitlines()[-1] if output.strip() else "0 passed, 1 error"
    counts = {kind: int(number) for number, kind in COUNT.findall(last)}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    return counts.get("passed", 0), failed, output


def list_failures(output: str) -> Iterator[str]:
    """Yield the lines of the summary that name a test."""
    for line in output.splitlines():
        if line.startswith(("FAILED", "ERROR")):
            yield line


def main(chosen: list[str]) -> int:
    """Run the chosen tests, or all portable folders."""
    all_passed = 0
    all_failed = 0
    for tests in chosen or [f"tests/{name}" for name in FOLDERS]:
        started = time.monotonic()
        passed, failed, output = run_tests(tests)
        all_passed += passed
        all_failed += failed
        print(f"{tests}: {passed} passed, {failed} failed, {time.monotonic() - started:.0f} s")
        print("\n".join(list_failures(output)), flush=True)
    print(f"{all_passed} passed, {all_failed} failed")
    return int(all_passed < LEAST_SHARE * (all_passed + all_failed))


if __name__ == "__main__":
    assert Path.cwd() == ROOT, f"run it in {ROOT}"
    sys.exit(main(sys.argv[1:]))
