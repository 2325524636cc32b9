"""The methods of `engine serve` that look and search: each checks its params and gives the task to be done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.core.errors import UsageError
from engine.search.filters import SearchFilter, parse_date
from engine.search.searcher import MODES
from engine.search.workers import OwnSearcher

Task = Callable[[OwnSearcher], Any]


def _search(
    query: str,
    mode: Any = None,
    top: int | None = None,
    paths: list[str] | None = None,
    types: list[str] | None = None,
    after: str | None = None,
    before: str | None = None,
    series: str | None = None,
    authors: list[str] | None = None,
    languages: list[str] | None = None,
    facets: bool = False,
    formats: list[str] | None = None,
) -> Task:
    if not isinstance(query, str) or not (top is None or (type(top) is int and top > 0)):
        raise TypeError("query must be a string and top a whole number above 0")
    if not (series is None or isinstance(series, str)):
        raise TypeError("series must be a string")
    _check_mode(mode)
    where = SearchFilter(
        _texts("paths", paths), _texts("types", types) + _texts("formats", formats),
        _date("after", after), _date("before", before), _texts("authors", authors), _texts("languages", languages),
    )  # fmt: skip
    if not isinstance(facets, bool):
        raise TypeError("facets must be true or false")
    return lambda own: own.ready().search(query, mode=mode, top=top, where=where, with_facets=facets).as_dict()


def _check_mode(mode: Any) -> None:
    if mode is not None and mode not in MODES:
        raise ValueError("mode must be one of " + ", ".join(MODES))


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"{name} must be a list of strings")
    return tuple(value)


def _date(name: str, value: Any) -> float | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a date written as YYYY-MM-DD")
    return parse_date(value)


def _warm_up(mode: Any = "hybrid") -> Task:
    _check_mode(mode)

    def task(own: OwnSearcher) -> bool:
        own.ready().warm_up(mode)
        return True

    return task


def _document(document_id: int) -> Task:
    if not _is_row(document_id):
        raise TypeError("document_id must be a whole number above 0")

    def task(own: OwnSearcher) -> dict[str, Any]:
        document = own.look().document(document_id)
        if document is None:
            raise UsageError(
                f"There is no document {document_id}.", "It may have been deleted.", "Search again.",
                code="document-missing",
            )  # fmt: skip
        names = ("path", "source", "title", "text", "format")
        return {name: getattr(document, name) for name in names}

    return task


def _explain(query: str, chunk_ids: list[int]) -> Task:
    if not isinstance(query, str):
        raise TypeError("query must be a string")
    if not isinstance(chunk_ids, list) or not all(map(_is_row, chunk_ids)):
        raise TypeError("chunk_ids must be a list of whole numbers above 0")
    return lambda own: own.ready().explain(query, chunk_ids).as_dict()


def _is_row(value: Any) -> bool:
    return type(value) is int and 0 < value < 2**63


def _ping() -> Task:
    return lambda _own: "pong"


METHODS: dict[str, Callable[..., Task]] = {
    "search": _search,
    "warm_up": _warm_up,
    "explain": _explain,
    "document": _document,
    "ping": _ping,
}
LIGHT = ("ping", "document")


def is_light(method: str, params: dict[str, Any]) -> bool:
    """Whether a method does without the encoder, and so must not wait for it."""
    return method in LIGHT or params.get("mode") == "bm25"
