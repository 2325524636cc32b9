"""How many queries will decide what comes into use, before they are made or measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from engine.core.records import DocumentQuery
from engine.evaluation.document_set import grouped_by_text
from engine.evaluation.evidence import RungName
from engine.evaluation.query_sets import answerable, generated_queries, heldout_queries, rung_of
from engine.project.stage import ProjectSnapshot
from engine.queries.choosing import IMPORTED, MODELS, backend_of, made_by
from engine.queries.document_written import held_by, untrained
from engine.queries.heldout import related_in, split_documents, text_keys, unrelated_documents
from engine.queries.rules.tokens import question_key
from engine.queries.stage import MIN_GROUPS
from engine.written_queries.document_queries import document_queries
from engine.written_queries.imports import imported_queries

DECIDING = 2 / 3
"""Of the held-out documents' queries; the others stop the training."""


def expected_evidence(snapshot: ProjectSnapshot, made: bool) -> dict[RungName, int]:
    """Of each kind that may decide.

    Where the training queries of the documents are not `made` yet, as if at least one came of every
    document: so there may be more document-written ones.
    """
    store, chosen, chunks = snapshot.store, snapshot.settings.evaluation, snapshot.store.chunks()
    queries = store.queries()
    written = document_queries(store)
    if made:
        free = untrained(snapshot, chunks, written)
        backend = made_by(snapshot)
        held_out = Counter(rung_of(one, backend) for one in heldout_queries(snapshot, chunks))
    else:
        free = expected_untrained(snapshot, written)
        made_of = snapshot.settings.queries
        backend = backend_of(snapshot)
        held_out = Counter()
        items = imported_queries(snapshot.project) if backend in IMPORTED else ()
        held_out["model"] = made_of.per_chunk * len(chunks) * (backend in MODELS)
        held_out["imported"] = len({question_key(one.text) for one in items})
        share = chosen.heldout_share * DECIDING
        held_out = Counter(
            {rung: round(share * min(made_of.max_queries, most)) for rung, most in held_out.items()}
        )
    known = {question_key(query.text) for query in queries} | generated_queries(snapshot).keys()
    judged = set()
    if chosen.use_judged:
        asked = [one for one in answerable(snapshot, chunks) if not one.only_measures]
        judged = {question_key(one.text) for one in asked} - known
    return {
        "judged": len(judged),
        "document": min(len(grouped_by_text(free, chunks)), chosen.max_heldout),
        "model": min(held_out["model"], chosen.max_heldout),
        "imported": min(held_out["imported"], chosen.max_heldout),
    }


def expected_untrained(
    snapshot: ProjectSnapshot, written: Sequence[DocumentQuery]
) -> list[DocumentQuery]:
    """Those that `untrained` will give, as if at least one training query came of every
    document.
    """
    settings = snapshot.settings
    documents = snapshot.store.documents()
    related = related_in(snapshot.store, documents)
    keys = text_keys(documents, related)
    split = split_documents(keys, settings.evaluation.heldout_share, settings.training.seed)
    few = len(set(keys.values())) < MIN_GROUPS
    used = {document for document in keys if few or split.get(document) != "heldout"}
    return held_by(unrelated_documents(used, related), written)
