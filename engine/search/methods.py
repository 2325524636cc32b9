"""The methods of `engine serve` that read a project: the type and the handler of each request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import (
    DocumentText,
    Explain,
    Explained,
    Found,
    MeasureReranker,
    Ping,
    ReadDocument,
    RerankerSpeed,
    Search,
    WarmUp,
)
from engine.core.messages.wire import Request, from_json, to_json
from engine.search.workers import ThreadSearcher

Handler = Callable[[ThreadSearcher, Any], Any]


def _search(searcher: ThreadSearcher, request: Search) -> Found:
    return searcher.ready().search(request, searcher.has_waiting_task)


def _warm_up(searcher: ThreadSearcher, request: WarmUp) -> bool:
    searcher.ready().warm_up(request.mode or "hybrid")
    return True


def _read_document(searcher: ThreadSearcher, request: ReadDocument) -> DocumentText:
    """Return the text of a document. Raises UsageError if there is none."""
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


def _explain(searcher: ThreadSearcher, request: Explain) -> Explained:
    return searcher.ready().explain(
        request.query,
        request.chunk_ids,
        request.mode,
    )


def _measure_reranker(searcher: ThreadSearcher, _request: MeasureReranker) -> RerankerSpeed:
    return searcher.ready().reranking.measure_speed()


def _ping(_searcher: ThreadSearcher, _request: Ping) -> str:
    return "pong"


HANDLERS: dict[type[Request[Any]], Handler] = {
    Search: _search,
    WarmUp: _warm_up,
    Explain: _explain,
    MeasureReranker: _measure_reranker,
    ReadDocument: _read_document,
    Ping: _ping,
}
METHODS = {kind.method: kind for kind in HANDLERS}


def read_request(method: str, params: dict[str, Any]) -> Request[Any]:
    """Return the request in the params of a method.

    Raises TypeError, ValueError or EngineError for invalid params.
    """
    return from_json(
        METHODS[method],
        params,
        strict=True,
    )


def answer(searcher: ThreadSearcher, request: Request[Any]) -> Any:
    """Return the answer to a request, as JSON. Raises what its handler raises."""
    handler = HANDLERS[type(request)]
    return to_json(handler(searcher, request))


def is_light(request: Request[Any], searcher: ThreadSearcher) -> bool:
    """Return whether a request needs neither the encoder nor the reranker.

    Light requests have a thread of their own, so that they never wait for a model to load.
    `searcher`: the searcher of the calling thread.
    """
    if isinstance(request, Search):
        return request.mode == "bm25" and not _may_rerank(request.rerank, searcher)
    if isinstance(request, Explain | WarmUp):
        return request.mode == "bm25"
    return isinstance(request, Ping | ReadDocument)


def _may_rerank(rerank: bool | None, searcher: ThreadSearcher) -> bool:
    """Return whether a keyword search may use the reranker; `rerank` as in `Search`."""
    if rerank is not None:
        return rerank
    try:
        has_reranker = bool(searcher.project.settings().search.reranker)
        return has_reranker and searcher.look().may_rerank("bm25")
    except EngineError:  # the search itself fails for the same reason, and reports it
        return False
