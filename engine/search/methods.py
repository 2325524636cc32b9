"""The methods of `engine serve` that look and search: each checks its params and gives the task
to be done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.errors import EngineError, UsageError
from engine.core.messages.search import (
    DocumentText,
    Explain,
    Ping,
    ReadDocument,
    Search,
    WarmUp,
)
from engine.core.messages.wire import Request, params_of, to_json
from engine.search.filters import SearchFilter, parse_date
from engine.search.workers import OwnSearcher

Task = Callable[[OwnSearcher], Any]


def _search(request: Search) -> Task:
    where = SearchFilter(
        request.paths or (),
        request.types or (),
        _date(request.after),
        _date(request.before),
        request.authors or (),
        request.languages or (),
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


def _date(text: str | None) -> float | None:
    if text is None:
        return None
    return parse_date(text)


def _warm_up(request: WarmUp) -> Task:
    def task(own: OwnSearcher) -> bool:
        own.ready().warm_up(request.mode or "hybrid")
        return True

    return task


def _document(request: ReadDocument) -> Task:
    def task(own: OwnSearcher) -> DocumentText:
        found = own.look().document(request.document_id)
        if found is None:
            raise UsageError(
                f"There is no document {request.document_id}.",
                "It may have been deleted.",
                "Search again.",
                code="document-missing",
            )
        return DocumentText(found.path, found.source, found.title, found.text, found.format)

    return task


def _explain(request: Explain) -> Task:
    return lambda own: own.ready().explain(request.query, request.chunk_ids, request.mode)


HANDLERS: dict[type[Request[Any]], Callable[[Any], Task]] = {
    Search: _search,
    WarmUp: _warm_up,
    Explain: _explain,
    ReadDocument: _document,
    Ping: lambda _: lambda _own: "pong",
}
METHODS = {kind.method: kind for kind in HANDLERS}


def task_of(method: str, params: dict[str, Any]) -> Task:
    """What a request asks for, as JSON.

    Raises TypeError, ValueError or EngineError for wrong params.
    """
    request = params_of(METHODS[method], params)
    task = HANDLERS[type(request)](request)
    return lambda own: to_json(task(own))


def is_light(method: str, params: dict[str, Any], own: OwnSearcher) -> bool:
    """Whether a method does without the encoder and the reranker, and so must not wait for them.

    `own`: of this thread.
    """
    if method in (Ping.method, ReadDocument.method):
        return True
    return params.get("mode") == "bm25" and not (
        method == Search.method and _may_rerank(params.get("rerank"), own)
    )


def _may_rerank(asked: bool | None, own: OwnSearcher) -> bool:
    if asked is not None:
        return asked
    try:
        return bool(own.project.settings().search.reranker) and own.look().may_rerank("bm25")
    except EngineError:  # the search says what is wrong
        return False
