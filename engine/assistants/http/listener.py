"""HTTP/1.1 on a loopback address, with one connection and thread per request and strict limits.

h11 parses and writes the protocol. A request is refused before its body is read if `Host` or
`Origin` shows that a web page sends it (DNS rebinding), or if it lacks the token. Bodies need a
Content-Length, so that their length cannot be read in two ways.
"""

from __future__ import annotations

import hmac
import json
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import h11

from engine.core.errors import UsageError, reason_of

MAX_HEAD = 16_384
"""Maximum size of a request's head in bytes."""
MAX_BODY = 16_000_000
"""Maximum size of a request's body in bytes."""
SEND_SECONDS = 60.0
"""Time limit for a whole answer."""
POLL_SECONDS = 0.5
"""Interval at which the listener checks whether to stop."""
LINGER_SECONDS = 1.0
"""How long to go on reading what a refused client sends.

Otherwise the system would reset the connection, and the client would not get the answer.
"""
MAX_LINGER = 1_000_000
"""Maximum number of bytes that are read then."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request with its body."""

    method: str
    path: str
    """The path as it was sent, without a query string."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer whose body is `data` as JSON."""

    status: int
    data: Any
    headers: Mapping[str, str] | None = None


class Refused(Exception):
    """The request is refused with an `answer`."""

    def __init__(
        self,
        status: int,
        code: str,
        what: str,
        **headers: str,
    ) -> None:
        super().__init__(code)
        self.answer = Answer(
            status,
            error_body(status, code, what),
            headers,
        )


def error_body(
    status: int,
    code: str,
    what: str,
) -> dict[str, Any]:
    """Return an error in the form that clients of OpenAI's API expect."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": what, "type": kind, "param": None, "code": code}}


def loopback_address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as `127.0.0.1:80`, `localhost:80` or `[::1]:80`.

    Port 0 means any free port. Raises UsageError for an address that is invalid or not loopback.
    """
    host, _, port = text.rpartition(":")
    if host == "localhost":
        host = "127.0.0.1"
    else:
        host = host.removeprefix("[").removesuffix("]")
    number = -1
    is_loopback = True
    try:
        is_loopback = ip_address(host).is_loopback
        if port.isascii() and port.isdigit():
            number = int(port)
    except ValueError:
        pass  # the host is no IP address, which is reported like a missing port
    if not 0 <= number < 65_536:
        raise UsageError(
            f"'{text}' is not an address with a port.",
            "",
            "Write it like 127.0.0.1:8765.",
            code="address-invalid",
        )
    if not is_loopback:
        raise UsageError(
            f"{host} is not a loopback address.",
            "Other machines could search the documents.",
            "Use 127.0.0.1 instead.",
            code="address-not-loopback",
        )
    return host, number


class Listener:
    """A listening socket with its `url`; `respond` answers requests that have the `token`.

    `head_seconds`, `body_seconds`: time limits for the whole head and the whole body of a request.
    Raises UsageError if the port is not available.
    """

    def __init__(
        self,
        address: tuple[str, int],
        token: str,
        respond: Callable[[Request], Answer],
        *,
        max_connections: int = 32,
        head_seconds: float = 3.0,
        body_seconds: float = 60.0,
    ) -> None:
        self.head_seconds = head_seconds
        self.body_seconds = body_seconds
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            self._socket = socket.create_server(
                address,
                family=family,
                backlog=max_connections,
            )
        except OSError as error:
            raise UsageError(
                f"Port {address[1]} cannot be used.",
                reason_of(error),
                "Choose another port.",
                code="port-unavailable",
            ) from None
        self._socket.settimeout(POLL_SECONDS)
        self.respond = respond
        self.token = token.encode()
        host, self.port = self._socket.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        self.url = f"http://{host}:{self.port}"
        names = (host, "localhost", "127.0.0.1", "[::1]")
        self.hosts = frozenset(f"{name}:{self.port}".encode() for name in names)
        self.origins = frozenset(b"http://" + name for name in self.hosts)
        self._free_places = threading.BoundedSemaphore(max_connections)

    def serve(self, stop: threading.Event) -> None:
        """Answer until `stop` is set. At most `max_connections` clients are served at once."""
        with self._socket:
            while not stop.is_set():
                if not self._free_places.acquire(timeout=POLL_SECONDS):
                    continue
                try:
                    client, _ = self._socket.accept()
                except OSError:  # no client came, or it has left already
                    self._free_places.release()
                    continue
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        """Answer a client in its own thread, and let the next one in."""
        try:
            with client, suppress(OSError):
                _Connection(self, client).answer()
        finally:
            self._free_places.release()


