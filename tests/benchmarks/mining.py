"""Mining speed: BM25's best 1,000 chunks of 6,000 queries, by `LexicalIndex.search_many` and by
bm25s, in one process.

`python tests/benchmarks/mining.py` prints both times and their ratio (bar: 2). bm25s gets its
better number of threads.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bm25s

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from engine.lexical.index import LexicalIndex  # noqa: E402

DATA = REPOSITORY.parent / "shared" / "data" / "multihop-partial"
K = 1_000
ROUNDS = 3


def best_of(rounds: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest of several runs."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    texts = [json.loads(line)["text"] for line in (DATA / "corpus.jsonl").open(encoding="utf-8")]
    queries = [
        row["query"]
        for row in json.loads((DATA / "generated_queries.json").read_text(encoding="utf-8"))
    ]
    queries = (queries * 2)[:6000]

    def other(threads: int) -> None:
        model = bm25s.BM25(method="lucene")
        model.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
        model.retrieve(
            bm25s.tokenize(queries, show_progress=False),
            k=K,
            n_threads=threads,
            show_progress=False,
        )

    with tempfile.TemporaryDirectory() as folder:

        def ours() -> None:
            index = LexicalIndex.build(Path(folder) / "index", enumerate(texts), "en")
            for _ in index.search_many(queries, K):
                pass

        def tantivy_alone() -> None:
            index = LexicalIndex.build(Path(folder) / "index", enumerate(texts), "en")
            for query in queries:
                index.search(query, K)

        theirs = min(
            best_of(ROUNDS, lambda: other(0)), best_of(ROUNDS, lambda: other(os.cpu_count() or 1))
        )
        mine = best_of(ROUNDS, ours)
        alone = best_of(1, tantivy_alone)
    print(f"{len(texts)} chunks, {len(queries)} queries, top {K}, indexing included")
    print(f"bm25s {theirs:.2f} s   search_many {mine:.2f} s   ratio {mine / theirs:.2f} (bar: 2)")
    print(f"tantivy query by query {alone:.2f} s   ratio {alone / theirs:.2f}")


if __name__ == "__main__":
    main()
