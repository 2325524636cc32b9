"""The portable part of the test suite: `suite.py [TESTS…]` under Wine, `suite.py --here` here.

Each folder of tests is a run of pytest of its own. A test that hangs or ends the process is counted
as failed, and the run goes on after it. Prints each folder's figures, and ends with 1 if fewer than
95 % of all tests pass.
"""

from __future__ import annotations

import importlib.util
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from resume import BROKEN_OFF, END, RECORD, read_record
from wine import ROOT, SITE, build_command, build_environment, windows_path

FOLDERS = (
    *("core", "settings", "project", "lexical", "vectors", "search", "runs", "service"),
    *("metrics", "ranking", "data_sets", "windows"),
    *("corpus/chunking", "corpus/text", "corpus/scan", "corpus/ingest"),
    *("corpus/sandbox", "corpus/formats", "models", "endpoint", "training"),
    *("answers", "assistants", "reranking", "queries", "doctor", "cluster"),
    *("export", "encoders", "evaluation", "lab", "cli", "end_to_end", "app"),
)
WITH_LLAMA = ("gguf", "llm")
"""Folders whose tests need llama.cpp: `make windows-llm-wheel`."""
SECONDS = 3600.0
TEST_SECONDS = 900
MAX_ATTEMPTS = 10
POLL_SECONDS = 1.0
READ_BYTES = 65536
LEAST_SHARE = 0.95
OPTIONS = (
    *("-vv", "--tb", "short", "-rfE", "--timeout", str(TEST_SECONDS)),
    *("-p", "no:cacheprovider", "-p", "windows.resume", "--continue-on-collection-errors"),
)
CHOSEN = ("-m", "not slow")
HERE = "--here" in sys.argv


def run_tests(
    tests: str,
    log: Path,
    record: Path,
) -> None:
    """Run pytest, with its output in a log."""
    command = [
        "-m",
        "pytest",
        *OPTIONS,
        *CHOSEN,
        tests,
    ]
    if HERE:
        program = [sys.executable, *command]
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "tests"),
            RECORD: str(record),
        }
    else:
        program = build_command(command)
        environment = build_environment(SECONDS)
        # Tests read and write UTF-8 without saying so; the product says it everywhere.
        environment |= {"PYTHONUTF8": "1", "BMEMBED_TEST_WAIT": "600"}
        environment[RECORD] = windows_path(record)
    with (
        log.open("ab") as file,
        subprocess.Popen(
            program,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            # Under Wine a file as standard output ends the program.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        assert process.stdout is not None
        output = process.stdout.fileno()
        while True:
            if select.select([output], [], [], POLL_SECONDS)[0]:
                data = os.read(output, READ_BYTES)
                if not data:
                    break
                file.write(data.replace(b"\r", b""))
                file.flush()
            elif process.poll() is not None:
                # A process that a test has left behind holds the output open.
                break


def run_folder(tests: str, log: Path) -> dict[str, str]:
    """Run a folder or file of tests; return the outcome of each test."""
    log.unlink(missing_ok=True)
    record = log.with_suffix(".jsonl")
    record.write_text("")
    outcomes: dict[str, str] = {}
    for _ in range(MAX_ATTEMPTS):
        begun = len(outcomes)
        run_tests(tests, log, record)
        outcomes = read_record(record)
        if END in outcomes or len(outcomes) == begun:
            break
    if outcomes.pop(END, None) is None:
        outcomes[tests] = BROKEN_OFF
    return outcomes


def list_folders() -> list[str]:
    """Return the portable folders; those that need llama.cpp only where it is installed."""
    if HERE:
        has_llama = importlib.util.find_spec("llama_cpp") is not None
    else:
        has_llama = (SITE / "llama_cpp").is_dir()
    return [f"tests/{name}" for name in (*FOLDERS, *(WITH_LLAMA if has_llama else ()))]


def main(chosen: Sequence[str]) -> int:
    """Run the chosen tests, or all portable folders."""
    logs = ROOT / "build" / "windows-logs"
    logs.mkdir(parents=True, exist_ok=True)
    total: Counter[str] = Counter()
    for tests in chosen or list_folders():
        started = time.monotonic()
        outcomes = run_folder(tests, logs / f"{tests.replace('/', '-')}.log")
        counts = Counter(outcomes.values())
        total += counts
        failed = counts["failed"] + counts[BROKEN_OFF]
        seconds = time.monotonic() - started
        print(
            f"{tests}: {counts['passed']} passed, {failed} failed,"
            f" {counts['skipped']} skipped, {seconds:.0f} s"
        )
        for name, outcome in sorted(outcomes.items()):
            if outcome in ("failed", BROKEN_OFF):
                print(f"  {outcome} {name}")
        sys.stdout.flush()
    failed = total["failed"] + total[BROKEN_OFF]
    print(f"{total['passed']} passed, {failed} failed, {total['skipped']} skipped")
    return int(total["passed"] < LEAST_SHARE * (total["passed"] + failed))


if __name__ == "__main__":
    sys.exit(main([argument for argument in sys.argv[1:] if argument != "--here"]))
