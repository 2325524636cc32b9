"""JSON-RPC 2.0, one message a line: reading requests, and answers written by several threads."""

from __future__ import annotations

import json
import threading
from typing import Any, TextIO

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
NO_METHOD = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
"""Codes of errors, as JSON-RPC 2.0 defines them."""
SUPERSEDED = -32001
"""The code for a search that a newer one of the same series has replaced."""
NO_ANSWER = object()  # The `key` of a notification, which has no id and gets no answer.


class Answers:
    """Reads requests, and writes answers to `output` from any thread.

    A line that is no request is answered with an error. A `key` is the id of a request. `unread`:
    whether the reader has closed its end.
    """

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._lock = threading.Lock()
        self.unread = False

    def request(self, line: str | bytes) -> dict[str, Any] | None:
        """Return the request in a line; None for an invalid one, after answering with an error."""
        try:
            request = json.loads(line)
        except (ValueError, RecursionError):
            self.give(None, error=(PARSE_ERROR, "not JSON", None))
            return None
        if _is_request(request):
            return request  # type: ignore[no-any-return]
        key = None
        if isinstance(request, dict) and _is_key(request.get("id")):
            key = request.get("id")
        self.give(key, error=(INVALID_REQUEST, "not a JSON-RPC 2.0 request", None))
        return None

    def give(
        self,
        key: Any,
        result: Any = None,
        error: tuple[int, str, Any] | None = None,
    ) -> None:
        """Answer the request with the id `key`: by its result, or by an error.

        `error`: code, message and data.
        """
        # A notification gets no answer, not even an error.
        if key is NO_ANSWER:
            return
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": key}
        if error:
            code, message, data = error
            body["error"] = {"code": code, "message": message}
            if data:
                body["error"]["data"] = data
        else:
            body["result"] = result
        text = json.dumps(body, ensure_ascii=True) + "\n"
        with self._lock:
            try:
                self._output.write(text)
                self._output.flush()
            except (OSError, ValueError):
                self.unread = True


def _is_key(key: Any) -> bool:
    """Return whether a value may be the id of a request: text, a whole number or null."""
    # To isinstance, true and false are whole numbers.
    return key is None or isinstance(key, str) or type(key) is int


def _is_request(request: Any) -> bool:
    """Return whether a value is a request of JSON-RPC 2.0; its parameters are not checked."""
    return (
        isinstance(request, dict)
        and request.get("jsonrpc") == "2.0"
        and isinstance(request.get("method"), str)
        and _is_key(request.get("id"))
    )
