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
    return lambda searcher: searcher.ready().search(request, searcher.is_wanted)


def _warm_up(request: WarmUp) -> Task:
    def task(searcher: ThreadSearcher) -> bool:
        searcher.ready().warm_up(request.mode or "hybrid")
        return True

    return task


def _read_document(request: ReadDocument) -> Task:
    def task(searcher: ThreadSearcher) -> DocumentText:
        document = searcher.look().document(request.document_id)
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
    return lambda searcher: searcher.ready().explain(request.query, request.chunk_ids, request.mode)


HANDLERS: dict[type[Request[Any]], Callable[[Any], Task]] = {
    Search: _search,
    WarmUp: _warm_up,
    Explain: _explain,
    MeasureReranker: lambda _: lambda searcher: searcher.ready().reranking.measure_speed(),
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
    return lambda searcher: to_json(task(searcher))


def is_light(request: Request[Any], searcher: ThreadSearcher) -> bool:
    """Return whether a request needs neither the encoder nor the reranker.

    Such a request must not wait for them. `searcher`: the searcher of the calling thread.
    """
    if isinstance(request, Search):
        return request.mode == "bm25" and not _may_rerank(request.rerank, searcher)
    if isinstance(request, Explain | WarmUp):
        return request.mode == "bm25"
    return isinstance(request, Ping | ReadDocument)


def _may_rerank(rerank: bool | None, searcher: ThreadSearcher) -> bool:
    if rerank is not None:
        return rerank
    try:
        has_reranker = bool(searcher.project.settings().search.reranker)
        return has_reranker and searcher.look().may_rerank("bm25")
    except EngineError:  # the search reports it
        return False
