"""Training queries: looked through, corrected, taken out."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Any

from engine.core.disk import disk_errors
from engine.core.errors import DamagedError, UsageError
from engine.core.messages.queries import (
    Deleted,
    DeleteQueries,
    EditQuery,
    QueryInChunk,
    QueryPage,
    QueryRow,
    ReadQueries,
    ReadQuery,
    evidence_span,
)
from engine.core.records import Query
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.store import Store

MAX_PAGE_LENGTH = 1000
NOT_KEPT = "The change of the queries could not be kept."


def queries(project: ProjectFolder, request: ReadQueries) -> QueryPage:
    """A page of the queries, or of those that were left out, and counts over all queries."""
    from engine.queries.rules.tokens import fold

    wanted = fold(request.text or "")
    matches = (lambda candidate: wanted in fold(candidate)) if wanted else None
    offset, limit, kind = request.offset, min(request.limit, MAX_PAGE_LENGTH), request.kind
    with closing(project.store()) as store:
        if request.rejected:
            total, lost = store.rejected_page(offset, limit, matches=matches, kind=kind)
            shown = [QueryRow(**row) for row in _left_out(store, lost)]
        else:
            total, page = store.query_page(offset, limit, matches=matches, kind=kind, split=request.split)
            shown = [QueryRow(**row) for row in _shown(store, page)]
        kinds, splits = store.query_counts()
        artifact = store.artifact(QueriesInfo)
    info = artifact.info if artifact else QueriesInfo()
    kept = sum(splits.values())
    return QueryPage(total, tuple(shown), info.made, kept, dict(info.rejected), kinds, splits)


def _shown(store: Store, page: Sequence[Query]) -> list[dict[str, Any]]:
    cards = {document_id: _card(store, document_id) for document_id in {query.document_id for query in page}}
    names = ("id", "text", "kind", "split", "evidence", "chunk_id", "document_id")
    return [{**{name: getattr(query, name) for name in names}, **cards[query.document_id]} for query in page]


def listed(store: Store, rejected: bool = False) -> list[dict[str, Any]]:
    """All training queries, or those that were left out: text, kind, evidence, path and title of their document; and
    split, or reason. What was imported and belongs to no document has an empty path."""
    if rejected:
        return _left_out(store, store.rejected_queries())
    queries = store.queries()
    cards = {document_id: _card(store, document_id) for document_id in {query.document_id for query in queries}}
    return [{**_words(query), **cards[query.document_id], "split": query.split} for query in queries]


def _left_out(store: Store, rows: Sequence[tuple[Query, str]]) -> list[dict[str, Any]]:
    """What was imported and belongs to no document has an empty path."""
    cards = {0: {"path": "", "title": ""}}
    for document_id in {query.document_id for query, _ in rows} - {0}:
        cards[document_id] = _card(store, document_id)
    return [{**_words(query), **cards[query.document_id], "reason": reason} for query, reason in rows]


def _words(query: Query) -> dict[str, Any]:
    return {"text": query.text, "kind": query.kind, "evidence": query.evidence}


def _card(store: Store, document_id: int) -> dict[str, str]:
    try:
        document = store.document_card(document_id)
    except DamagedError:
        return {"path": "", "title": ""}  # the document is gone, its queries stay until they are generated anew
    return {"path": document.path, "title": document.title}


def query(project: ProjectFolder, request: ReadQuery) -> QueryInChunk:
    """One query with its chunk's text, and where the evidence stands in it."""
    with closing(project.store()) as store:
        return _one(store, request.id)


def _one(store: Store, query_id: int) -> QueryInChunk:
    found = store.query(query_id)
    if found is None:
        raise UsageError(
            f"There is no query {query_id}.", "Queries may have been generated anew.", "Look again.",
            code="query-missing",
        )  # fmt: skip
    chunk = store.chunks_by_id([found.chunk_id]).get(found.chunk_id)
    text = chunk.text if chunk else ""
    return QueryInChunk(**_shown(store, [found])[0], chunk=text, span=evidence_span(found.evidence, text))


def edit_query(project: ProjectFolder, request: EditQuery) -> QueryInChunk:
    """Give a query another text; gives the query back."""
    from engine.queries.edits import rewrite

    with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
        rewrite(project, store, {request.id: request.text})
        return _one(store, request.id)


def delete_queries(project: ProjectFolder, request: DeleteQueries) -> Deleted:
    """Take queries out; those that are gone already do not count."""
    from engine.queries.edits import rewrite

    with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
        return Deleted(rewrite(project, store, dict.fromkeys(request.ids)))


HANDLERS = {ReadQueries: queries, ReadQuery: query, EditQuery: edit_query, DeleteQueries: delete_queries}
