"""`engine serve --stdio`: JSON-RPC 2.0 on standard input and output, one message a line. No port is opened.

Methods: `search` {query, mode?, top?, paths?, formats?, after?, before?} → `Found`; `warm_up` {mode?}; `document`
{document_id} → title, path, text; `ping`; `shutdown`. BM25 and the encoder have a thread each, so that BM25 answers
while the encoder is still loading: answers may come in another order than questions, told apart by `id`.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterable
from typing import Any, TextIO

from engine.errors import EngineError, UsageError
from engine.project import ProjectFolder
from engine.search.filters import SearchFilter, parse_date
from engine.search.searcher import Searcher

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS, INTERNAL, ENGINE = -32700, -32600, -32601, -32602, -32603, -32000
Task = Callable[[Searcher], Any]


class Worker:
    """A thread with a searcher of its own that works off tasks in order."""

    def __init__(self, project: ProjectFolder) -> None:
        self._project = project
        self._tasks: queue.Queue[Callable[[Searcher], None] | None] = queue.Queue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        searcher = Searcher(self._project)
        while task := self._tasks.get():
            task(searcher)
        searcher.close()

    def put(self, task: Callable[[Searcher], None]) -> None:
        self._tasks.put(task)

    def finish(self) -> None:
        """Work off what was asked for, then end."""
        self._tasks.put(None)
        self._thread.join()


class Server:
    """Reads requests, hands them to workers, writes answers. One instance per process."""

    def __init__(self, project: ProjectFolder, output: TextIO) -> None:
        project.store().close()  # a damaged database is told at once, not at the first search
        self._output, self._lock = output, threading.Lock()
        self._lexical, self._semantic = Worker(project), Worker(project)

    def serve(self, lines: Iterable[str]) -> None:
        """Answer until the input ends or `shutdown` is asked for; then finish what was asked and return."""
        for line in lines:
            if line.strip() and not self._take(line):
                break
        self._lexical.finish()
        self._semantic.finish()

    def _take(self, line: str) -> bool:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            self._answer(None, error=(PARSE_ERROR, "not JSON", None))
            return True
        if not isinstance(request, dict) or request.get("jsonrpc") != "2.0" or not isinstance(request.get("method"), str):
            key = request.get("id") if isinstance(request, dict) else None
            self._answer(key, error=(INVALID_REQUEST, "not a JSON-RPC 2.0 request", None))
            return True
        key, method, params = request.get("id"), request["method"], request.get("params", {})
        if method == "shutdown":
            self._answer(key, result=True)
            return False
        self._dispatch(key, method, params)
        return True

    def _dispatch(self, key: Any, method: str, params: Any) -> None:
        try:
            if not isinstance(params, dict):
                raise TypeError("params must be an object")
            task = TASKS[method](**params)
        except KeyError:
            self._answer(key, error=(NO_METHOD, f"no method '{method}'", sorted(TASKS)))
        except (TypeError, ValueError) as error:
            self._answer(key, error=(INVALID_PARAMS, str(error), None))
        except EngineError as error:
            self._answer(key, error=(INVALID_PARAMS, error.what, error.as_dict()))
        else:
            light = method in ("ping", "document") or params.get("mode") == "bm25"
            (self._lexical if light else self._semantic).put(lambda searcher: self._run(key, task, searcher))

    def _run(self, key: Any, task: Task, searcher: Searcher) -> None:
        try:
            self._answer(key, result=task(searcher))
        except EngineError as error:
            self._answer(key, error=(ENGINE, error.what, error.as_dict()))
        except Exception as error:  # a fault in one answer must not end the server
            self._answer(key, error=(INTERNAL, f"{type(error).__name__}: {error}", None))

    def _answer(self, key: Any, result: Any = None, error: tuple[int, str, Any] | None = None) -> None:
        if key is None and error is None:
            return  # a notification wants no answer
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": key}
        if error:
            body["error"] = {"code": error[0], "message": error[1]} | ({"data": error[2]} if error[2] else {})
        else:
            body["result"] = result
        with self._lock:
            self._output.write(json.dumps(body, ensure_ascii=True) + "\n")
            self._output.flush()


def _search(
    query: str,
    mode: Any = None,
    top: int | None = None,
    paths: list[str] | None = None,
    formats: list[str] | None = None,
    after: str | None = None,
    before: str | None = None,
) -> Task:
    if not isinstance(query, str) or not (top is None or isinstance(top, int)):
        raise TypeError("query must be a string and top a whole number")
    where = SearchFilter(
        tuple(paths or ()), tuple(formats or ()), parse_date(after) if after else None, parse_date(before) if before else None
    )
    return lambda searcher: searcher.search(query, mode=mode, top=top, where=where).as_dict()


def _warm_up(mode: Any = "hybrid") -> Task:
    def task(searcher: Searcher) -> bool:
        searcher.warm_up(mode)
        return True

    return task


def _document(document_id: int) -> Task:
    def task(searcher: Searcher) -> dict[str, Any]:
        document = searcher.document(document_id)
        if document is None:
            raise UsageError(f"There is no document {document_id}.", "It may have been deleted.", "Search again.")
        return {"path": document.path, "source": document.source, "title": document.title, "text": document.text}

    return task


def _ping() -> Task:
    return lambda _searcher: "pong"


TASKS: dict[str, Callable[..., Task]] = {"search": _search, "warm_up": _warm_up, "document": _document, "ping": _ping}
