"""Training queries for a user interface: pages of them, their origins, edits and deletions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import get_args

from engine.core.disk import disk_errors
from engine.core.errors import DamagedError, UsageError, unknown_name
from engine.core.messages import queries as messages
from engine.core.messages.queries import evidence_span
from engine.core.records import Origin, Query
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.store import Store
from engine.queries.rejection import read_reason, words_of

MAX_PAGE_LENGTH = 1000  # queries
USES: tuple[messages.QueryUse, ...] = get_args(messages.QueryUse)
ORIGINS = (
    *get_args(Origin),
    "language-model",
    "extractive",
    "imported",
    "judged",
)
# Origins of example queries in documents, in groups from which examples are taken in turn.
EXAMPLES: tuple[tuple[Origin, ...], ...] = (
    ("faq",),
    ("title", "subject"),
    ("heading",),
)
NOT_KEPT = "The change of the queries could not be kept."


def queries(project: ProjectFolder, request: messages.ReadQueries) -> messages.QueryPage:
    """Return a page of the queries or of the rejected ones, and counts over all queries."""
    from engine.queries.rules.tokens import fold

    search_text = fold(request.text or "")

    def contains_search_text(text: str) -> bool:
        return search_text in fold(text)

    matches = contains_search_text if search_text else None
    offset = request.offset
    limit = min(request.limit, MAX_PAGE_LENGTH)
    kind = request.kind
    with closing(project.store()) as store:
        if request.rejected:
            total, page = store.rejected_page(
                offset,
                limit,
                matches=matches,
                kind=kind,
            )
        else:
            total, queries_on_page = store.query_page(
                offset, limit, matches=matches, kind=kind, split=request.split
            )
            page = [(query, "") for query in queries_on_page]
        rows = _build_rows(store, page)
        kinds, splits = store.query_counts()
        artifact = store.artifact(QueriesInfo)
    info = artifact.info if artifact else QueriesInfo()
    rejected = {words_of(reason): count for reason, count in info.rejected.items()}
    kept_count = sum(splits.values())
    return messages.QueryPage(
        total,
        tuple(rows),
        info.made,
        kept_count,
        rejected,
        kinds,
        splits,
    )


def examples(project: ProjectFolder, request: messages.ReadExamples) -> tuple[str, ...]:
    """Return example queries of several kinds, to show what one can search for.

    First judged queries, then those that a language model wrote or that were imported, then
    questions, titles and headings in documents. Extractive queries only if there are no others.
    """
    from engine.corpus.text.document_queries import document_queries
    from engine.queries.choosing import is_extractive

    with closing(project.store()) as store:
        artifact = store.artifact(QueriesInfo)
        backend = artifact.info.backend if artifact else ""
        _, made = store.query_page(
            0,
            request.limit,
            split="heldout",
        )
        if not made:
            _, made = store.query_page(0, request.limit)
        written = document_queries(store)
        groups = [
            [query.text for query in store.judged()],
            [query.text for query in made if not is_extractive(query, backend)],
        ]
        for origins in EXAMPLES:
            groups.append([query.text for query in written if query.origin in origins])
    texts: list[str] = []
    for group in groups:
        step = max(1, len(group) // request.limit)  # spread over the whole group
        texts += group[::step]
    if not texts:
        texts = [query.text for query in made]
    return tuple(dict.fromkeys(texts))[: request.limit]


def list_queries(store: Store, rejected: bool = False) -> list[messages.QueryRow]:
    """Return all training queries, or the rejected ones with their reasons."""
    if rejected:
        _, queries_and_reasons = store.rejected_page()
    else:
        queries_and_reasons = [(query, "") for query in store.queries()]
    return _build_rows(store, queries_and_reasons)


def by_origin(snapshot: ProjectSnapshot, origin: str | None = None) -> messages.QueriesByOrigin:
    """Return all queries of a project, or those of one origin, sorted by origin, with their uses.

    The counts are over all origins. Raises UsageError for an unknown origin.
    """
    if origin is not None and origin not in ORIGINS:
        raise unknown_name(
            "origin",
            origin,
            ORIGINS,
            code="origin-unknown",
        )
    listed_queries = _list_with_uses(snapshot)
    listed_queries.sort(key=lambda query: ORIGINS.index(query.origin))
    counts = Counter(query.origin for query in listed_queries)
    counts_by_use: dict[str, dict[messages.QueryUse, int]] = {}
    for name in counts:
        uses = Counter(query.use for query in listed_queries if query.origin == name)
        counts_by_use[name] = {use: uses[use] for use in USES if uses[use]}
    if origin is not None:
        listed_queries = [query for query in listed_queries if query.origin == origin]
    return messages.QueriesByOrigin(
        dict(counts),
        counts_by_use,
        tuple(listed_queries),
    )


def _list_with_uses(snapshot: ProjectSnapshot) -> list[messages.QueryOfOrigin]:
    """Return the queries written in documents, the training queries and the judged ones."""
    from engine.queries.choosing import MODELS
    from engine.service.query_uses import QueryUses

    store = snapshot.store
    paths = {document.id: document.path for document in store.documents()}
    artifact = store.artifact(QueriesInfo)
    generated = "extractive"
    if artifact and artifact.info.backend in MODELS:
        generated = "language-model"
    uses = QueryUses(snapshot)
    rows = []
    for written in uses.written:
        use, reason = uses.of_written(written)
        rows.append(
            messages.QueryOfOrigin(
                written.origin,
                written.text,
                use,
                paths[written.document_id],
                written.chunk_id,
                paths[written.written_in],
                written.start,
                written.end,
                reason,
            )
        )
    for query in store.queries():
        use, reason = uses.of_generated(query)
        origin = "imported" if query.imported else generated
        path = paths.get(query.document_id, "")
        chunk_id = query.chunk_id or None
        rows.append(messages.QueryOfOrigin(origin, query.text, use, path, chunk_id, reason=reason))
    for judged in store.judged():
        use, reason = uses.of_judged(judged)
        path = judged.path or ""
        rows.append(messages.QueryOfOrigin("judged", judged.text, use, path, reason=reason))
    return rows


def _build_rows(
    store: Store, queries_and_reasons: Sequence[tuple[Query, str]]
) -> list[messages.QueryRow]:
    """Return a row for each query. The reason says why it was rejected; empty if it was not."""
    cards: dict[int, tuple[str, str]] = {}
    rows = []
    for query, reason in queries_and_reasons:
        if query.document_id not in cards:
            cards[query.document_id] = _read_card(store, query.document_id)
        path, title = cards[query.document_id]
        rejection, _ = read_reason(reason)
        rows.append(
            messages.QueryRow(
                query.text,
                query.kind,
                query.evidence,
                path,
                title,
                query.id,
                "" if reason else query.split,
                query.chunk_id,
                query.document_id,
                words_of(reason),
                rejection or "",
            )
        )
    return rows


def _read_card(store: Store, document_id: int) -> tuple[str, str]:
    """Return path and title of a query's document, or empty texts if there is no such document."""
    try:
        document = store.document_card(document_id)
    except DamagedError:
        return "", ""
    return document.path, document.title


