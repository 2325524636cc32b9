"""What a search costs in a big project: BM25 search, and exact ranks by two encoders
(`explain`), without a model.

`python tests/benchmarks/search_latency.py [CHUNKS]` builds a project of 200,000 chunks in a
temporary folder, unless told otherwise, and prints the median and the 95th percentile of each.
Queries are of one to four words of the texts.
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
SHARD = 1024


class RandomEncoder:
    """Stands for both encoders: a query is a random direction."""

    def __init__(self) -> None:
        self._made = 0

    def encode_queries(self, texts: list[str]) -> Any:
        self._made += 1
        return unit_vectors(len(texts), self._made)


def queries(count: int, seed: int = 1) -> list[str]:
    """One to four words each, frequent ones more often."""
    words = vocabulary()
    rng = random.Random(seed)
    return [
        " ".join(words[int(len(words) ** rng.random()) - 1] for _ in range(rng.randint(1, 4)))
        for _ in range(count)
    ]


def serve_adapted(project: ProjectFolder) -> None:
    """Let the index pass for an adapted encoder's, and put random vectors of the base encoder
    into the cache.
    """
    store = project.store()
    artifact = store.artifact(VectorsInfo)
    assert artifact is not None
    hashes = hash_keys([value for *_, value in store.chunk_keys()])
    shelf = VectorCache(project.path / "cache" / "base", artifact.info.dimension)
    for start in range(0, len(hashes), SHARD):
        block = hashes[start : start + SHARD]
        shelf.append(block, unit_vectors(len(block), start + 1))
    store.put_artifact(replace(artifact, info=replace(artifact.info, adapter="adapters/none")))
    store.close()
    encoder = RandomEncoder()
    LoadedProject.query_encoder = LoadedProject.base_encoder = lambda self, _artifact: encoder  # type: ignore[assignment,method-assign,return-value]
    Explainer.base_fingerprint = lambda self, _artifact: "base"  # type: ignore[method-assign]


def tell(what: str, seconds: Sequence[float]) -> None:
    """First call, median and 95th percentile of the rest, in milliseconds."""
    first = seconds[0]
    rest = seconds[1:]
    p50, p95 = (1000 * float(np.quantile(rest, share)) for share in (0.5, 0.95))
    print(
        f"{what:<14} first {1000 * first:8.1f} ms   p50 {p50:6.1f} ms   p95 {p95:6.1f} ms",
        flush=True,
    )


def timed(work: Callable[[str], object], texts: Sequence[str]) -> list[float]:
    """Seconds of each."""
    found = []
    for text in texts:
        start = time.perf_counter()
        work(text)
        found.append(time.perf_counter() - start)
    return found


def main() -> None:
    if len(sys.argv) > 1:
        count = int(sys.argv[1])
    else:
        count = 200_000
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        project = build_big_project(Path(folder) / "big", count)
        print(f"{count:,} chunks were built in {time.perf_counter() - start:.0f} s", flush=True)
        searcher = Searcher(project)
        texts = queries(QUERIES)
        tell("bm25", timed(lambda text: searcher.search(Search(text, "bm25")), texts))
        serve_adapted(project)
        ids = [hit.chunk_id for hit in searcher.search(Search(texts[0], "bm25")).hits] or [1]
        tell("explain", timed(lambda text: searcher.explain(text, ids), texts))
        searcher.close()


if __name__ == "__main__":
    main()
