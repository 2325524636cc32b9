"""What a search costs in a big project, without a model.

`python tests/benchmarks/search_latency.py [CHUNKS]` builds a project of 200,000 chunks, unless
another number is given, in a temporary folder. It prints the median and the 95th percentile of a
BM25 search, and of exact ranks by two encoders (`explain`). Queries are of one to four words of the
texts.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.core.messages.search import Search
from engine.project.store.artifact_info import VectorsInfo

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "tests")]

from fixtures.big_project import build_big_project, unit_vectors, vocabulary  # noqa: E402

from engine.encoders.embedding_cache import VectorCache, hash_keys  # noqa: E402
from engine.project.folder import ProjectFolder  # noqa: E402
from engine.search.explaining import Explainer  # noqa: E402
from engine.search.loaded import LoadedProject  # noqa: E402
from engine.search.searcher import Searcher  # noqa: E402

QUERIES = 200
SHARD = 1024  # vectors put into the cache at once


class RandomEncoder:
    """Stands for both encoders: a query is a random direction."""

    def __init__(self) -> None:
        self._calls = 0

    def encode_queries(self, texts: list[str]) -> Any:
        self._calls += 1
        return unit_vectors(len(texts), self._calls)


def draw_queries(count: int, seed: int = 1) -> list[str]:
    """Return queries of one to four words, frequent ones more often."""
    words = vocabulary()
    rng = random.Random(seed)
    return [
        " ".join(words[int(len(words) ** rng.random()) - 1] for _ in range(rng.randint(1, 4)))
        for _ in range(count)
    ]


def serve_adapted(project: ProjectFolder) -> None:
    """Let the index pass for an adapted encoder's.

    Random vectors of the base encoder are put into the cache.
    """
    store = project.store()
    artifact = store.artifact(VectorsInfo)
    assert artifact is not None
    hashes = hash_keys([value for *_, value in store.chunk_keys()])
    cache = VectorCache(project.path / "cache" / "base", artifact.info.dimension)
    for start in range(0, len(hashes), SHARD):
        shard_hashes = hashes[start : start + SHARD]
        cache.append(shard_hashes, unit_vectors(len(shard_hashes), start + 1))
    store.put_artifact(replace(artifact, info=replace(artifact.info, adapter="adapters/none")))
    store.close()
    encoder = RandomEncoder()
    LoadedProject.query_encoder = lambda self, _artifact: encoder  # type: ignore[assignment,method-assign,return-value]
    LoadedProject.base_encoder = lambda self, _artifact: encoder  # type: ignore[assignment,method-assign,return-value]
    Explainer.base_fingerprint = lambda self, _artifact: "base"  # type: ignore[method-assign]


def print_times(name: str, seconds: Sequence[float]) -> None:
    """Print the first time, and the median and the 95th percentile of the rest."""
    milliseconds = 1000 * np.array(seconds)
    p50 = np.quantile(milliseconds[1:], 0.5)
    p95 = np.quantile(milliseconds[1:], 0.95)
    print(
        f"{name:<14} first {milliseconds[0]:8.1f} ms   p50 {p50:6.1f} ms   p95 {p95:6.1f} ms",
        flush=True,
    )


def measure_each(work: Callable[[str], object], texts: Sequence[str]) -> list[float]:
    """Return the seconds that the work on each text takes."""
    seconds = []
    for text in texts:
        start = time.perf_counter()
        work(text)
        seconds.append(time.perf_counter() - start)
    return seconds


def main() -> None:
    """Build the project, and print what searches take."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        project = build_big_project(Path(folder) / "big", count)
        print(f"{count:,} chunks were built in {time.perf_counter() - start:.0f} s", flush=True)
        searcher = Searcher(project)
        queries = draw_queries(QUERIES)
        seconds = measure_each(lambda query: searcher.search(Search(query, "bm25")), queries)
        print_times("bm25", seconds)
        serve_adapted(project)
        ids = [hit.chunk_id for hit in searcher.search(Search(queries[0], "bm25")).hits] or [1]
        print_times("explain", measure_each(lambda query: searcher.explain(query, ids), queries))
        searcher.close()


if __name__ == "__main__":
    main()
