"""Training queries: looked through, corrected, taken out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from engine.core.errors import DamagedError, UsageError
from engine.core.records import Query
from engine.project.folder import ProjectFolder, disk_errors
from engine.project.store.store import Store
from engine.service import params

PAGE, MAX_PAGE_LENGTH = 100, 1000
NOT_KEPT = "The change of the queries could not be kept."
Task = Callable[[], dict[str, Any]]


def queries(
    project: ProjectFolder,
    offset: Any = 0,
    limit: Any = PAGE,
    text: Any = None,
    split: Any = None,
    kind: Any = None,
    rejected: Any = False,
) -> Task:
    """A page of the queries that hold `text`, are of a split and of a kind; and counts over all queries. `rejected`: of
    those that were left out, each with its reason."""
    left_out = params.flag("rejected", rejected)
    first, count = params.number("offset", offset, 0), min(params.number("limit", limit, 1), MAX_PAGE_LENGTH)
    part, side, sort = (
        params.maybe_text(name, value) for name, value in (("text", text), ("split", split), ("kind", kind))
    )
    return lambda: _queries(project, first, count, part, side, sort, left_out)


def _queries(
    project: ProjectFolder,
    offset: int,
    limit: int,
    text: str | None,
    split: str | None,
    kind: str | None,
    rejected: bool,
) -> dict[str, Any]:
    from engine.queries.rules.tokens import fold

    wanted = fold(text or "")
    matches = (lambda candidate: wanted in fold(candidate)) if wanted else None
    with closing(project.store()) as store:
        if rejected:
            total, lost = store.rejected_page(offset, limit, matches=matches, kind=kind)
            shown = _left_out(store, lost)
        else:
            total, page = store.query_page(offset, limit, matches=matches, kind=kind, split=split)
            shown = _shown(store, page)
        kinds, splits = store.query_counts()
        artifact = store.artifact("queries")
    info = artifact.info if artifact else {}
    return {
        "total": total, "queries": shown, "made": info.get("made", 0), "kept": sum(splits.values()),
        "rejected": info.get("rejected", {}), "kinds": kinds, "splits": splits,
    }  # fmt: skip


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


def query(project: ProjectFolder, id: Any) -> Task:
    """One query with its chunk's text, and where the evidence stands in it."""
    wanted = params.row("id", id)

    def task() -> dict[str, Any]:
        with closing(project.store()) as store:
            return _one(store, wanted)

    return task


def _one(store: Store, query_id: int) -> dict[str, Any]:
    found = store.query(query_id)
    if found is None:
        raise UsageError(
            f"There is no query {query_id}.", "Queries may have been generated anew.", "Look again.",
            code="query-missing",
        )  # fmt: skip
    chunk = store.chunks_by_id([found.chunk_id]).get(found.chunk_id)
    text = chunk.text if chunk else ""
    return {**_shown(store, [found])[0], "chunk": text, "span": evidence_span(found.evidence, text)}


def evidence_span(evidence: str, text: str) -> list[int] | None:
    """[start, end] of the evidence in a text, white space apart; None where it does not stand there."""
    wanted = "".join(evidence.split())
    at = "".join(text.split()).find(wanted)
    if not wanted or at < 0:
        return None
    places = [place for place, letter in enumerate(text) if not letter.isspace()]
    return [places[at], places[at + len(wanted) - 1] + 1]


def edit_query(project: ProjectFolder, id: Any, text: Any) -> Task:
    """Give a query another text; gives the query back."""
    wanted, new = params.row("id", id), params.text("text", text)

    def task() -> dict[str, Any]:
        from engine.queries.edits import rewrite

        with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
            rewrite(project, store, {wanted: new})
            return _one(store, wanted)

    return task


def delete_queries(project: ProjectFolder, ids: Any) -> Task:
    """Take queries out; those that are gone already do not count."""
    wanted = params.rows("ids", ids)

    def task() -> dict[str, Any]:
        from engine.queries.edits import rewrite

        with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
            return {"deleted": rewrite(project, store, dict.fromkeys(wanted))}

    return task


METHODS: dict[str, Callable[..., Callable[[], Any]]] = {
    "queries": queries,
    "query": query,
    "edit_query": edit_query,
    "delete_queries": delete_queries,
}