def query(project: ProjectFolder, request: messages.ReadQuery) -> messages.QueryInChunk:
    """Return a query with its chunk's text, and the span of the evidence in it."""
    with closing(project.store()) as store:
        return _read_query(store, request.id)


def _read_query(store: Store, query_id: int) -> messages.QueryInChunk:
    """Return a query with its chunk's text. Raises UsageError if there is no such query."""
    query = store.query(query_id)
    if query is None:
        raise UsageError(
            f"There is no query {query_id}.",
            "Queries may have been generated again.",
            "Look again.",
            code="query-missing",
        )
    chunk = store.chunks_by_id([query.chunk_id]).get(query.chunk_id)
    text = chunk.text if chunk else ""
    (row,) = _build_rows(store, [(query, "")])
    span = evidence_span(query.evidence, text)
    return messages.QueryInChunk(
        **asdict(row),
        chunk=text,
        span=span,
    )


def edit_query(project: ProjectFolder, request: messages.EditQuery) -> messages.QueryInChunk:
    """Change the text of a query, and return the query."""
    from engine.queries.edits import edit_queries

    with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
        edit_queries(
            project,
            store,
            {request.id: request.text},
        )
        return _read_query(store, request.id)


def delete_queries(project: ProjectFolder, request: messages.DeleteQueries) -> messages.Deleted:
    """Delete queries, and return how many were deleted."""
    from engine.queries.edits import edit_queries

    with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
        return messages.Deleted(edit_queries(project, store, dict.fromkeys(request.ids)))


HANDLERS = {
    messages.ReadQueries: queries,
    messages.ReadQuery: query,
    messages.EditQuery: edit_query,
    messages.DeleteQueries: delete_queries,
    messages.ReadExamples: examples,
}
