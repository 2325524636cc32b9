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
from engine.search.workers import ThreadSearcher

Task = Callable[[ThreadSearcher], Any]


def _search(request: Search) -> Task:
    return lambda own: own.ready().search(request, own.is_wanted)


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


def read_request(method: str, params: dict[str, Any]) -> Request[Any]:
    """Return the request in the params of a method.

    Raises TypeError, ValueError or EngineError for invalid params.
    """
    return from_json(METHODS[method], params, strict=True)


def task_of(request: Request[Any]) -> Task:
    """Return the task that a request asks for; its result is JSON."""
    task = HANDLERS[type(request)](request)
    return lambda own: to_json(task(own))


def is_light(request: Request[Any], own: ThreadSearcher) -> bool:
    """Return whether a request needs neither the encoder nor the reranker.

    Such a request must not wait for them. `own`: the searcher of the calling thread.
    """
    if isinstance(request, Search):
        return request.mode == "bm25" and not _may_rerank(request.rerank, own)
    if isinstance(request, Explain | WarmUp):
        return request.mode == "bm25"
    return isinstance(request, Ping | ReadDocument)


def _may_rerank(rerank: bool | None, own: ThreadSearcher) -> bool:
    if rerank is not None:
        return rerank
    try:
        has_reranker = bool(own.project.settings().search.reranker)
        return has_reranker and own.look().may_rerank("bm25")
    except EngineError:  # the search reports it
        return False
