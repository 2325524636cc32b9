"""Estimates of how many queries will decide what comes into use, before they are measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.core.records import Chunk, DocumentQuery
from engine.corpus.text.document_queries import document_queries
from engine.datasets.imports import imported_queries
from engine.evaluation.document_set import group_by_text
from engine.evaluation.query_sets import (
    answerable_queries,
    generated_queries,
    heldout_queries,
    rung_of_query,
)
from engine.evaluation.rungs import RungName
from engine.project.stage import ProjectSnapshot
from engine.queries.choosing import IMPORTED, MODELS, backend_of, backend_of_queries
from engine.queries.from_documents import find_untrained, written_within
from engine.queries.heldout import group_keys, related_in, split_documents, unrelated_documents
from engine.queries.rules.tokens import question_key
from engine.queries.splitting import MIN_GROUPS

DECIDING = 2 / 3
"""Share of the queries of held-out documents that decide; the others are for early stopping."""


def expected_evidence(snapshot: ProjectSnapshot, made: bool) -> dict[RungName, int]:
    """Return the expected number of queries of each rung that may decide.

    `made`: the training queries exist already. If they do not, this assumes at least one training
    query from every document, so there may be more document-written queries than estimated.
    """
    store = snapshot.store
    settings = snapshot.settings.evaluation
    chunks = store.chunks()
    written = document_queries(store)
    if made:
        untrained = find_untrained(snapshot, chunks, written)
        backend = backend_of_queries(snapshot)
        heldout = heldout_queries(snapshot, chunks)
        counts = Counter(rung_of_query(query, backend) for query in heldout)
    else:
        untrained = expected_untrained(snapshot, written)
        counts = _expected_heldout(snapshot, len(chunks))
    return {
        "judged": _count_judged(snapshot, chunks),
        "document": min(len(group_by_text(untrained, chunks)), settings.max_heldout),
        "model": min(counts["model"], settings.max_heldout),
        "imported": min(counts["imported"], settings.max_heldout),
    }


def _expected_heldout(snapshot: ProjectSnapshot, chunks: int) -> Counter[RungName]:
    """Return how many held-out queries the configured backend will yield from so many chunks."""
    settings = snapshot.settings.queries
    backend = backend_of(snapshot)
    queries: dict[RungName, int] = {}
    if backend in MODELS:
        queries["model"] = settings.per_chunk * chunks
    if backend in IMPORTED:
        imported = imported_queries(snapshot.project)
        queries["imported"] = len({question_key(query.text) for query in imported})
    share = snapshot.settings.evaluation.heldout_share * DECIDING
    counts: Counter[RungName] = Counter()
    for rung, count in queries.items():
        counts[rung] = round(share * min(settings.max_queries, count))
    return counts


def _count_judged(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> int:
    """Return how many judged questions decide, without those made from the documents."""
    if not snapshot.settings.evaluation.use_judged:
        return 0
    generated = {question_key(query.text) for query in snapshot.store.queries()}
    generated |= generated_queries(snapshot).keys()
    deciding = [query for query in answerable_queries(snapshot, chunks) if not query.only_measures]
    return len({question_key(query.text) for query in deciding} - generated)


def expected_untrained(
    snapshot: ProjectSnapshot, written: Sequence[DocumentQuery]
) -> list[DocumentQuery]:
    """Return what `find_untrained` will return, assuming a training query from every document."""
    settings = snapshot.settings
    documents = snapshot.store.documents()
    related = related_in(snapshot.store)
    keys = group_keys(documents, related)
    split = split_documents(
        keys,
        settings.evaluation.heldout_share,
        settings.training.seed,
    )
    trained = set(keys)
    # With fewer texts than `MIN_GROUPS`, none is held out.
    if len(set(keys.values())) >= MIN_GROUPS:
        trained = {document for document in keys if split.get(document) != "heldout"}
    return written_within(unrelated_documents(trained, related), written)
