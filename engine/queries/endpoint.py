"""A language model on a server that speaks OpenAI's chat completions: on this machine or in a private network.

Redirects are refused, proxies ignored, and an answer has limits of time and size.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from engine.errors import CancelledError, EngineError, ModelError, SettingsError, StageError
from engine.queries.address import CONNECT_SECONDS, Address
from engine.queries.chat_model import Reply, UnansweredError
from engine.queries.endpoint_answers import error_text, reply_of
from engine.queries.prompts import Message
from engine.queries.shapes import Shape
from engine.queries.turn_marks import neutral

LARGEST = 4_000_000  # bytes of an answer
POLL_SECONDS = 0.1
PAUSE_SECONDS = 0.5  # before the next message after a failure; twice as long after each further one
TEMPERATURE = 0.3
FAILURES = 5  # messages in a row without an answer, after which the server is given up
KEY = "BMEMBED_ENDPOINT_KEY"


def _named(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """As OpenAI has it, and vLLM, Ollama and llama.cpp's own server."""
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema}}


def _bare(_name: str, schema: dict[str, Any]) -> dict[str, Any]:
    """As llama-cpp-python's server has it, which answers the other form with an error of its own."""
    return {"type": "json_object", "schema": schema}


FORMS = (_named, _bare, None)


@dataclass(frozen=True, slots=True)
class Response:
    """Status and body of an HTTP answer; `location` where it points elsewhere."""

    status: int
    body: bytes
    location: str = ""


class Endpoint:
    """A server, asked one message at a time. Every wait ends within a tenth of a second when `should_stop` says so."""

    name = "endpoint"

    def __init__(
        self, address: Address, model: str, context: int, seconds: float, should_stop: Callable[[], bool]
    ) -> None:
        self.model, self.context = model, context
        self._address, self._seconds, self._should_stop = address, seconds, should_stop
        self._form, self._failures, self._key = 0, 0, _key()

    def count(self, text: str) -> int:
        """An estimate, rather too high: the server's tokenizer is not known here. Many have a token for each digit and sign, and
        more than one for a letter of a script that they know little of."""
        signs = sum(char.isascii() and not (char.isalpha() or char.isspace()) for char in text)
        letters = sum(char.isascii() for char in text) - signs
        others = len(text.encode("utf-8", "replace")) - letters - signs
        return signs + letters // 3 + others // 2 + 1

    def complete(self, message: Message, shape: Shape, most: int, limit: int, seed: int) -> Reply:
        """As `ChatModel.complete`. Raises ModelError where the server refuses the model or the key, StageError after several
        messages in a row without an answer."""
        request = self._request(message, limit, seed)
        self._pause()
        try:
            response = self._answered(request, shape.schema(most), shape.name)
            reply = reply_of(self._accepted(response, message), shape, limit)
        except UnansweredError as error:
            self._failures += 1
            if self._failures >= FAILURES:
                raise self._given_up(str(error)) from None
            raise
        self._failures = 0
        return reply

    def close(self) -> None:
        """Nothing is held."""

    def _answered(self, request: dict[str, Any], schema: dict[str, Any], name: str) -> Response:
        """Servers differ in how they are told of a schema, if they know any; what one takes is kept to."""
        for form in FORMS[self._form :]:
            asked = request if form is None else {**request, "response_format": form(name, schema)}
            response = self._ask(asked)
            if response.status == 200:
                self._form = FORMS.index(form)
            if form is None or not _dislikes_form(response):
                break
        return response

    def _pause(self) -> None:
        """After a failure, give the server a moment; more after each."""
        until = time.monotonic() + (PAUSE_SECONDS * 2**self._failures if self._failures else 0.0)
        while (left := until - time.monotonic()) > 0:
            self._check_stop()
            time.sleep(min(left, POLL_SECONDS))

    def _check_stop(self) -> None:
        if self._should_stop():
            raise CancelledError("The run was cancelled.", "You asked for it.", "Run 'engine run' to go on from here.")

    def _request(self, message: Message, limit: int, seed: int) -> dict[str, Any]:
        request: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": message.system},
                {"role": "user", "content": neutral(message.user)},
            ],
            "temperature": TEMPERATURE, "max_tokens": limit, "seed": seed, "stream": False,
        }  # fmt: skip
        if self.model:
            request["model"] = self.model
        return request

    def _ask(self, request: dict[str, Any]) -> Response:
        """Send a request from a thread of its own, so that a silent server cannot hold us. Raises UnansweredError."""
        exchange = _Exchange(self._address, json.dumps(request).encode(), self._seconds, self._key)
        exchange.start()
        deadline = time.monotonic() + self._seconds
        while not exchange.done.wait(POLL_SECONDS):
            stop = self._should_stop()  # does not return while the run is paused: the answer may have come meanwhile
            if stop or (time.monotonic() > deadline and not exchange.done.is_set()):
                exchange.abandon()
                self._check_stop()
                raise UnansweredError(f"no answer within {self._seconds:g} s (queries.endpoint_seconds)")
        return exchange.result()

    def _accepted(self, response: Response, message: Message) -> bytes:
        status = response.status
        if status == 200:
            return response.body
        if 300 <= status < 400:
            raise UnansweredError(
                f"it points elsewhere ({response.location[:200] or 'nowhere'}), which is not followed"
            )
        said = error_text(response.body, message)
        if status in (401, 403, 404, 405):
            raise ModelError(
                f"The endpoint refuses the request (HTTP {status}).",
                said or "It gives no reason.",
                f"Check queries.endpoint, queries.endpoint_model and, where it wants a key, the variable {KEY}.",
            )
        raise UnansweredError(f"HTTP {status}" + (f": {said}" if said else ""))

    def _given_up(self, reason: str) -> StageError:
        return StageError(
            f"The endpoint {self._address.url} gave no answer {FAILURES} times in a row.",
            f"The last time: {reason}.",
            "See that the server runs and that queries.endpoint names it, then run again: answers so far are kept.",
        )


