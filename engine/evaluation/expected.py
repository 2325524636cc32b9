"""How many queries will decide what comes into use, before they are made or measured."""

from __future__ import annotations

from engine.evaluation.document_set import grouped_by_text
from engine.evaluation.evidence import RungName
from engine.evaluation.query_sets import generated_queries, heldout_queries
from engine.project.stage import ProjectSnapshot
from engine.queries.choosing import MODELS, backend_of, is_extractive, made_by
from engine.queries.document_written import held_by, untrained
from engine.queries.heldout import document_keys, related_documents, split_documents, unrelated_documents
from engine.queries.rules.tokens import fold
from engine.queries.stage import MIN_GROUPS
from engine.written_queries.document_queries import document_queries

DECIDING = 2 / 3
"""Of the held-out documents' queries; the others stop the training."""


def expected_evidence(snapshot: ProjectSnapshot, made: bool) -> dict[RungName, int]:
    """Of each kind that may decide. Where the training queries of the documents are not `made` yet, as if at least one came of
    every document: so there may be more document-written ones."""
    store, chosen, chunks = snapshot.store, snapshot.settings.evaluation, snapshot.store.chunks()
    queries = store.queries()
    if made:
        written, held_out, backend = untrained(snapshot, chunks), heldout_queries(snapshot, chunks), made_by(snapshot)
        model = sum(not is_extractive(one, backend) for one in held_out)
    else:
        documents = store.documents()
        keys = document_keys(documents)
        split = split_documents(keys, chosen.heldout_share, snapshot.settings.training.seed)
        few = len(set(keys.values())) < MIN_GROUPS
        used = {document for document in keys if few or split.get(document) != "heldout"}
        written = held_by(unrelated_documents(used, related_documents(documents)), document_queries(store))
        most = min(snapshot.settings.queries.max_queries, snapshot.settings.queries.per_chunk * len(chunks))
        model = round(chosen.heldout_share * DECIDING * most) if backend_of(snapshot) in MODELS else 0
    known = {fold(query.text) for query in queries} | generated_queries(snapshot).keys()
    judged = {fold(query.text) for query in store.judged()} - known if chosen.use_judged else set()
    return {
        "judged": len(judged), "document": min(len(grouped_by_text(written, chunks)), chosen.max_heldout),
        "model": min(model, chosen.max_heldout),
    }  # fmt: skip
