"""A run under Wine that is killed at random moments loses nothing: `kill.py [TIMES] [SEED]`.

The process of the run is killed as TerminateProcess does it, so that its stage has to notice. Then
the next run must succeed, and its search must find the documents that were added before the kills.
That run belongs to `recover.py`, which keeps its libraries loaded; the last one has processes of
its own. Every fifth run embeds, too, by a tiny encoder: it loads torch, which takes longest.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from smoke import run_engine
from wine import build_command, build_environment, windows_path

WORDS = ("anchor", "bollard", "capstan", "davit", "ensign", "fender", "gangway", "hawser")
KEYWORDS = "ingest,index"
ALL = "ingest,index,embed"
RUN_SECONDS = 900.0
ALL_SECONDS = 14_400.0


class Recovery:
    """The process that runs a project after each kill, and searches it."""

    def __init__(self, project: str, documents: str) -> None:
        script = windows_path(Path(__file__).with_name("recover.py"))
        self._process = subprocess.Popen(
            build_command([script, project, documents]),
            env=build_environment(ALL_SECONDS),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )

    def run(self, stages: str, words: list[str]) -> str:
        """Run the stages and search the words; return "good", or what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([stages.split(","), words]) + "\n")
        self._process.stdin.flush()
        printed = []
        for line in self._process.stdout:
            if line.startswith("answer "):
                return str(json.loads(line.removeprefix("answer ")))
            printed.append(line)
        return "the process ended\n" + "".join(printed)

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def start_run(project: str, stages: str) -> subprocess.Popen[bytes]:
    """Start a run of some stages."""
    return subprocess.Popen(
        build_command(["-m", "engine", "run", project, "--only", stages]),
        env=build_environment(RUN_SECONDS),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def kill_run(project: str, stages: str, seconds: float) -> bool:
    """Start a run, kill it after some seconds; return whether it was still running."""
    with start_run(project, stages) as run:
        time.sleep(seconds)
        was_running = run.poll() is None
        run.kill()
    return was_running


def measure_run(project: str, stages: str) -> float:
    """Return how many seconds a run takes."""
    started = time.monotonic()
    run_engine("run", project, "--only", stages)
    return time.monotonic() - started


def add_document(documents: Path, number: int) -> str:
    """Write a document; return the word by which it is found."""
    word = f"{WORDS[number % len(WORDS)]}{number}"
    (documents / f"{word}.txt").write_text(f"The {word} lies on the quay.")
    return word


def main(times: int, seed: int) -> int:
    """Kill as many runs; return 0 if nothing was lost."""
    rng = random.Random(seed)
    good = 0
    killed = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as folder:
        documents = Path(folder) / "documents"
        documents.mkdir()
        words = [add_document(documents, 0)]
        project = windows_path(Path(folder) / "project")
        recovery = Recovery(project, windows_path(documents))
        print("first run:", recovery.run(ALL, words), flush=True)
        whole: dict[str, float] = {}
        for number in range(1, times + 1):
            stages = KEYWORDS if number % 5 else ALL
            words.append(add_document(documents, number))
            if stages not in whole:
                whole[stages] = measure_run(project, stages)
                words.append(add_document(documents, 1000 + number))
            seconds = rng.uniform(0.1, 1.0) * whole[stages]
            was_running = kill_run(project, stages, seconds)
            killed += was_running
            started = time.monotonic()
            outcome = recovery.run(stages, words)
            good += outcome == "good"
            took = time.monotonic() - started
            print(
                f"{number}: {stages} after {seconds:.1f} of {whole[stages]:.1f} s,"
                f" ran: {was_running}, {outcome}, in {took:.1f} s",
                flush=True,
            )
        recovery.end()
        words.append(add_document(documents, times + 1))
        print(f"last run: {measure_run(project, ALL):.1f} s")
        found = json.loads(run_engine("search", project, words[-1], "--mode", "bm25", "--json"))
        is_found = found["hits"][0]["path"] == f"{words[-1]}.txt"
    print(f"{good} of {times} good, {killed} of them were running when they were killed")
    print(f"the document of the last run is found: {is_found}")
    return int(good < times or not is_found)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(*(numbers + [50, 0][len(numbers) :])))
