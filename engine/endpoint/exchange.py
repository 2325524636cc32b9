"""One request to a server and its answer, in a thread that can be abandoned at any time."""

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

MAX_ANSWER_SIZE = 4_000_000  # Bytes.


class ExchangeError(Exception):
    """A missing answer; the text says why.

    `lasting`: another try would fail too. `pause`: seconds for which the server wants to be left
    alone.
    """

    def __init__(self, reason: str, lasting: bool = False, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.lasting = lasting
        self.pause = pause


@dataclass(frozen=True, slots=True)
class Response:
    """Status and body of an HTTP answer.

    `location`: where a redirect points. `retry_after`: in seconds, or 0.
    """

    status: int
    body: bytes
    location: str = ""
    retry_after: float = 0.0


class Exchange(threading.Thread):
    """One request and its answer; `abandon` ends it from outside.

    Without a `body` it is a GET of `path`, else a POST. `sending` is called before a body is sent,
    once the server is connected; what it raises prevents the sending. `key`: sent only if the
    address `keeps_secret`. `limit`: largest answer in bytes. `received`: the bytes so far.
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
        self._result: Response | Exception = ExchangeError("no answer")

    def run(self) -> None:
        """Send the request, and wait for its answer."""
        try:
            self._result = self._send_and_receive()
        except (EngineError, ExchangeError) as error:
            self._result = error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._result = ExchangeError(_describe(error))
        finally:
            self.done.set()
            if self._connection is not None:
                self._connection.close()

    def result(self) -> Response:
        """Return the answer, once `done` is set.

        Raises ExchangeError if there is none, SettingsError as `Address.connect`.
        """
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def abandon(self) -> None:
        """Shut the socket down, which ends whatever the thread waits for."""
        self._abandoned = True
        if self._connection is not None and self._connection.sock is not None:
            with suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)

    def _send_and_receive(self) -> Response:
        # The caller, who waits for `done`, ends the exchange earlier.
        self._connection = self._address.connect(self._seconds + CONNECT_SECONDS)
        if self._abandoned:
            raise ExchangeError("no longer wanted")
        if self._body is not None:
            self._sending()
        accepted = "application/json, text/event-stream"
        headers = {"Content-Type": "application/json", "Accept": accepted, "Connection": "close"}
        if self._key and self._address.keeps_secret(self._connection.sock.getpeername()[0]):
            headers["Authorization"] = f"Bearer {self._key}"
        method = "GET" if self._body is None else "POST"
        self._connection.request(method, self._path, self._body, headers)
        answer = self._connection.getresponse()
        while len(self.received) <= self._limit:
            part = answer.read1(1 << 16)
            if not part:
                break
            self.received += part
        if len(self.received) > self._limit:
            megabytes = self._limit // 1_000_000
            raise ExchangeError(f"the answer is larger than {megabytes} MB", lasting=True)
        # Bytes that were announced did not come.
        if answer.length:
            raise ExchangeError("the connection broke off")
        location = answer.getheader("Location") or ""
        pause = _parse_retry_after(answer.getheader("Retry-After") or "")
        return Response(answer.status, bytes(self.received), location, pause)


def _parse_retry_after(retry_after: str) -> float:
    """Return the seconds of a header that holds seconds or a date; 0 for neither."""
    if retry_after.isdecimal():
        return float(retry_after)
    # A date without a time zone is a TypeError.
    with suppress(ValueError, TypeError):
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    return 0.0


def _describe(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the connection timed out"
    interrupted = (
        http.client.IncompleteRead,
        http.client.RemoteDisconnected,
        ConnectionResetError,
    )
    if isinstance(error, interrupted):
        return "the connection broke off"
    if isinstance(error, http.client.HTTPException):
        return f"what it sends is not HTTP ({type(error).__name__})"
    return str(getattr(error, "strerror", None) or error).lower() or type(error).__name__
