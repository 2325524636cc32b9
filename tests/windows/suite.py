"""The portable part of the test suite: `suite.py [TESTS…]` under Wine, `suite.py --here` here.

Each folder of tests is a run of pytest of its own. A test that hangs or ends the process is counted
as failed, and the files after it are run again without its file. Prints each folder's figures, and
ends with 1 if fewer than 95 % of all tests pass.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from wine import ROOT, SITE, build_command, build_environment

FOLDERS = (
    *("core", "settings", "project", "lexical", "vectors", "search", "runs", "service"),
    *("metrics", "ranking", "data_sets", "windows"),
    *("corpus/chunking", "corpus/text", "corpus/scan", "corpus/ingest"),
    *("corpus/sandbox", "corpus/formats", "models", "endpoint", "training"),
)
WITH_LLAMA = ("gguf", "llm")
"""Folders whose tests need llama.cpp: `make windows-llm-wheel`."""
SECONDS = 3600.0
TEST_SECONDS = 900
MAX_ATTEMPTS = 5
LEAST_SHARE = 0.95
RESULT = re.compile(r"^(tests\S+\.py)::(.+?) (PASSED|FAILED|ERROR|SKIPPED|RERUN)")
SUMMARY = re.compile(rb"=+ .* in [\d.]+s .*=+\s*|no tests ran in .*\s*")
STARTED = re.compile(r"^(tests\S+\.py)::(.+?)(?: |$)")
OPTIONS = ("-vv", "-p", "no:cacheprovider", "--timeout", str(TEST_SECONDS), "--tb", "short", "-rfE")
CHOSEN = ("-m", "not slow")
HERE = "--here" in sys.argv


def run_tests(arguments: Sequence[str], log: Path) -> bool:
    """Run pytest, with its output in a log; return whether it reached its end.

    The exit status does not say so: a test that hangs ends the process with 1.
    """
    has_ended = False
    command = ["-m", "pytest", *OPTIONS, *CHOSEN, *arguments]
    with (
        log.open("ab") as file,
        subprocess.Popen(
            [sys.executable, *command] if HERE else build_command(command),
            cwd=ROOT,
            env=None if HERE else {**build_environment(SECONDS), "BMEMBED_TEST_WAIT": "600"},
            stdin=subprocess.DEVNULL,
            # Under Wine a file as standard output ends the program.
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as tests,
    ):
        assert tests.stdout is not None
        for line in tests.stdout:
            has_ended = SUMMARY.match(line) is not None
            file.write(line.replace(b"\r\n", b"\n"))
            file.flush()
    return has_ended


def read_results(log: Path) -> tuple[dict[tuple[str, str], str], str]:
    """Return the result of each test, by file and name, and the file of the last test begun."""
    results = {}
    last = ""
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        text = line.replace("\\", "/")
        if match := STARTED.match(text):
            last = match[1]
        if match := RESULT.match(text):
            results[match[1], match[2]] = match[3]
    return results, last


def run_folder(tests: str, log: Path) -> Mapping[tuple[str, str], str]:
    """Run a folder or file of tests; return the result of each test."""
    log.unlink(missing_ok=True)
    files = [tests]
    results: dict[tuple[str, str], str] = {}
    broken_off: dict[tuple[str, str], str] = {}
    for attempt in range(MAX_ATTEMPTS):
        has_ended = run_tests(files, log)
        results, last = read_results(log)
        results |= broken_off
        if has_ended:
            break
        broken_off[last or tests, f"attempt {attempt + 1} broke off"] = "ERROR"
        results |= broken_off
        done = {file for file, _ in results}
        folder = ROOT / tests
        every_file = sorted(folder.rglob("test_*.py")) if folder.is_dir() else []
        files = [path.relative_to(ROOT).as_posix() for path in every_file]
        files = [file for file in files if file not in done]
        if not files:
            break
    return results


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
        results = run_folder(tests, logs / f"{tests.replace('/', '-')}.log")
        counts = Counter(results.values())
        total += counts
        failed = counts["FAILED"] + counts["ERROR"]
        seconds = time.monotonic() - started
        print(f"{tests}: {counts['PASSED']} passed, {failed} failed, {seconds:.0f} s")
        for (file, name), result in sorted(results.items()):
            if result in ("FAILED", "ERROR"):
                print(f"  {result} {file}::{name}")
        sys.stdout.flush()
    failed = total["FAILED"] + total["ERROR"]
    print(f"{total['PASSED']} passed, {failed} failed, {total['SKIPPED']} skipped")
    return int(total["PASSED"] < LEAST_SHARE * (total["PASSED"] + failed))


if __name__ == "__main__":
    sys.exit(main([argument for argument in sys.argv[1:] if argument != "--here"]))
