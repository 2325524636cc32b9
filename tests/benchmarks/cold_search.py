"""How long a hybrid `engine search` takes from a cold process, compared with a cold
sentence-transformers that encodes the same query.

Wall and processor time of each in the same run, and their ratio. The project is the sample's
documents with the bundled model.
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

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 5
QUERY = "who may release a batch without the final test"
ENCODE = f"""
from sentence_transformers import SentenceTransformer
from engine.encoders.model_folder import bundled_folder
SentenceTransformer(str(bundled_folder()), device="cpu").encode([{QUERY!r}])
"""
ENVIRONMENT = dict(os.environ, PYTHONPATH=str(ROOT), HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1")


def run(*arguments: str) -> tuple[float, float]:
    """Seconds of a Python process: wall, and of processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=ENVIRONMENT, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        time.perf_counter() - started,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def main() -> None:
    """Print the least of several rounds: what other programs add is not asked for."""
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder) / "project"
        run("-m", "engine", "new", str(project), str(ROOT / "assets/sample/documents"))
        run("-m", "engine", "run", str(project))
        search = ("-m", "engine", "search", str(project), QUERY)
        measured = {
            "sentence-transformers": ("-c", ENCODE),
            "BM25": (*search, "--mode", "bm25"),
            "hybrid": search,
        }
        times = {name: [] for name in (*measured, "hybrid, no graph")}
        for _ in range(ROUNDS):
            for name, arguments in measured.items():
                times[name].append(run(*arguments))
        for graph in project.glob("vectors/*/query-encoder"):
            shutil.rmtree(graph)
        times["hybrid, no graph"] = [run(*search) for _ in range(2)]
    least = {
        name: (min(wall for wall, _ in pairs), min(cpu for _, cpu in pairs))
        for name, pairs in times.items()
    }
    for name, (wall, cpu) in least.items():
        print(f"{name:<22} {wall:6.2f} s, {cpu:5.2f} s of processors")
    wall, cpu = (
        one / other
        for one, other in zip(least["hybrid"], least["sentence-transformers"], strict=True)
    )
    print(
        f"engine search : sentence-transformers = {wall:.2f} by the clock, {cpu:.2f} by processor"
        " time"
    )


if __name__ == "__main__":
    main()
