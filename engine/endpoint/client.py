"""HTTP requests to a model server, which can be given up at any time."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

import httpx

from engine.core.platforms.sockets import describe_socket_error
from engine.endpoint.address import Address

CONNECT_SECONDS = 10.0  # Limit of a connection.
POLL_SECONDS = 0.05  # Between two calls of the callbacks of a request.
MAX_ANSWER_SIZE = 4_000_000  # Bytes.
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",
    "Connection": "close",
    "User-Agent": "bmembed-tui",
}


class NoAnswerError(Exception):
    """A missing answer; the text says why.

    `lasting`: another try would fail too. `pause`: seconds for which the server wants to be left
    alone.
    """

    def __init__(
        self,
        reason: str,
        lasting: bool = False,
        pause: float = 0.0,
    ) -> None:
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


def do_nothing(*_: object) -> None:
    """Ignore the arguments."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client of one server. Every request has a connection of its own.

    `key`: sent only if the address `keeps_secret`. `note`: called before text is sent, once the
    server is connected; what it raises prevents the sending.
    """

    address: Address
    key: str = ""
    note: Callable[[], object] = do_nothing

    def send(
        self,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        seconds: float,
        limit: str = "",
        check: Callable[[], object] = do_nothing,
        hear: Callable[[bytes], object] | None = None,
        max_size: int = MAX_ANSWER_SIZE,
    ) -> Response:
        """Return the response to a POST of `body` as JSON, or to a GET without a body.

        Args:
            path: from the root of the server.
            body: what to send.
            seconds: for the whole answer.
            limit: the setting of `seconds`, for the error.
            check: called many times a second. It may raise to give the request up at once, or
                block while a run is paused, which does not count.
            hear: called with what has arrived of the answer so far, many times a second.
            max_size: largest answer in bytes.

        Raises:
            NoAnswerError: if there is no answer.
            SettingsError: if the server is at a public address.
        """
        received = bytearray()
        loop = asyncio.new_event_loop()
        try:
            exchange = self._exchange(
                path,
                body,
                received,
                max_size,
            )

            def poll() -> None:
                check()
                if hear is not None:
                    hear(bytes(received))

            return loop.run_until_complete(_watch(exchange, seconds, limit, poll))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise NoAnswerError(_describe(error)) from None
        finally:
            # A slow lookup of the host's name is not waited for.
            loop.close()

    async def _exchange(
        self, path: str, body: dict[str, Any] | None, received: bytearray, max_size: int
    ) -> Response:
        """Send a request and return the response.

        `received` grows while the answer arrives, so that `send` can show its beginning.
        """

        async def note_before_sending(event: str, _info: dict[str, Any]) -> None:
            # The server is connected, and nothing was sent.
            if event == "http11.send_request_headers.started":
                self.note()

        method = "GET"
        content = b""
        headers = HEADERS
        extensions = {}
        if body is not None:
            method = "POST"
            content = json.dumps(body).encode()
            headers = {**HEADERS, "Content-Type": "application/json"}
            extensions = {"trace": note_before_sending}
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        async with (
            httpx.AsyncClient(transport=_CheckedTransport(self), timeout=timeout) as client,
            client.stream(
                method,
                f"{self.address.root}{path}",
                content=content,
                headers=headers,
                extensions=extensions,
            ) as response,
        ):
            async for part in response.aiter_raw():
                received += part
                if len(received) > max_size:
                    megabytes = max_size // 1_000_000
                    raise NoAnswerError(f"the answer is larger than {megabytes} MB", lasting=True)
            return Response(
                response.status_code,
                bytes(received),
                response.headers.get("Location", ""),
                _parse_retry_after(response.headers.get("Retry-After", "")),
            )


class _CheckedTransport(httpx.AsyncHTTPTransport):
    """A transport that connects only to IP addresses which the settings allow, without a proxy."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._address = client.address
        # Certificates take a while to load.
        verify = _tls_context() if self._address.scheme == "https" else False
        super().__init__(
            verify=verify,
            trust_env=False,
            uds=self._address.socket_path or None,
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request to the first IP address of the host that accepts a connection.

        The host's name is resolved once, so that the IP address that was checked is the one that is
        connected to. A certificate must still be for the host's name.
        """
        request.extensions["sni_hostname"] = self._address.host
        failure: Exception = OSError("the name has no address")
        for ip in await _resolve(self._address):
            try:
                return await self._send_to(ip, request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _send_to(self, ip: str, request: httpx.Request) -> httpx.Response:
        """Send a request to an IP address, with the key if nobody on the way can read it."""
        request.url = request.url.copy_with(host=ip)
        if self._client.key and self._address.keeps_secret(ip):
            request.headers["Authorization"] = f"Bearer {self._client.key}"
        return await super().handle_async_request(request)


async def _resolve(address: Address) -> list[str]:
    """Return the IP addresses of a server.

    Raises OSError, and SettingsError if a single one of them is public and that is not allowed.
    """
    if address.socket_path:
        return [address.host]
    loop = asyncio.get_running_loop()
    entries = await loop.getaddrinfo(
        address.host,
        address.port,
        type=socket.SOCK_STREAM,
    )
    return list(dict.fromkeys(address.check_ip_address(str(entry[4][0])) for entry in entries))


@cache
def _tls_context() -> ssl.SSLContext:
    """Return the TLS settings with the system's certificates, which are loaded once."""
    return ssl.create_default_context()


async def _watch(
    exchange: Coroutine[Any, Any, Response], seconds: float, limit: str, poll: Callable[[], None]
) -> Response:
    """Return the result of an exchange, and end it if `poll` raises or its time is over.

    `limit`: the setting of `seconds`. Time that passes in `poll` does not count: a run may be
    paused.
    """
    task = asyncio.ensure_future(exchange)
    deadline = time.monotonic() + seconds
    try:
        while not task.done():
            await asyncio.wait([task], timeout=POLL_SECONDS)
            before = time.monotonic()
            poll()
            deadline += time.monotonic() - before
            if not task.done() and before > deadline:
                reason = f"no answer within {seconds:.3g} s"
                if limit:
                    reason += f" ({limit})"
                raise NoAnswerError(reason)
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait([task])


def _parse_retry_after(retry_after: str) -> float:
    """Return the seconds of a header that holds seconds or a date; 0 for neither."""
    if retry_after.isdecimal():
        return float(retry_after)
    # A date without a time zone is a TypeError.
    with suppress(ValueError, TypeError):
        left = parsedate_to_datetime(retry_after) - datetime.now(UTC)
        return max(0.0, left.total_seconds())
    return 0.0


def _describe(error: BaseException) -> str:
    """Return why there is no answer, in the words of the system if it gives a reason."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionResetError):
            break
        if isinstance(cause, socket.gaierror) and cause.strerror:
            return cause.strerror.lower()
        if isinstance(cause, OSError) and cause.errno:
            return describe_socket_error(cause)
        cause = cause.__cause__ or cause.__context__
    if isinstance(error, (httpx.TimeoutException, TimeoutError)):
        return "the connection timed out"
    if isinstance(error, httpx.LocalProtocolError):
        return f"the request is not HTTP ({error})"
    if isinstance(error, httpx.RemoteProtocolError) and "illegal" in str(error):
        return f"what it sends is not HTTP ({error})"
    if isinstance(error, httpx.TransportError):
        return "the connection broke off"
    return str(error) or type(error).__name__
