"""A run under Wine that is killed at random moments loses nothing: `kill.py [TIMES] [SEED]`.

The process of the run is killed as TerminateProcess does it, so that its stage has to notice. Then
the next run must succeed, and its search must find the document that was added before the kill.
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


def kill_run(project: str, seconds: float) -> bool:
    """Start a run, kill it after some seconds; return whether it was still running."""
    with subprocess.Popen(
        build_command(["-m", "engine", "run", project]),
        env=build_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as run:
        time.sleep(seconds)
        was_running = run.poll() is None
        run.kill()
    return was_running


def find_first(project: str, query: str) -> str:
    """Return the path of the first hit by keyword."""
    output = run_engine("search", project, query, "--mode", "keywords", "--json")
    return str(json.loads(output)["hits"][0]["path"])


def main(times: int, seed: int) -> int:
    """Kill as many runs; return 0 if nothing was lost."""
    rng = random.Random(seed)
    good = 0
    with tempfile.TemporaryDirectory(dir=os.environ.get("BMEMBED_SMOKE")) as folder:
        documents = Path(folder) / "documents"
        documents.mkdir()
        (documents / "first.txt").write_text("The harbour master keeps the log.")
        project = windows_path(Path(folder) / "project")
        run_engine("new", project, windows_path(documents))
        started = time.monotonic()
        run_engine("run", project)
        whole = time.monotonic() - started
        for number in range(times):
            word = f"{WORDS[number % len(WORDS)]}{number}"
            (documents / f"{word}.txt").write_text(f"The {word} lies on the quay.")
            seconds = rng.uniform(0.1, 1.0) * whole
            was_running = kill_run(project, seconds)
            try:
                run_engine("run", project)
                is_good = find_first(project, word).endswith(f"{word}.txt")
            except (RuntimeError, LookupError, ValueError) as error:
                print(error)
                is_good = False
            good += is_good
            state = "good" if is_good else "LOST"
            print(f"{number}: after {seconds:.1f} s, running: {was_running}, {state}", flush=True)
    print(f"{good} of {times}")
    return int(good < times)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:3]]
    sys.exit(main(*(numbers + [50, 0][len(numbers) :])))
