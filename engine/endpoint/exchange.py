"""One request to a server and its answer, in a thread of its own, which can be let go of at any
moment.
"""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from engine.core.errors import EngineError
from engine.endpoint.address import CONNECT_SECONDS, Address

MAX_ANSWER_SIZE = 4_000_000  # bytes of an answer


class ExchangeError(Exception):
    """No answer; the text says why.

    `lasting`: another try would bring none either. `pause`: seconds that the server wants to be
    left alone.
    """

    def __init__(self, reason: str, lasting: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.pause = pause


@dataclass(frozen=True, slots=True)
class Response:
    """Status and body of an HTTP answer; `location` where it points elsewhere; `retry_after` in
    seconds, or 0.
    """

    status: int
    body: bytes
    location: str = ""
    retry_after: float = 0.0


class Exchange(threading.Thread):
    """One request and its answer.

    `abandon` ends it from outside. Without a `body` it is a look at `path`, else a message.

    `sending` is called before a body is sent, once the server is there and may be asked; what it
    raises keeps the body back.
    `key`: sent only where it `keeps_secret`. `limit`: bytes of an answer, at most. `received`:
        those that have come so far.
    """

    def __init__(
        self,
        address: Address,
        body: bytes | None,
        seconds: float,
        key: str = "",
        path: str = "",
        sending: Callable[[], None] = lambda: None,
        limit: int = MAX_ANSWER_SIZE,
    ) -> None:
        super().__init__(name="endpoint", daemon=True)
        self.done = threading.Event()
        self._address = address
        self._body = body
        self._seconds = seconds
        self._key = key
        self._sending = sending
        self._limit = limit
        self._path = path or f"{address.path}/chat/completions"
        self._connection: http.client.HTTPConnection | None = None
        self._abandoned = False
        self.received = bytearray()
        self._found: Response | Exception = ExchangeError("no answer")

    def run(self) -> None:
        """Send the request, and wait for its answer."""
        try:
            self._found = self._talk()
        except (EngineError, ExchangeError) as error:
            self._found = error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._found = ExchangeError(_plain(error))
        finally:
            self.done.set()
            if self._connection is not None:
                self._connection.close()

    def result(self) -> Response:
        """The answer, once `done` is set.

        Raises ExchangeError where there is none, SettingsError as `Address.connect`.
        """
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def abandon(self) -> None:
        """Let go of the socket: whatever the thread waits for ends."""
        self._abandoned = True
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def _talk(self) -> Response:
        self._connection = self._address.connect(
            self._seconds + CONNECT_SECONDS
        )  # who waits for us has the say
        if self._abandoned:
            raise ExchangeError("no longer wanted")
        if self._body is not None:
            self._sending()
        accepted = "application/json, text/event-stream"
        headers = {"Content-Type": "application/json", "Accept": accepted, "Connection": "close"}
        if self._key and self._address.keeps_secret(self._connection.sock.getpeername()[0]):
            headers["Authorization"] = f"Bearer {self._key}"
        self._connection.request(
            "GET" if self._body is None else "POST", self._path, self._body, headers
        )
        answer = self._connection.getresponse()
        while len(self.received) <= self._limit and (part := answer.read1(1 << 16)):
            self.received += part
        if len(self.received) > self._limit:
            raise ExchangeError(
                f"the answer is larger than {self._limit // 1_000_000} MB", lasting=True
            )
        if answer.length:  # bytes that were announced and did not come
            raise ExchangeError("the connection broke off")
        pause = _seconds(answer.getheader("Retry-After") or "")
        return Response(
            answer.status, bytes(self.received), answer.getheader("Location") or "", pause
        )


def _seconds(retry_after: str) -> float:
    """Of a header that holds seconds or a date; 0 for neither."""
    if retry_after.isdecimal():
        return float(retry_after)
    with suppress(ValueError, TypeError):  # a date without its zone
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    return 0.0


def _plain(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the connection timed out"
    if isinstance(
        error, http.client.IncompleteRead | http.client.RemoteDisconnected | ConnectionResetError
    ):
        return "the connection broke off"
    if isinstance(error, http.client.HTTPException):
        return f"what it sends is not HTTP ({type(error).__name__})"
    return str(getattr(error, "strerror", None) or error).lower() or type(error).__name__
