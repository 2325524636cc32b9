"""HTTP/1.1 on a loopback address: a connection and a thread for each request, and a limit to
everything. h11 parses and writes the protocol.

A request is refused before its body is read where `Host` or `Origin` shows that a web page sends it
(DNS rebinding), and where it has not the token. Bodies of unknown length are not taken: so no
length can be read in two ways.
"""

from __future__ import annotations

import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any

import h11

from engine.core.errors import UsageError, reason_of

MAX_CONNECTIONS = 32
MAX_HEAD = 16_384  # bytes
MAX_BODY = 16_000_000
HEAD_SECONDS = 3.0  # for a whole head, body or answer
BODY_SECONDS = 60.0
SEND_SECONDS = 60.0
GLANCE_SECONDS = 0.5  # between two looks at whether to stop
LINGER_SECONDS = 1.0  # what a refused client still sends is read, or it would not get the answer
MAX_LINGER = 1_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """`path` as it was sent, without a query."""

    method: str
    path: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """`data`: what the body says, as JSON."""

    status: int
    data: Any
    headers: Mapping[str, str] | None = None


class Refused(Exception):
    """The client gets this answer."""

    def __init__(self, status: int, code: str, what: str, **headers: str) -> None:
        super().__init__(code)
        self.answer = Answer(status, error_body(status, code, what), headers)


def error_body(status: int, code: str, what: str) -> dict[str, Any]:
    """An error as clients of OpenAI's API expect it."""
    if status < 500:
        kind = "invalid_request_error"
    else:
        kind = "server_error"
    return {"error": {"message": what, "type": kind, "param": None, "code": code}}


def loopback_address(text: str) -> tuple[str, int]:
    """Host and port of `127.0.0.1:8080`, `localhost:8080` or `[::1]:8080`.

    Port 0: any that is free. Raises UsageError.
    """
    host, _, port = text.rpartition(":")
    if host == "localhost":
        host = "127.0.0.1"
    else:
        host = host.removeprefix("[").removesuffix("]")
    try:
        loopback = ip_address(host).is_loopback
        if port.isascii() and port.isdigit():
            number = int(port)
        else:
            number = -1
    except ValueError:
        loopback = True
        number = -1
    if not 0 <= number < 65_536:
        raise UsageError(
            f"'{text}' is not an address with a port.",
            "",
            "Write it like 127.0.0.1:8765.",
            code="address-invalid",
        )
    if not loopback:
        raise UsageError(
            f"{host} is not a loopback address.",
            "Other machines could search the documents.",
            "Use 127.0.0.1 instead.",
            code="address-not-loopback",
        )
    return host, number


class Listener:
    """A socket that listens. `url`: of its address. Raises UsageError where the port is taken."""

    def __init__(
        self, address: tuple[str, int], token: str, respond: Callable[[Request], Answer]
    ) -> None:
        if ":" in address[0]:
            family = socket.AF_INET6
        else:
            family = socket.AF_INET
        try:
            self._socket = socket.create_server(address, family=family, backlog=MAX_CONNECTIONS)
        except OSError as error:
            raise UsageError(
                f"Port {address[1]} cannot be used.",
                reason_of(error),
                "Choose another port.",
                code="port-unavailable",
            ) from None
        self._socket.settimeout(GLANCE_SECONDS)
        self.respond = respond
        self.token = token.encode()
        host, self.port = self._socket.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        self.url = f"http://{host}:{self.port}"
        names = (host, "localhost", "127.0.0.1", "[::1]")
        self.hosts = frozenset(f"{name}:{self.port}".encode() for name in names)
        self.origins = frozenset(b"http://" + one for one in self.hosts)
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)

    def serve(self, stop: threading.Event) -> None:
        """Answer until `stop` is set. Clients beyond `MAX_CONNECTIONS` wait for their turn."""
        with self._socket:
            while not stop.is_set():
                if not self._free.acquire(timeout=GLANCE_SECONDS):
                    continue
                try:
                    client, _ = self._socket.accept()
                except OSError:  # none came, or one that is gone already
                    self._free.release()
                    continue
                threading.Thread(target=self._talk, args=(client,), daemon=True).start()

    def _talk(self, client: socket.socket) -> None:
        try:
            with client, suppress(OSError):
                _Conversation(self, client).hold()
        finally:
            self._free.release()


