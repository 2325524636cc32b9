"""The product from its command line: `smoke.py` under Wine, `smoke.py --here` on this system.

Creates a project of a few documents, runs it, searches in all modes, adds a document, runs again,
searches a folder without a project and asks the server for the same. Prints the seconds of each
step, and ends with 1 at the first that fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from wine import REPORT_SECONDS, build_command, build_environment, windows_path

HERE = "--here" in sys.argv
SECONDS = 900.0  # of one step; the machine may be busy
TEXTS = {
    "möwen.txt": "The gulls of the harbour steal chips from visitors.",
    "tides.md": "# Tides\n\nThe ferry waits for high water before it leaves the quay.",
    "pier.html": "<title>Pier</title><p>The pelican sleeps on the pier every night.</p>",
}


def run_engine(*arguments: str, text: str = "") -> str:
    """Run `engine ARGUMENTS`, and return its output.

    Raises RuntimeError with the output if it fails or takes too long.
    """
    called = f"engine {' '.join(arguments)}"
    try:
        done = subprocess.run(
            _build_command(arguments),
            env=None if HERE else build_environment(SECONDS),
            # Wine reads nothing from an empty pipe for ever while some libraries load.
            **({"input": text} if text else {"stdin": subprocess.DEVNULL}),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS + REPORT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{called} hung:\n{error.stdout!r}\n{error.stderr!r}") from error
    if done.returncode:
        raise RuntimeError(f"{called} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


def _build_command(arguments: Sequence[str]) -> list[str]:
    command = ["-m", "engine", *arguments]
    return [sys.executable, "-P", *command] if HERE else build_command(command)


def name_path(path: Path) -> str:
    """Return a path as the product is given it."""
    return str(path) if HERE else windows_path(path)


def _search(
    project: str,
    query: str,
    mode: str,
) -> str:
    """Return the file of the first hit."""
    answer = json.loads(run_engine("search", project, query, "--mode", mode, "--json"))
    return str(answer["hits"][0]["path"])


def _expect(found: str, wanted: str) -> None:
    if not found.endswith(wanted):
        raise RuntimeError(f"{found!r} was found, not {wanted!r}")


def _ask_server(project: str) -> None:
    """Ask `engine serve --stdio` for a search."""
    request = {"query": "pelican", "mode": "bm25"}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "search", "params": request},
        {"jsonrpc": "2.0", "id": 2, "method": "shutdown"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    output = run_engine(
        "serve",
        project,
        "--stdio",
        text=text,
    )
    answers = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    first = next(answer for answer in answers if answer.get("id") == 1)
    _expect(first["result"]["hits"][0]["path"], "pier.html")


def main() -> int:
    """Run every step."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as folder:
        documents = Path(folder) / "Dökumente"
        documents.mkdir()
        for name, text in TEXTS.items():
            (documents / name).write_text(text, encoding="utf-8")
        project = name_path(Path(folder) / "project")

        def add_and_run() -> None:
            (documents / "new.txt").write_text("A lighthouse keeper counts ships.")
            run_engine("run", project)

        steps: dict[str, Callable[[], object]] = {
            "new": lambda: run_engine("new", project, name_path(documents)),
            "run": lambda: run_engine("run", project),
            "keywords": lambda: _expect(_search(project, "ferry", "keywords"), "tides.md"),
            "meaning": lambda: _expect(_search(project, "sleeping bird", "semantic"), "pier.html"),
            "hybrid": lambda: _expect(_search(project, "seagulls", "hybrid"), "möwen.txt"),
            "run again": add_and_run,
            "new file": lambda: _expect(_search(project, "lighthouse", "keywords"), "new.txt"),
            "find": lambda: run_engine("find", name_path(documents), "pelican"),
            "serve": lambda: _ask_server(project),
        }
        for name, step in steps.items():
            started = time.monotonic()
            try:
                step()
            except (RuntimeError, ValueError, LookupError) as error:
                print(f"{name}: FAILED after {time.monotonic() - started:.0f} s\n{error}")
                return 1
            print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