class _Connection:
    """The connection of a client, for a single request."""

    def __init__(self, listener: Listener, client: socket.socket) -> None:
        self._listener = listener
        self._client = client
        self._has_data = False
        self._deadline = time.monotonic() + listener.head_seconds
        self._http = h11.Connection(h11.SERVER, MAX_HEAD)

    def answer(self) -> None:
        """Read a request and answer it. Raises OSError if the client is gone."""
        without_body = False
        try:
            head = self._wait_for_event()
            if not isinstance(head, h11.Request):
                return
            without_body = head.method == b"HEAD"
            answer = self._listener.respond(self._read_request(head))
            self._send(answer, without_body=without_body)
        except Refused as refused:
            self._refuse(refused, without_body=without_body)
        except h11.RemoteProtocolError as error:
            what = "This is not a valid HTTP request."
            self._refuse(Refused(error.error_status_hint, "request-malformed", what))
        except TimeoutError:
            if self._has_data:
                what = "The request took too long to arrive."
                self._refuse(Refused(408, "request-too-slow", what))

    def _refuse(self, refused: Refused, *, without_body: bool = False) -> None:
        """Send the answer, then read on (see `LINGER_SECONDS`), so that the client gets it."""
        with suppress(h11.LocalProtocolError):  # an answer has been sent in part
            self._send(refused.answer, without_body=without_body)
        self._client.shutdown(socket.SHUT_WR)
        self._deadline = time.monotonic() + LINGER_SECONDS
        received = 0
        while received < MAX_LINGER:
            data = self._receive()
            if not data:
                break
            received += len(data)

    def _wait_for_event(self) -> Any:
        """Return h11's next event of the request, once enough bytes have come."""
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            data = self._receive()
            if data:
                self._has_data = True
            self._http.receive_data(data)

    def _receive(self) -> bytes:
        """Return the next bytes, empty at the end. Raises TimeoutError after the deadline."""
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._client.settimeout(remaining)
        return self._client.recv(8_192)

    def _read_request(self, head: h11.Request) -> Request:
        """Check the head of a request, and read its body. Raises Refused."""
        self._check(head)
        self._deadline = time.monotonic() + self._listener.body_seconds
        if self._http.they_are_waiting_for_100_continue:
            self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        body = bytearray()
        event = self._wait_for_event()
        while isinstance(event, h11.Data):
            body += event.data
            event = self._wait_for_event()
        path = head.target.decode("ascii").partition("?")[0]
        return Request(
            head.method.decode("ascii"),
            path,
            bytes(body),
        )

    def _check(self, head: h11.Request) -> None:
        """Check everything in the head of a request but its path. Raises Refused."""
        # h11 returns the names of headers in lower case.
        headers: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for name, value in head.headers:
            headers[name].append(value)
        hosts = [value.lower() for value in headers[b"host"]]
        if len(hosts) != 1 or hosts[0] not in self._listener.hosts:
            raise Refused(421, "host-foreign", "The Host header does not name this server.")
        origins = {value.lower() for value in headers[b"origin"]}
        if not origins <= self._listener.origins:
            raise Refused(403, "origin-foreign", "Web pages cannot use this server.")
        scheme, _, token = b",".join(headers[b"authorization"]).partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(token, self._listener.token):
            what = "The token is missing or wrong: send it as Authorization: Bearer TOKEN."
            raise Refused(
                401,
                "token-wrong",
                what,
                **{"WWW-Authenticate": "Bearer"},
            )
        if headers[b"transfer-encoding"]:
            what = "Send the body with a Content-Length, not in chunks."
            raise Refused(411, "length-missing", what)
        lengths = headers[b"content-length"]
        if lengths and int(lengths[0]) > MAX_BODY:
            raise Refused(
                413,
                "request-too-large",
                f"The body is larger than {MAX_BODY:,} bytes.",
            )
        if not head.target.startswith(b"/"):
            raise Refused(400, "request-malformed", "The target of the request must be a path.")

    def _send(self, answer: Answer, *, without_body: bool) -> None:
        """Send an answer; `without_body`: only the head, as HEAD requests."""
        data = json.dumps(answer.data).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
            *(answer.headers or {}).items(),
        ]
        events: list[Any] = [h11.Response(status_code=answer.status, headers=headers)]
        if not without_body:
            events.append(h11.Data(data=data))
        events.append(h11.EndOfMessage())
        self._write(b"".join(self._http.send(event) or b"" for event in events))

    def _write(self, data: bytes | None) -> None:
        """Send bytes to the client. Raises OSError."""
        self._client.settimeout(SEND_SECONDS)
        self._client.sendall(data or b"")
