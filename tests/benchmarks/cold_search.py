"""How long a hybrid `engine search` takes in a new process, against sentence-transformers.

Prints wall and processor time of each in the same run, and their ratio. The other process only
encodes the same query. The project is the sample's documents with the bundled model.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
QUERY = "who may release a batch without the final test"
ENCODE = f"""
from sentence_transformers import SentenceTransformer
from engine.encoders.model_folder import bundled_folder
SentenceTransformer(str(bundled_folder()), device="cpu").encode([{QUERY!r}])
"""
ENVIRONMENT = dict(
    os.environ,
    PYTHONPATH=str(ROOT),
    HF_HUB_OFFLINE="1",
    TRANSFORMERS_OFFLINE="1",
)


class Seconds(NamedTuple):
    """Seconds by the clock, and of processors."""

    clock: float
    processors: float


def run(*arguments: str) -> Seconds:
    """Run Python with these arguments, and return the seconds that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, *arguments],
        env=ENVIRONMENT,
        capture_output=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    clock = time.perf_counter() - started
    processors = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Seconds(clock, processors)


def main() -> None:
    """Print the fewest seconds of several rounds, to leave out what other programs add."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        run(
            "-m",
            "engine",
            "new",
            str(project),
            str(ROOT / "assets/sample/documents"),
        )
        run(
            "-m",
            "engine",
            "run",
            str(project),
        )
        search = (
            "-m",
            "engine",
            "search",
            str(project),
            QUERY,
        )
        commands = {
            "sentence-transformers": ("-c", ENCODE),
            "BM25": (*search, "--mode", "bm25"),
            "hybrid": search,
        }
        times: dict[str, list[Seconds]] = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, arguments in commands.items():
                times[name].append(run(*arguments))
        for graph in project.glob("vectors/*/query-encoder"):
            shutil.rmtree(graph)
        times["hybrid, no graph"] = [run(*search) for _ in range(2)]
    least = {}
    for name, rounds in times.items():
        clock = min(seconds.clock for seconds in rounds)
        processors = min(seconds.processors for seconds in rounds)
        least[name] = Seconds(clock, processors)
        print(f"{name:<22} {clock:6.2f} s, {processors:5.2f} s of processors")
    ours = least["hybrid"]
    theirs = least["sentence-transformers"]
    print(
        f"engine search : sentence-transformers = {ours.clock / theirs.clock:.2f} by the clock,"
        f" {ours.processors / theirs.processors:.2f} by processor time"
    )


if __name__ == "__main__":
    main()