class _Conversation:
    def __init__(self, listener: Listener, client: socket.socket) -> None:
        self._listener = listener
        self._client = client
        self._begun = False
        self._until = time.monotonic() + HEAD_SECONDS
        self._http = h11.Connection(h11.SERVER, MAX_HEAD)

    def hold(self) -> None:
        """Answer a request. Raises OSError where the client is gone."""
        head = None
        try:
            head = self._event()
            if isinstance(head, h11.Request):
                self._send(self._listener.respond(self._request(head)), bare=head.method == b"HEAD")
        except Refused as refused:
            self.refuse(refused, bare=isinstance(head, h11.Request) and head.method == b"HEAD")
        except h11.RemoteProtocolError as error:
            self.refuse(
                Refused(
                    error.error_status_hint,
                    "request-malformed",
                    "This is not a valid HTTP request.",
                )
            )
        except TimeoutError:
            if self._begun:
                self.refuse(
                    Refused(408, "request-too-slow", "The request took too long to arrive.")
                )

    def refuse(self, refused: Refused, *, bare: bool = False) -> None:
        """Answer, and let the client read that although it may still be sending."""
        with suppress(h11.LocalProtocolError):  # half an answer was given
            self._send(refused.answer, bare=bare)
        self._client.shutdown(socket.SHUT_WR)
        self._until = time.monotonic() + LINGER_SECONDS
        room = MAX_LINGER
        while room > 0 and (data := self._received()):
            room -= len(data)

    def _event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            data = self._received()
            self._begun = self._begun or bool(data)
            self._http.receive_data(data)
        return event

    def _received(self) -> bytes:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._client.settimeout(left)
        return self._client.recv(8_192)

    def _request(self, head: h11.Request) -> Request:
        """With its body, where it may be asked. Raises Refused."""
        self._check(head)
        self._until = time.monotonic() + BODY_SECONDS
        if self._http.they_are_waiting_for_100_continue:
            self._write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
        body = bytearray()
        while isinstance(event := self._event(), h11.Data):
            body += event.data
        path = head.target.decode("ascii").partition("?")[0]
        return Request(head.method.decode("ascii"), path, bytes(body))

    def _check(self, head: h11.Request) -> None:
        fields: dict[bytes, list[bytes]] = {}
        for name, value in head.headers:
            fields.setdefault(name, []).append(value)
        ours = self._listener
        found = fields.get
        if [one.lower() for one in found(b"host", [])] not in [[one] for one in ours.hosts]:
            raise Refused(421, "host-foreign", "The Host header does not name this server.")
        if not {one.lower() for one in found(b"origin", [])} <= ours.origins:
            raise Refused(403, "origin-foreign", "Web pages cannot use this server.")
        scheme, _, sent = b",".join(found(b"authorization", [])).partition(b" ")
        if scheme.lower() != b"bearer" or not hmac.compare_digest(sent, ours.token):
            text = "The token is missing or wrong: send it as Authorization: Bearer TOKEN."
            raise Refused(401, "token-wrong", text, **{"WWW-Authenticate": "Bearer"})
        if b"transfer-encoding" in fields:
            raise Refused(
                411, "length-missing", "Send the body with a Content-Length, not in chunks."
            )
        if int(found(b"content-length", [b"0"])[0]) > MAX_BODY:
            raise Refused(413, "request-too-large", f"The body is larger than {MAX_BODY:,} bytes.")
        if not head.target.startswith(b"/"):
            raise Refused(400, "request-malformed", "The target of the request must be a path.")

    def _send(self, answer: Answer, *, bare: bool) -> None:
        data = json.dumps(answer.data).encode()
        headers = [
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
            *(answer.headers or {}).items(),
        ]
        events = (
            h11.Response(status_code=answer.status, headers=headers),
            *(() if bare else (h11.Data(data=data),)),
        )
        self._write(b"".join(self._http.send(one) or b"" for one in (*events, h11.EndOfMessage())))

    def _write(self, data: bytes | None) -> None:
        self._client.settimeout(SEND_SECONDS)
        self._client.sendall(data or b"")
