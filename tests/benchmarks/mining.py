"""Mining speed: BM25's best 1,000 chunks of 6,000 queries, in one process.

`python tests/benchmarks/mining.py` prints the times of `LexicalIndex.search_many` and of bm25s
and their ratio (bar: 2). bm25s gets its better number of threads.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import bm25s

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from engine.lexical.index import LexicalIndex  # noqa: E402

DATA = REPOSITORY.parent / "shared" / "data" / "multihop-partial"
K = 1_000  # chunks of a query
ROUNDS = 3


def measure_fastest(rounds: int, work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of several runs."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    """Print what each takes."""
    texts = [json.loads(line)["text"] for line in (DATA / "corpus.jsonl").open(encoding="utf-8")]
    queries = [
        row["query"]
        for row in json.loads((DATA / "generated_queries.json").read_text(encoding="utf-8"))
    ]
    queries = (queries * 2)[:6000]

    def mine_with_bm25s(threads: int) -> None:
        model = bm25s.BM25(method="lucene")
        model.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
        model.retrieve(
            bm25s.tokenize(queries, show_progress=False),
            k=K,
            n_threads=threads,
            show_progress=False,
        )

    with tempfile.TemporaryDirectory() as folder:

        def mine_at_once() -> None:
            index = LexicalIndex.build(
                Path(folder) / "index",
                enumerate(texts),
                "en",
            )
            for _ in index.search_many(queries, K):
                pass

        def mine_query_by_query() -> None:
            index = LexicalIndex.build(
                Path(folder) / "index",
                enumerate(texts),
                "en",
            )
            for query in queries:
                index.search(query, K)

        thread_counts = (0, os.cpu_count() or 1)
        peer_seconds = min(
            measure_fastest(ROUNDS, partial(mine_with_bm25s, threads)) for threads in thread_counts
        )
        seconds = measure_fastest(ROUNDS, mine_at_once)
        single_seconds = measure_fastest(1, mine_query_by_query)
    print(f"{len(texts)} chunks, {len(queries)} queries, top {K}, indexing included")
    print(
        f"bm25s {peer_seconds:.2f} s   search_many {seconds:.2f} s"
        f"   ratio {seconds / peer_seconds:.2f} (bar: 2)"
    )
    print(
        f"tantivy query by query {single_seconds:.2f} s   ratio {single_seconds / peer_seconds:.2f}"
    )


if __name__ == "__main__":
    main()
