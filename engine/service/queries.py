"""Training queries: looked through, corrected, taken out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from typing import get_args

from engine.core.disk import disk_errors
from engine.core.errors import DamagedError, UsageError, unknown
from engine.core.messages import queries as messages
from engine.core.messages.queries import evidence_span
from engine.core.records import Origin, Query
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.store import Store
from engine.queries.rejection import read_reason, words_of

MAX_PAGE_LENGTH = 1000
USES: tuple[messages.QueryUse, ...] = get_args(messages.QueryUse)
ORIGINS = (*get_args(Origin), "language-model", "extractive", "imported", "judged")
EXAMPLES: tuple[tuple[Origin, ...], ...] = (("faq",), ("title", "subject"), ("heading",))
NOT_KEPT = "The change of the queries could not be kept."


def queries(project: ProjectFolder, request: messages.ReadQueries) -> messages.QueryPage:
    """A page of the queries, or of those that were left out, and counts over all queries."""
    from engine.queries.rules.tokens import fold

    wanted = fold(request.text or "")
    matches = (lambda text: wanted in fold(text)) if wanted else None
    offset = request.offset
    limit = min(request.limit, MAX_PAGE_LENGTH)
    kind = request.kind
    with closing(project.store()) as store:
        if request.rejected:
            total, page = store.rejected_page(offset, limit, matches=matches, kind=kind)
        else:
            total, kept = store.query_page(
                offset, limit, matches=matches, kind=kind, split=request.split
            )
            page = [(query, "") for query in kept]
        shown = _rows(store, page)
        kinds, splits = store.query_counts()
        artifact = store.artifact(QueriesInfo)
    if artifact:
        info = artifact.info
    else:
        info = QueriesInfo()
    rejected = {words_of(reason): count for reason, count in info.rejected.items()}
    return messages.QueryPage(
        total, tuple(shown), info.made, sum(splits.values()), rejected, kinds, splits
    )


def examples(project: ProjectFolder, request: messages.ReadExamples) -> tuple[str, ...]:
    """Judged queries, those of a language model or imported, then what documents hold:
    questions, titles, headings.
    """
    from engine.queries.choosing import is_extractive
    from engine.written_queries.document_queries import document_queries

    with closing(project.store()) as store:
        artifact = store.artifact(QueriesInfo)
        backend = artifact.info.backend if artifact else ""
        made = (
            store.query_page(0, request.limit, split="heldout")[1]
            or store.query_page(0, request.limit)[1]
        )
        written = document_queries(store)
        texts = [
            [query.text for query in store.judged()],
            [query.text for query in made if not is_extractive(query, backend)],
            *([query.text for query in written if query.origin in origins] for origins in EXAMPLES),
        ]
    found = dict.fromkeys(
        text for group in texts for text in group[:: max(1, len(group) // request.limit)]
    )
    return tuple(found or dict.fromkeys(query.text for query in made))[: request.limit]


def listed(store: Store, rejected: bool = False) -> list[messages.QueryRow]:
    """All training queries, or those that were left out, each with the reason."""
    if rejected:
        found = store.rejected_page()[1]
    else:
        found = [(query, "") for query in store.queries()]
    return _rows(store, found)


def by_origin(snapshot: ProjectSnapshot, origin: str | None = None) -> messages.QueriesByOrigin:
    """All queries of a project, those that its documents hold first; of one origin where it is
    named. Raises UsageError for an origin that there is none of.
    """
    from engine.queries.choosing import MODELS
    from engine.service.query_uses import QueryUses

    store = snapshot.store
    if origin is not None and origin not in ORIGINS:
        raise unknown("origin", origin, ORIGINS, code="origin-unknown")
    paths = {document.id: document.path for document in store.documents()}
    artifact = store.artifact(QueriesInfo)
    if artifact and artifact.info.backend in MODELS:
        made = "language-model"
    else:
        made = "extractive"
    uses = QueryUses(snapshot)
    found = []
    for one in uses.written:
        use, why = uses.of_written(one)
        written = one.chunk_id, paths[one.written_in], one.start, one.end
        found.append(
            messages.QueryOfOrigin(one.origin, one.text, use, paths[one.document_id], *written, why)
        )
    for query in store.queries():
        (use, why), how = uses.of_generated(query), "imported" if query.imported else made
        path = paths.get(query.document_id, "")
        chunk = query.chunk_id or None
        found.append(messages.QueryOfOrigin(how, query.text, use, path, chunk, reason=why))
    for asked in store.judged():
        use, why = uses.of_judged(asked)
        found.append(
            messages.QueryOfOrigin("judged", asked.text, use, asked.path or "", reason=why)
        )
    found.sort(key=lambda one: ORIGINS.index(one.origin))
    counts = Counter(one.origin for one in found)
    both = Counter((one.origin, one.use) for one in found)
    by_use = {name: {use: both[name, use] for use in USES if both[name, use]} for name in counts}
    return messages.QueriesByOrigin(
        dict(counts), by_use, tuple(one for one in found if origin in (None, one.origin))
    )


def _rows(store: Store, found: Sequence[tuple[Query, str]]) -> list[messages.QueryRow]:
    """Queries with the reasons for which they were left out, if they were."""
    cards = {
        document_id: _card(store, document_id)
        for document_id in {query.document_id for query, _ in found}
    }
    return [
        messages.QueryRow(
            query.text,
            query.kind,
            query.evidence,
            *cards[query.document_id],
            query.id,
            "" if reason else query.split,
            query.chunk_id,
            query.document_id,
            words_of(reason),
            read_reason(reason)[0] or "",
        )
        for query, reason in found
    ]


def _card(store: Store, document_id: int) -> tuple[str, str]:
    """Path and title of a query's document; empty where it belongs to none, or the document is
    gone since.
    """
    try:
        document = store.document_card(document_id)
    except DamagedError:
        return "", ""
    return document.path, document.title


def query(project: ProjectFolder, request: messages.ReadQuery) -> messages.QueryInChunk:
    """One query with its chunk's text, and where the evidence stands in it."""
    with closing(project.store()) as store:
        return _one(store, request.id)


def _one(store: Store, query_id: int) -> messages.QueryInChunk:
    found = store.query(query_id)
    if found is None:
        raise UsageError(
            f"There is no query {query_id}.",
            "Queries may have been generated anew.",
            "Look again.",
            code="query-missing",
        )
    chunk = store.chunks_by_id([found.chunk_id]).get(found.chunk_id)
    text = chunk.text if chunk else ""
    (row,) = _rows(store, [(found, "")])
    return messages.QueryInChunk(
        **asdict(row), chunk=text, span=evidence_span(found.evidence, text)
    )


def edit_query(project: ProjectFolder, request: messages.EditQuery) -> messages.QueryInChunk:
    """Give a query another text; gives the query back."""
    from engine.queries.edits import rewrite

    with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
        rewrite(project, store, {request.id: request.text})
        return _one(store, request.id)


def delete_queries(project: ProjectFolder, request: messages.DeleteQueries) -> messages.Deleted:
    """Take queries out; those that are gone already do not count."""
    from engine.queries.edits import rewrite

    with project.locked(), disk_errors(NOT_KEPT), closing(project.store()) as store:
        return messages.Deleted(rewrite(project, store, dict.fromkeys(request.ids)))


HANDLERS = {
    messages.ReadQueries: queries,
    messages.ReadQuery: query,
    messages.EditQuery: edit_query,
    messages.DeleteQueries: delete_queries,
    messages.ReadExamples: examples,
}
