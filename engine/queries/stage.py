"""Stage `generate`: chunks → training queries, split into trained and held-out ones by document."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engine.corpus.imports import imported_queries, imports_fingerprint
from engine.queries.heldout import assign_split
from engine.records import Chunk, Query
from engine.stage import StageContext, View
from engine.store import Artifact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VERSION = 1
ARTIFACT = "queries"
BLOCK = 512


def inputs(view: View) -> dict[str, Any]:
    """Settings, imports, and the corpus as it was when the adapter was last made, unless it has drifted away since."""
    view.need("lexical", "index")
    settings = view.settings
    return {
        "queries": settings.queries.model_dump(),
        "imports": imports_fingerprint(view.project, "queries"),
        "split": [settings.evaluation.heldout_share, settings.training.seed],
        "corpus": adaptation_corpus(view)[0],
        "model": settings.encoder.model_dump(include={"model", "max_tokens"}),
        "language": settings.lexical.language,
    }


def adaptation_corpus(view: View) -> tuple[str, float]:
    """(fingerprint of the corpus that the adaptation stages stand for, share of chunks changed since then).

    While the share is at most `corpus.drift`, the adapter is kept, so the former fingerprint stays valid.
    """
    current = view.store.corpus_fingerprint()
    former = view.store.artifact(ARTIFACT)
    if former is None or former.info.get("corpus") == current:
        return current, 0.0
    drift = view.store.drift()
    return (str(former.info["corpus"]), drift) if drift <= view.settings.corpus.drift else (current, drift)


def kept(view: View) -> str:
    """Why the queries, and the adapter made from them, are kept although the corpus has changed; empty when it has not."""
    drift = adaptation_corpus(view)[1]
    if not drift:
        return ""
    return f"kept: {100 * drift:.1f} % of the chunks changed since, up to {100 * view.settings.corpus.drift:g} % may (corpus.drift)"


def run(context: StageContext) -> dict[str, Any]:
    """Make, attach, filter and split the queries, then put them in the former ones' place."""
    chunks = context.store.chunks()
    candidates, made = _candidates(context, chunks)
    kept, rejected = _filter(context, candidates, chunks)
    queries = _split(context, kept)
    corpus = context.store.corpus_fingerprint()
    artifact = Artifact(
        ARTIFACT, context.fingerprint, "", time.time(), {"corpus": corpus, "made": made, "rejected": rejected}
    )
    context.store.replace_queries(queries, artifact)
    heldout = sum(query.split == "heldout" for query in queries)
    if not queries:
        context.warn("No training query could be made: the documents hold too little text.")
    return {
        "made": made,
        "kept": len(queries),
        "rejected": rejected,
        "heldout": heldout,
        "kinds": dict(Counter(q.kind for q in queries)),
    }


def _candidates(context: StageContext, chunks: Sequence[Chunk]) -> tuple[list[Query], int]:
    settings = context.settings.queries
    queries: list[Query] = []
    if settings.backend in ("imported", "both"):
        queries += _imported(context, chunks)
    if settings.backend in ("extractive", "both"):
        queries += _extractive(context, chunks)
        context.progress(len(chunks), len(chunks), "chunks")
    return queries, len(queries)


def _imported(context: StageContext, chunks: Sequence[Chunk]) -> list[Query]:
    from engine.queries.imported import attach_imported

    items = imported_queries(context.project)
    queries, rejected = attach_imported(items, chunks, context.store.documents())
    if rejected:
        reasons = Counter(item.reason for item in rejected)
        told = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common())
        context.warn(f"{len(rejected)} of {len(items)} imported queries were left out ({told}).")
    return queries


