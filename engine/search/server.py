"""`engine serve --stdio`: JSON-RPC 2.0 on standard input and output, one message a line. No port is opened.

Methods: `search` {query, mode?, top?, paths?, formats?, after?, before?} → `Found`; `warm_up` {mode?}; `document`
{document_id} → title, path, text; `ping`; `shutdown`. BM25 and the encoder have a thread each, so that BM25 answers
while the encoder is still loading: answers may come in another order than questions, told apart by `id`.
"""

from __future__ import annotations

import importlib
import json
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from engine.errors import EngineError, UsageError
from engine.project import ProjectFolder
from engine.search.filters import SearchFilter, parse_date
from engine.search.searcher import MODES, Searcher

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL, ENGINE = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
    -32000,
)
Task = Callable[[Searcher], Any]


NO_ANSWER = object()  # stands for the id of a notification


class Worker:
    """A thread with a searcher of its own that works off tasks in order."""

    def __init__(self, project: ProjectFolder) -> None:
        self._project = project
        self._searcher: Searcher | None = None
        self._tasks: queue.Queue[Callable[[Callable[[], Searcher]], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        while task := self._tasks.get():
            task(self._own)
        if self._searcher is not None:
            self._searcher.close()

    def _own(self) -> Searcher:
        """Opened by the task that needs it first, so that a failure is that task's answer and the thread lives on."""
        if self._searcher is None:
            self._searcher = Searcher(self._project)
        return self._searcher

    def put(self, task: Callable[[Callable[[], Searcher]], None]) -> None:
        """Queue a task."""
        self._tasks.put(task)

    def finish(self) -> None:
        """Work off what was asked for, then end."""
        self._tasks.put(None)
        self._thread.join()


def preload() -> None:
    """Import what both threads need: two first imports at once can meet a half-loaded module. Torch stays for later."""
    for module in (
        "numpy",
        "engine.lexical.index",
        "engine.vectors.index",
        "engine.ranking",
        "engine.encoders.hardware",
    ):
        importlib.import_module(module)


class Server:
    """Reads requests, hands them to workers, writes answers. One instance per process."""

    def __init__(self, project: ProjectFolder, output: TextIO) -> None:
        project.store().close()  # a damaged database is told at once, not at the first search
        preload()
        self._output, self._lock, self._gone = output, threading.Lock(), False
        self._lexical, self._semantic = Worker(project), Worker(project)

    def serve(self, lines: Iterable[str]) -> None:
        """Answer until the input ends, `shutdown` is asked for, or nobody reads; then finish what was asked and return.

        Of a text stream the bytes below are read: JSON is UTF-8 whatever the locale, and a bad byte spoils one line only.
        """
        source: Iterable[str | bytes] = getattr(lines, "buffer", lines)
        for line in source:
            if self._gone or (line.strip() and not self._take(line)):
                break
        self._lexical.finish()
        self._semantic.finish()

    def _take(self, line: str | bytes) -> bool:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            self._answer(None, error=(PARSE_ERROR, "not JSON", None))
            return True
        if not _is_request(request):
            key = request.get("id") if isinstance(request, dict) and _is_key(request.get("id")) else None
            self._answer(key, error=(INVALID_REQUEST, "not a JSON-RPC 2.0 request", None))
            return True
        key, method, params = request.get("id", NO_ANSWER), request["method"], request.get("params", {})
        if method == "shutdown":
            self._answer(key, result=True)
            return False
        self._dispatch(key, method, params)
        return True

    def _dispatch(self, key: Any, method: str, params: Any) -> None:
        if method not in TASKS:
            self._answer(key, error=(NO_METHOD, f"no method '{method}'", sorted([*TASKS, "shutdown"])))
            return
        try:
            if not isinstance(params, dict):
                raise TypeError("params must be an object")
            task = TASKS[method](**params)
        except (TypeError, ValueError) as error:
            self._answer(key, error=(INVALID_PARAMS, str(error), None))
        except EngineError as error:
            self._answer(key, error=(INVALID_PARAMS, error.what, error.as_dict()))
        else:
            light = method in ("ping", "document") or params.get("mode") == "bm25"
            (self._lexical if light else self._semantic).put(lambda searcher: self._run(key, task, searcher))

    def _run(self, key: Any, task: Task, searcher: Callable[[], Searcher]) -> None:
        try:
            self._answer(key, result=task(searcher()))
        except EngineError as error:
            self._answer(key, error=(ENGINE, error.what, error.as_dict()))
        except BaseException as error:  # a fault in one answer, even a panic of native code, must not end the server
            self._answer(key, error=(INTERNAL, f"{type(error).__name__}: {error}", None))

    def _answer(self, key: Any, result: Any = None, error: tuple[int, str, Any] | None = None) -> None:
        if key is NO_ANSWER:
            return  # a notification wants no answer, not even an error
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": key}
        if error:
            body["error"] = {"code": error[0], "message": error[1]} | ({"data": error[2]} if error[2] else {})
        else:
            body["result"] = result
        text = json.dumps(body, ensure_ascii=True) + "\n"
        with self._lock:
            try:
                self._output.write(text)
                self._output.flush()
            except (OSError, ValueError):
                self._gone = True  # the other side has closed its end: there is nobody to tell


def _is_key(key: Any) -> bool:
    """Whether a value may be the id of a request: text, a whole number or null."""
    return key is None or isinstance(key, str) or type(key) is int


def _is_request(request: Any) -> bool:
    return (
        isinstance(request, dict)
        and request.get("jsonrpc") == "2.0"
        and isinstance(request.get("method"), str)
        and _is_key(request.get("id"))
    )


def _search(
    query: str,
    mode: Any = None,
    top: int | None = None,
    paths: list[str] | None = None,
    formats: list[str] | None = None,
    after: str | None = None,
    before: str | None = None,
) -> Task:
    if not isinstance(query, str) or not (top is None or (type(top) is int and top > 0)):
        raise TypeError("query must be a string and top a whole number above 0")
    _check_mode(mode)
    where = SearchFilter(
        _texts("paths", paths), _texts("formats", formats), _date("after", after), _date("before", before)
    )
    return lambda searcher: searcher.search(query, mode=mode, top=top, where=where).as_dict()


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

    def task(searcher: Searcher) -> bool:
        searcher.warm_up(mode)
        return True

    return task


def _document(document_id: int) -> Task:
    if type(document_id) is not int or not 0 < document_id < 2**63:
        raise TypeError("document_id must be a whole number above 0")

    def task(searcher: Searcher) -> dict[str, Any]:
        document = searcher.document(document_id)
        if document is None:
            raise UsageError(f"There is no document {document_id}.", "It may have been deleted.", "Search again.")
        return {"path": document.path, "source": document.source, "title": document.title, "text": document.text}

    return task


def _ping() -> Task:
    return lambda _searcher: "pong"


TASKS: dict[str, Callable[..., Task]] = {"search": _search, "warm_up": _warm_up, "document": _document, "ping": _ping}
