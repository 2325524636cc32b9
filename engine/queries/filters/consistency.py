"""The consistency filter: a query is kept if an untrained retriever finds its chunk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from engine.core.records import Chunk, Query
from engine.project.stage import StageContext
from engine.project.store.chunks import IN_MEMORY, find_chunk_rows, sample_indices
from engine.queries.rejection import Filtered, Reason, Rejected

if TYPE_CHECKING:
    from engine.core.arrays import Ids
    from engine.lexical.index import LexicalIndex

BLOCK = 512
"""Number of queries that are compared with all chunks at once."""
EVERYDAY_TOP = 100
"""Depth within which the chunk of an everyday query must be found.

An everyday query teaches little if a retriever already ranks its chunk among the first 20. A chunk
among the first hundred shows that the query fits it, and hybrid search fuses rankings to that depth
(`evaluation.depth`).
"""


def format_share(share: float) -> str:
    """Return a share in percent; 0 % and 100 % only if they are exact."""
    percent = f"{100 * share:.0f}"
    if percent == "100" and share < 1:
        return "over 99 %"
    if percent == "0" and share > 0:
        return "under 1 %"
    return f"{percent} %"


def depth_of(query: Query, top: int) -> int:
    """Return the depth within which a query's chunk must be found; `top` unless it is everyday."""
    if query.kind == "everyday":
        return max(top, EVERYDAY_TOP)
    return top


def max_depth(queries: Sequence[Query], top: int) -> int:
    """Return the depth to which chunks must be ranked for these queries."""
    return max((depth_of(query, top) for query in queries), default=top)


def consistency_filter(
    queries: Sequence[Query],
    rankers: Sequence[Callable[[Sequence[Query]], Ids]],
    top: int = 20,
) -> Filtered:
    """Keep a query if any retriever ranks its chunk within the first `top` (METHODS.md §5).

    For everyday queries, within the first `EVERYDAY_TOP`. Each function in `rankers` returns the
    1-based ranks (n,) of the queries' chunks, 0 if not found. Later retrievers are asked only about
    queries that the earlier ones have not found.
    """
    not_found = list(range(len(queries)))  # rows of `queries`
    for ranker in rankers:
        if not not_found:
            break
        ranks = ranker([queries[row] for row in not_found]).tolist()
        remaining = []
        for row, rank in zip(not_found, ranks, strict=True):
            if not 0 < rank <= depth_of(queries[row], top):
                remaining.append(row)
        not_found = remaining
    rejected_rows = set(not_found)
    kept = [query for row, query in enumerate(queries) if row not in rejected_rows]
    rejected = []
    for row in not_found:
        detail = f"beyond the top {depth_of(queries[row], top)}"
        rejected.append(Rejected(queries[row], Reason.CHUNK_NOT_FOUND, detail))
    return Filtered(kept, rejected)


def bm25_ranks(
    index: LexicalIndex,
    queries: Sequence[Query],
    top: int,
    check: Callable[[], None] = lambda: None,
) -> Ids:
    """Return the ranks (n,), from 1, of the queries' chunks among BM25's best `top`; 0 if beyond.

    `check` is called for each query, and may raise to end the work.
    """
    import numpy as np

    texts = [query.text for query in queries]
    ranks = np.zeros(len(queries), dtype=np.int64)
    for row, (ids, _) in enumerate(index.search_many(texts, top)):
        matches = np.flatnonzero(ids == queries[row].chunk_id)
        if len(matches):
            ranks[row] = matches[0] + 1
        check()
    return ranks


def base_ranks(
    context: StageContext,
    queries: Sequence[Query],
    chunks: Sequence[Chunk],
    top: int,
    sample_size: int = IN_MEMORY,
) -> Ids:
    """Return the same ranks as `bm25_ranks`, by cosine with the base encoder instead.

    In a large corpus, they are estimated from a sample of chunks (`sample_indices`): a chunk with m
    better ones in a sample of n of all N has about the rank 1 + m · N / n.
    """
    import numpy as np

    from engine.encoders.for_project import chunk_vectors, load_encoder

    encoder = load_encoder(context)
    sources = find_chunk_rows(chunks, [query.chunk_id for query in queries])
    seed = context.settings.training.seed
    sampled = sample_indices(
        len(chunks),
        seed,
        [sources],
        most=sample_size,
    )
    sampled_chunks = [chunks[position] for position in sampled]
    passages = chunk_vectors(context, encoder, sampled_chunks, "chunks encoded")  # (N, d)
    texts = [query.text for query in queries]
    vectors = encoder.encode_queries(texts, lambda _done: context.check_stop())  # (n, d)
    columns = np.searchsorted(sampled, sources)  # all sources are in the sample
    ranks = np.zeros(len(queries), dtype=np.int64)
    scale = len(chunks) / len(sampled)
    for start in range(0, len(queries), BLOCK):
        context.check_stop()
        block = slice(start, start + BLOCK)
        scores = vectors[block] @ passages.T  # (b, N)
        source_scores = np.take_along_axis(scores, columns[block, None], axis=1)  # (b, 1)
        better = (scores > source_scores).sum(axis=1)  # (b,)
        ranks[block] = 1 + np.rint(scale * better)
    return np.where(
        ranks <= top,
        ranks,
        0,
    )