def _extractive(context: StageContext, chunks: Sequence[Chunk]) -> list[Query]:
    from engine.queries.extractive import generate

    settings = context.settings.queries
    language = str(context.need("lexical", "index").info["language"])
    context.choose(
        "backend", "extractive", "queries are built from the documents' own sentences; no language model is used"
    )
    titles = {document.id: document.title for document in context.store.documents()}
    return generate(
        chunks, titles, language=language, kinds=settings.kinds, per_chunk=settings.per_chunk,
        max_queries=settings.max_queries, seed=context.settings.training.seed,
    )  # fmt: skip


def _filter(
    context: StageContext, candidates: list[Query], chunks: Sequence[Chunk]
) -> tuple[list[Query], dict[str, int]]:
    """Without repeats, and without queries whose own chunk neither BM25 nor the base encoder finds."""
    from engine.queries.consistency import consistency_filter
    from engine.queries.dedupe import deduplicate

    distinct = deduplicate(candidates)
    unique = distinct.kept
    rejected: Counter[str] = Counter({"duplicate": len(distinct.dropped)} if distinct.dropped else {})
    top = context.settings.queries.consistency_top
    if not top or not unique:
        return unique, dict(rejected)
    rankers = [
        lambda queries: _bm25_ranks(context, queries, top),
        lambda queries: _base_ranks(context, queries, chunks, top),
    ]
    filtered = consistency_filter(unique, rankers, top=top)
    if filtered.rejected:
        rejected[f"source chunk beyond the top {top}"] = len(filtered.rejected)
    context.choose(
        "consistency filter", f"{100 * filtered.share:.0f} % kept",
        f"a query is kept when its chunk is within the top {top} of BM25 or of the base encoder",
    )  # fmt: skip
    return filtered.kept, dict(rejected)


def _bm25_ranks(context: StageContext, queries: Sequence[Query], top: int) -> NDArray[np.int64]:
    """Rank from 1 of each query's own chunk in BM25's best `top`, 0 where it is not among them. (n,)"""
    import numpy as np

    from engine.lexical import LexicalIndex

    index = LexicalIndex.open(context.project.folder_of(context.need("lexical", "index")))
    ranks = np.zeros(len(queries), dtype=np.int64)
    for row, (ids, _) in enumerate(index.search_many([query.text for query in queries], top)):
        place = np.flatnonzero(ids == queries[row].chunk_id)
        ranks[row] = place[0] + 1 if len(place) else 0
        if row % BLOCK == 0:
            context.check_stop()
    return ranks


def _base_ranks(
    context: StageContext, queries: Sequence[Query], chunks: Sequence[Chunk], top: int
) -> NDArray[np.int64]:
    """As `_bm25_ranks`, by cosine of the base encoder."""
    import numpy as np

    from engine.embedding import chunk_vectors, load_encoder, told_hardware

    encoder = load_encoder(context, told_hardware(context, "encode"))
    passages = chunk_vectors(context, encoder, chunks)  # (N, d)
    vectors = encoder.encode_queries([query.text for query in queries])  # (n, d)
    position = {chunk.id: place for place, chunk in enumerate(chunks)}
    own = np.array([position[query.chunk_id] for query in queries])
    ranks = np.zeros(len(queries), dtype=np.int64)
    for start in range(0, len(queries), BLOCK):
        scores = vectors[start : start + BLOCK] @ passages.T  # (b, N)
        rows = np.arange(len(scores))
        ranks[start : start + BLOCK] = 1 + (scores > scores[rows, own[start : start + BLOCK]][:, None]).sum(axis=1)
    return np.where(ranks <= top, ranks, 0)


def _split(context: StageContext, queries: list[Query]) -> list[Query]:
    """Queries of held-out documents are never trained on. BEIR entries with one title are parts of one document."""
    documents = context.store.documents()
    keys = {d.id: f"{d.source}\0{d.title}" if d.external_id and d.title else d.path for d in documents}
    asked = {query.document_id: keys[query.document_id] for query in queries}
    if not asked:
        return []
    heldout = assign_split(asked, context.settings.evaluation.heldout_share, context.settings.training.seed)
    return [replace(query, split="heldout" if query.document_id in heldout else "train") for query in queries]
