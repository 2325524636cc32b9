"""A request to a server of models, sent again where its answer is lost, after a pause that
doubles.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from engine.core.errors import ModelError, StageError
from engine.endpoint.address import KEY_HINT, Address
from engine.endpoint.exchange import Exchange, ExchangeError, Response

TRIES = 5
PAUSE_SECONDS = 0.5  # before the second try; twice as long before each further one
POLL_SECONDS = 0.05
MAX_ANSWER_SIZE = 100_000_000  # bytes
_REFUSED = frozenset({400, 401, 403, 404, 405, 413, 422})
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """`path`: of its method, below the address.

    `kind`: what errors call it, as in "embedding server". `seconds`: limit of a request, which the
    setting `limit` names. `advice` and `smaller`: what to do where it gives no answer, or refuses a
    request.
    """

    address: Address
    path: str
    key: str
    kind: str
    seconds: float
    limit: str
    advice: str = ""
    smaller: str = ""

    def ask(
        self,
        request: dict[str, Any],
        read: Callable[[bytes], Answer],
        waiting: Callable[[], object] = lambda: None,
        within: float = inf,
    ) -> Answer:
        """What `read` makes of the answer to a request; where it raises ExchangeError, that is
        sent again. `waiting` is called again and again, and may raise. `within`: seconds for all
        tries together.

        Raises ModelError where the server refuses the request, StageError where it gives no answer.
        """
        body = json.dumps(request).encode()
        reason = ""
        pause = 0.0
        until = time.monotonic() + within
        for attempt in range(TRIES):
            if attempt:
                pause = max(pause, PAUSE_SECONDS * 2 ** (attempt - 1))
                if time.monotonic() + pause >= until:
                    break
                _wait(pause, threading.Event(), waiting)
            tried = attempt + 1
            try:
                return read(self._accepted(self._response(body, until - time.monotonic(), waiting)))
            except ExchangeError as error:
                reason = f"{error}"
                pause = min(error.pause, self.seconds)
                if error.lasting:
                    break
        raise StageError(
            f"The {self.kind} {self.address.url} gave no answer.",
            f"It was tried {tried} time{'s' if tried > 1 else ''}. Last reason: {reason}.",
            f"Check that it runs and that {self.address.setting} names it{self.advice}.",
            code="endpoint-no-answer",
            command="run",
        )

    def _response(self, body: bytes, left: float, waiting: Callable[[], object]) -> Response:
        seconds = min(self.seconds, left)
        exchange = Exchange(
            self.address,
            body,
            seconds,
            self.key,
            f"{self.address.path}/{self.path}",
            limit=MAX_ANSWER_SIZE,
        )
        exchange.start()
        try:
            if not _wait(seconds, exchange.done, waiting):
                raise ExchangeError(f"no answer within {seconds:.2g} s ({self.limit})")
        finally:
            exchange.abandon()
        return exchange.result()

    def _accepted(self, response: Response) -> bytes:
        """What a server says of a failure is not shown: it may repeat what it was sent."""
        if response.status in _REFUSED or 300 <= response.status < 400:
            setting = self.address.setting
            raise ModelError(
                f"The {self.kind} refuses the request (HTTP {response.status}).",
                "A redirect is not followed." if response.location else "Its log says why.",
                f"Check {setting}, {setting}_model and, if it needs a key,"
                f" {KEY_HINT}{self.smaller}",
                code="endpoint-refused",
            )
        if response.status != 200:
            raise ExchangeError(f"HTTP {response.status}", pause=response.retry_after)
        return response.body


def _wait(seconds: float, done: threading.Event, waiting: Callable[[], object]) -> bool:
    """Whether `done` was set within so many seconds."""
    until = time.monotonic() + seconds
    while not done.wait(min(POLL_SECONDS, max(0.0, until - time.monotonic()))):
        waiting()
        if time.monotonic() >= until:
            return False
    return True
