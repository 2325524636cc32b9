"""`engine serve --stdio`: JSON-RPC 2.0 on standard input and output, one message a line.

No port is opened. The class `Server` describes methods, threads and errors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any, TextIO, TypeVar

from engine.core.errors import EngineError
from engine.core.jsonrpc import INTERNAL, INVALID_PARAMS, NO_ANSWER, NO_METHOD, SUPERSEDED, Answers
from engine.core.messages.search import Search
from engine.core.messages.wire import Request
from engine.project.folder import ProjectFolder
from engine.search.methods import METHODS, answer, is_light, read_request
from engine.search.workers import Job, ThreadSearcher, Worker

ENGINE = -32000
"""Error code for an EngineError, whose `data` says more."""
Extra = Mapping[str, Callable[..., Callable[[], Any]]]
"""Name of a method → function from its params to a task."""
Parsed = TypeVar("Parsed")


class Server:
    """Reads requests, runs them in threads and writes answers. One instance per process.

    Methods: those of `engine.core.messages.search`, `shutdown`, and those given as `extra`. Three
    threads run them, so that no method waits for models that it does not need: lexical (BM25,
    `document`, `ping`), semantic (whatever needs the encoder or may need the reranker) and other
    (`extra`). Each thread works in order; answers carry the `id` of their request, as they may come
    in another order.

    Typing ahead: searches of one `series` (any text) replace each other. A search that still waits
    in its thread when a newer one of the same series arrives there is answered at once with the
    error −32001, "superseded". A search that has started is finished.

    Heavy modules and the database are loaded by the first task that needs them; if that fails, the
    task's answer is the error. An `extra` method is called with the params and returns a task;
    TypeError and ValueError mean invalid params. If a task raises EngineError, the `data` of its
    error says what, why and what to do.

    In the methods below, `key` is the `id` of a request.
    """

    def __init__(
        self,
        project: ProjectFolder,
        output: TextIO,
        extra: Extra | None = None,
    ) -> None:
        self._reading = ThreadSearcher(project)
        self._extra = dict(extra or {})
        self._answers = Answers(output)
        self.waiting: dict[tuple[str, bool], Ticket] = {}
        self._series_lock = threading.Lock()
        self._searchers = {light: ThreadSearcher(project) for light in (True, False)}
        self._searching: dict[bool, Worker] = {}
        for light, searcher in self._searchers.items():
            worker = Worker(searcher.close)
            searcher.has_waiting_task = worker.has_more
            self._searching[light] = worker
        self._other = Worker()

    def serve(self, lines: Iterable[str] | IO[bytes]) -> None:
        """Answer until the input ends, `shutdown` is requested or nobody reads the answers.

        Accepted requests are finished before this returns. A text stream is read through its binary
        buffer: JSON is UTF-8 whatever the locale, and an invalid byte spoils one line only.
        """
        source: Iterable[str | bytes] = getattr(lines, "buffer", lines)
        for line in source:
            if self._answers.unread:
                break
            if line.strip() and not self._accept(line):
                break
        for worker in (*self._searching.values(), self._other):
            worker.finish()
        self._reading.close()

    def _accept(self, line: str | bytes) -> bool:
        """Dispatch the request in a line; return False if it was `shutdown`."""
        # None if the line is no request, which is then answered with an error.
        request = self._answers.request(line)
        if request is None:
            return True
        key = request.get("id", NO_ANSWER)
        method = request["method"]
        params = request.get("params", {})
        if method == "shutdown":
            self._answers.give(key, result=True)
            return False
        self._dispatch(key, method, params)
        return True

    def _dispatch(
        self,
        key: Any,
        method: str,
        params: Any,
    ) -> None:
        """Queue a request for the thread of its method, or answer that its params are invalid."""
        if method in METHODS:
            request = self._read(
                key,
                lambda given: read_request(method, given),
                params,
            )
            if request:
                self._queue_search(key, request)
        elif method in self._extra:
            build = self._extra[method]
            task = self._read(
                key,
                lambda given: build(**given),
                params,
            )
            if task:
                self._other.put(lambda: self._run(key, task))
        else:
            methods = sorted([*METHODS, *self._extra, "shutdown"])
            self._answers.give(key, error=(NO_METHOD, f"no method '{method}'", methods))

    def _read(
        self, key: Any, read: Callable[[dict[str, Any]], Parsed], params: Any
    ) -> Parsed | None:
        """Return what `read` makes of params; if they are invalid, answer so and return None."""
        try:
            if not isinstance(params, dict):
                raise TypeError("params must be an object")
            return read(params)
        except (TypeError, ValueError) as error:
            self._answers.give(key, error=(INVALID_PARAMS, str(error), None))
        except Exception as error:  # a fault in one method must not end the server
            self._give_error(key, error, INVALID_PARAMS)
        return None

    def _queue_search(self, key: Any, request: Request[Any]) -> None:
        """Queue a request for the lexical thread if it is light, else for the semantic one."""
        light = is_light(request, self._reading)
        searcher = self._searchers[light]

        def job() -> None:
            self._run(key, lambda: answer(searcher, request))

        if isinstance(request, Search) and request.series is not None:
            job = self._add_to_series(
                Ticket(key),
                (request.series, light),
                job,
            )
        self._searching[light].put(job)

    def _add_to_series(
        self,
        ticket: Ticket,
        series: tuple[str, bool],
        job: Job,
    ) -> Job:
        """Return a job that runs `job` unless a newer search of its series arrives first.

        `series`: the name of the series, and whether its searches are light. An older search of the
        series that still waits is answered as superseded.
        """
        with self._series_lock:
            former = self.waiting.get(series)
            self.waiting[series] = ticket
            if former is not None:
                former.superseded = True
        if former is not None:
            self._answers.give(former.key, error=(SUPERSEDED, "superseded", None))

        def run_unless_superseded() -> None:
            with self._series_lock:
                if ticket.superseded:
                    return
                del self.waiting[series]
            job()

        return run_unless_superseded

    def _run(self, key: Any, task: Callable[[], Any]) -> None:
        """Run a task, and answer with its result or its error."""
        try:
            self._answers.give(key, result=task())
        except BaseException as error:  # not even a panic of native code may end the server
            self._give_error(key, error, ENGINE)

    def _give_error(
        self,
        key: Any,
        error: BaseException,
        code: int,
    ) -> None:
        """Answer with `code` for an EngineError, and as an internal error for any other."""
        if isinstance(error, EngineError):
            self._answers.give(key, error=(code, error.what, error.as_dict()))
        else:
            fault = f"{type(error).__name__}: {error}"
            self._answers.give(key, error=(INTERNAL, fault, None))


class Ticket:
    """A search of a series that is waiting for its turn."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.superseded = False
