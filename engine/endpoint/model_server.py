"""A request to a model server, repeated with growing pauses if its answer is lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from engine.core.errors import ModelError, StageError
from engine.core.text import format_count
from engine.endpoint.address import KEY_HINT
from engine.endpoint.client import POLL_SECONDS, Client, NoAnswerError, Response, do_nothing

TRIES = 5
PAUSE_SECONDS = 0.5  # Before the second try; it doubles before each further one.
MAX_ANSWER_SIZE = 100_000_000  # Bytes.
_REFUSED = frozenset({400, 401, 403, 404, 405, 413, 422})
"""HTTP statuses with which another try would fail, too."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """A server and how to ask it."""

    client: Client
    path: str
    """Path of the method below the address, such as `embeddings`."""
    kind: str
    """Name of the server in errors, such as "embedding server"."""
    seconds: float
    """Time limit of a request."""
    limit: str
    """The setting that has this time limit, for errors."""
    advice: str = ""
    """What else to do if the server gives no answer, as the end of a sentence."""
    smaller: str = ""
    """What else to do if the server refuses a request, as a sentence after a space."""

    def ask(
        self,
        request: dict[str, Any],
        read: Callable[[bytes], Answer],
        waiting: Callable[[], object] = do_nothing,
        within: float = inf,
    ) -> Answer:
        """Return what `read` makes of the answer to a request.

        If `read` raises NoAnswerError, the request is sent again. `waiting` is called repeatedly,
        and may raise. `within`: seconds for all tries together. Raises ModelError if the server
        refuses the request, StageError if it gives no answer.
        """
        address = self.client.address
        reason = ""
        wanted_pause = 0.0  # by the server
        deadline = time.monotonic() + within
        for attempt in range(TRIES):
            if attempt:
                pause = max(wanted_pause, PAUSE_SECONDS * 2 ** (attempt - 1))
                if time.monotonic() + pause >= deadline:
                    break
                _wait(pause, waiting)
            tried = attempt + 1
            try:
                response = self.client.send(
                    f"{address.path}/{self.path}",
                    request,
                    seconds=min(self.seconds, deadline - time.monotonic()),
                    limit=self.limit,
                    check=waiting,
                    max_size=MAX_ANSWER_SIZE,
                )
                return read(self._read_body(response))
            except NoAnswerError as error:
                reason = f"{error}"
                wanted_pause = min(error.pause, self.seconds)
                if error.lasting:
                    break
        raise StageError(
            f"The {self.kind} {address.url} gave no answer.",
            f"It was tried {format_count(tried, 'time')}. Last reason: {reason}.",
            f"Check that it runs and that {address.setting} names it{self.advice}.",
            code="endpoint-no-answer",
            command="run",
        )

    def _read_body(self, response: Response) -> bytes:
        """Return the body of a successful response.

        A server's own error message is not shown: it may repeat what it was sent.
        """
        if response.status in _REFUSED or 300 <= response.status < 400:
            setting = self.client.address.setting
            raise ModelError(
                f"The {self.kind} refuses the request (HTTP {response.status}).",
                "A redirect is not followed." if response.location else "Its log says why.",
                f"Check {setting}, {setting}_model and, if it needs a key,"
                f" {KEY_HINT}{self.smaller}",
                code="endpoint-refused",
            )
        if response.status != 200:
            raise NoAnswerError(f"HTTP {response.status}", pause=response.retry_after)
        return response.body


def _wait(seconds: float, waiting: Callable[[], object]) -> None:
    """Sleep, and call `waiting` many times a second."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(POLL_SECONDS, left))
        waiting()