class _Exchange(threading.Thread):
    """One request and its answer. `abandon` ends it from outside."""

    def __init__(self, address: Address, body: bytes, seconds: float, key: str = "") -> None:
        super().__init__(name="endpoint", daemon=True)
        self.done = threading.Event()
        self._address, self._body, self._seconds, self._key = address, body, seconds, key
        self._connection: http.client.HTTPConnection | None = None
        self._abandoned = False
        self._found: Response | Exception = UnansweredError("no answer")

    def run(self) -> None:
        try:
            self._found = self._talk()
        except (EngineError, UnansweredError) as error:
            self._found = error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._found = UnansweredError(_plain(error))
        finally:
            self.done.set()
            if self._connection is not None:
                self._connection.close()

    def result(self) -> Response:
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
        self._connection = self._address.connect(self._seconds + CONNECT_SECONDS)  # who waits for us has the say
        if self._abandoned:
            raise UnansweredError("no longer wanted")
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        self._connection.request("POST", f"{self._address.path}/chat/completions", self._body, headers)
        answer = self._connection.getresponse()
        body = answer.read(LARGEST + 1)
        if len(body) > LARGEST:
            raise UnansweredError(f"the answer is larger than {LARGEST // 1_000_000} MB", lasting=True)
        if answer.length:  # bytes that were announced and did not come
            raise UnansweredError("the connection broke off")
        return Response(answer.status, body, answer.getheader("Location") or "")


def _dislikes_form(response: Response) -> bool:
    """Whether a server may answer when it is told otherwise, or not at all, what its answer is to look like."""
    return response.status in (400, 422) or (response.status == 500 and b"response_format" in response.body)


def _key() -> str:
    """The key for the server. Raises SettingsError for one that no header can hold; the error does not show it."""
    key = os.environ.get(KEY, "").strip()
    if not (key.isascii() and key.isprintable()):
        raise SettingsError(
            f"The key in the variable {KEY} cannot be sent.",
            "It holds a line break, or a character that is not of ASCII.",
            f"Correct {KEY}, or leave it out.",
        )
    return key


def _plain(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "the connection timed out"
    if isinstance(error, http.client.IncompleteRead | http.client.RemoteDisconnected | ConnectionResetError):
        return "the connection broke off"
    if isinstance(error, http.client.HTTPException):
        return f"what it sends is not HTTP ({type(error).__name__})"
    return str(getattr(error, "strerror", None) or error).lower() or type(error).__name__
