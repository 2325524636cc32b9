"""A run under Wine that is killed at random moments loses nothing: `kill.py [TIMES] [SEED]`.

The process of the run is killed as TerminateProcess does it, so that its stage has to notice. Then
the next run must succeed, and its search must find the documents that were added before the kills.
Embedding loads torch, which takes longest: it belongs to every fifth run.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from smoke import run_engine
from wine import build_command, build_environment, run_python, windows_path

WORDS = ("anchor", "bollard", "capstan", "davit", "ensign", "fender", "gangway", "hawser")
RECOVER = """
import sys
from engine.api import Project
project, stages, *words = sys.argv[1:]
project = Project.open(project)
project.run(stages.split(","))
for word in words:
    assert project.search(word, mode="bm25").hits[0].path == f"{word}.txt", word
print("found", len(words))
"""
KEYWORDS = "ingest,index"
ALL = "ingest,index,embed"
SECONDS = 900.0


def start_run(project: str, stages: str) -> subprocess.Popen[bytes]:
    """Start a run of some stages."""
    return subprocess.Popen(
        build_command(["-m", "engine", "run", project, "--only", stages]),
        env=build_environment(SECONDS),
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
        run_engine("new", project, windows_path(documents))
        whole: dict[str, float] = {}
        for number in range(1, times + 1):
            stages = KEYWORDS if number % 5 else ALL
            if stages not in whole:
                whole[stages] = measure_run(project, stages)
            words.append(add_document(documents, number))
            seconds = rng.uniform(0.1, 1.0) * whole[stages]
            was_running = kill_run(project, stages, seconds)
            killed += was_running
            done = run_python(["-c", RECOVER, project, stages, *words], SECONDS)
            is_good = f"found {len(words)}" in done.stdout
            good += is_good
            state = "good" if is_good else f"LOST\n{done.stdout}"
            print(f"{number}: {stages} after {seconds:.1f} s, ran: {was_running}, {state}")
            sys.stdout.flush()
    print(f"{good} of {times} good, {killed} of them were running when they were killed")
    return int(good < times)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(*(numbers + [50, 0][len(numbers) :])))
