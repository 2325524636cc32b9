"""The reading methods of `engine serve`: each validates its params and returns a task to run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import (
    DocumentText,
    Explain,
    MeasureReranker,
    Ping,
    ReadDocument,
    Search,
    WarmUp,
)
from engine.core.messages.wire import Request, from_json, to_json
from engine.search.filters import SearchFilter, parse_date
from engine.search.workers import ThreadSearcher

Task = Callable[[ThreadSearcher], Any]


def _search(request: Search) -> Task:
    where = SearchFilter(
        request.paths or (),
        request.types or (),
        _read_date(request.after),
        _read_date(request.before),
        request.authors or (),
        request.languages or (),
        request.tags or (),
    )
    return lambda own: own.ready().search(
        request.query,
        mode=request.mode,
        top=request.top,
        where=where,
        with_facets=request.facets,
        syntax=request.syntax,
        by_document=request.by_document,
        by_date=request.by_date,
        min_score=request.min_score,
        rerank=request.rerank,
        stop=own.is_wanted,
    )


def _read_date(text: str | None) -> float | None:
    if text is None:
        return None
    return parse_date(text)


def _warm_up(request: WarmUp) -> Task:
    def task(own: ThreadSearcher) -> bool:
        own.ready().warm_up(request.mode or "hybrid")
        return True

    return task


def _read_document(request: ReadDocument) -> Task:
    def task(own: ThreadSearcher) -> DocumentText:
        document = own.look().document(request.document_id)
        if document is None:
            raise UsageError(
                f"There is no document {request.document_id}.",
                "It may have been deleted.",
                "Search again.",
                code="document-missing",
            )
        return DocumentText(
            document.path, document.source, document.title, document.text, document.format
        )

    return task


def _explain(request: Explain) -> Task:
    return lambda own: own.ready().explain(request.query, request.chunk_ids, request.mode)


HANDLERS: dict[type[Request[Any]], Callable[[Any], Task]] = {
    Search: _search,
    WarmUp: _warm_up,
    Explain: _explain,
    MeasureReranker: lambda _: lambda own: own.ready().reranking.measure_speed(),
    ReadDocument: _read_document,
    Ping: lambda _: lambda _own: "pong",
}
METHODS = {kind.method: kind for kind in HANDLERS}


def task_of(method: str, params: dict[str, Any]) -> Task:
    """Return the task that a request asks for; its result is JSON.

    Raises TypeError, ValueError or EngineError for invalid params.
    """
    request = from_json(METHODS[method], params, strict=True)
    task = HANDLERS[type(request)](request)
    return lambda own: to_json(task(own))


def is_light(method: str, params: dict[str, Any], own: ThreadSearcher) -> bool:
    """Return whether a method needs neither the encoder nor the reranker.

    Such a method must not wait for them. `own`: the searcher of the calling thread.
    """
    if method in (Ping.method, ReadDocument.method):
        return True
    if params.get("mode") != "bm25":
        return False
    return method != Search.method or not _may_rerank(params.get("rerank"), own)


def _may_rerank(rerank: bool | None, own: ThreadSearcher) -> bool:
    if rerank is not None:
        return rerank
    try:
        has_reranker = bool(own.project.settings().search.reranker)
        return has_reranker and own.look().may_rerank("bm25")
    except EngineError:  # the search reports it
        return False
