"""`engine serve --stdio`: JSON-RPC 2.0 on standard input and output, one message a line.

No port is opened.

Methods: those of `engine.core.messages.search`, `shutdown`, and those given as `extra`. There are
    three threads, so that
none waits for another's models: lexical (BM25, `document`, `ping`), semantic (all that needs the
encoder or may need the reranker) and other (`extra`). Each works in order; answers may come in
another order than requests, and carry their `id`.

Typing ahead: searches of one `series` (any text) replace each other. One that still waits in its
thread when a newer search of the same series comes to that thread is answered at once with the
error −32001, "superseded", and never done. A search under way is finished.

Requests are read from the start; heavy modules and the database are loaded by the first task that
needs them, whose answer is then the failure. An `extra` method is called with the params and gives
a task; TypeError and ValueError mean wrong params. An EngineError of a task is an error whose
`data` says what, why and what to do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TextIO, TypeVar

from engine.core.errors import EngineError
from engine.core.jsonrpc import INTERNAL, INVALID_PARAMS, NO_ANSWER, NO_METHOD, Answers
from engine.project.folder import ProjectFolder
from engine.search.methods import METHODS, is_light, task_of
from engine.search.workers import Job, OwnSearcher, Worker

ENGINE = -32000
SUPERSEDED = -32001
Extra = Mapping[str, Callable[..., Callable[[], Any]]]
Made = TypeVar("Made")


class Server:
    """Reads requests, hands them to workers, writes answers. One instance per process."""

    def __init__(self, project: ProjectFolder, output: TextIO, extra: Extra | None = None) -> None:
        self._reading = OwnSearcher(project)
        self._extra = dict(extra or {})
        self._answers = Answers(output)
        self.waiting: dict[tuple[str, bool], Ticket] = {}
        self._turns = threading.Lock()
        self._own = {light: OwnSearcher(project) for light in (True, False)}
        self._searching = {light: Worker(own.close) for light, own in self._own.items()}
        for light, own in self._own.items():
            own.is_wanted = self._searching[light].has_more
        self._other = Worker()

    def serve(self, lines: Iterable[str]) -> None:
        """Answer until the input ends, `shutdown` is asked for, or nobody reads; then finish
        what was asked and return.

        Of a text stream the bytes below are read: JSON is UTF-8 whatever the locale, and a bad byte
        spoils one line only.
        """
        source: Iterable[str | bytes] = getattr(lines, "buffer", lines)
        for line in source:
            if self._answers.unread or (line.strip() and not self._take(line)):
                break
        for worker in (*self._searching.values(), self._other):
            worker.finish()
        self._reading.close()

    def _take(self, line: str | bytes) -> bool:
        if (request := self._answers.request(line)) is None:
            return True
        key = request.get("id", NO_ANSWER)
        method = request["method"]
        params = request.get("params", {})
        if method == "shutdown":
            self._answers.give(key, result=True)
            return False
        self._dispatch(key, method, params)
        return True

    def _dispatch(self, key: Any, method: str, params: Any) -> None:
        if method in METHODS:
            if task := self._checked(key, partial(task_of, method), params):
                self._search_later(
                    key, task, is_light(method, params, self._reading), params.get("series")
                )
        elif method in self._extra:
            if extra_task := self._checked(key, lambda named: self._extra[method](**named), params):
                self._other.put(lambda: self._run(key, extra_task))
        else:
            self._answers.give(
                key,
                error=(
                    NO_METHOD,
                    f"no method '{method}'",
                    sorted([*METHODS, *self._extra, "shutdown"]),
                ),
            )

    def _checked(
        self, key: Any, factory: Callable[[dict[str, Any]], Made], params: Any
    ) -> Made | None:
        """The task that a method gives for the params; None when they are wrong, and that is
        answered.
        """
        try:
            if not isinstance(params, dict):
                raise TypeError("params must be an object")
            return factory(params)
        except (TypeError, ValueError) as error:
            self._answers.give(key, error=(INVALID_PARAMS, str(error), None))
        except EngineError as error:
            self._answers.give(key, error=(INVALID_PARAMS, error.what, error.as_dict()))
        except Exception as error:  # a fault in one method must not end the server
            self._answers.give(key, error=(INTERNAL, f"{type(error).__name__}: {error}", None))
        return None

    def _search_later(
        self, key: Any, task: Callable[[OwnSearcher], Any], light: bool, series: str | None
    ) -> None:
        own = self._own[light]

        def job() -> None:
            self._run(key, lambda: task(own))

        self._searching[light].put(
            job if series is None else self._in_series(Ticket(key), (series, light), job)
        )

    def _in_series(self, ticket: Ticket, series: tuple[str, bool], job: Job) -> Job:
        """`job`, unless a newer one of the series has come before its turn; the one that waits
        now is superseded.
        """
        with self._turns:
            former = self.waiting.get(series)
            self.waiting[series] = ticket
            if former is not None:
                former.superseded = True
        if former is not None:
            self._answers.give(former.key, error=(SUPERSEDED, "superseded", None))

        def in_turn() -> None:
            with self._turns:
                if ticket.superseded:
                    return
                del self.waiting[series]
            job()

        return in_turn

    def _run(self, key: Any, task: Callable[[], Any]) -> None:
        try:
            self._answers.give(key, result=task())
        except EngineError as error:
            self._answers.give(key, error=(ENGINE, error.what, error.as_dict()))
        except (
            BaseException
        ) as error:  # a fault in one answer, even a panic of native code, must not end the server
            self._answers.give(key, error=(INTERNAL, f"{type(error).__name__}: {error}", None))


class Ticket:
    """A search of a series that waits for its turn."""

    def __init__(self, key: Any) -> None:
        self.key = key
        self.superseded = False
