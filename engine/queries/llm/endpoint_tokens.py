"""How many tokens a text is to a server, and how long a context it has, as far as it says so:
its tokenizer is not at hand.

llama.cpp's server and vLLM count at `/tokenize`, llama-cpp-python's at `/extras/tokenize/count`.
The former give their context at `/props` and `/v1/models`. Ollama counts nowhere, and cuts silently
what is too long; from 0.10 on it gives the context of a model that is loaded at `/api/ps`, and an
`/api/generate` without a prompt loads one. A server that has not counted a text gets no more such
requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

from engine.endpoint.address import Address
from engine.endpoint.exchange import Exchange, ExchangeError
from engine.queries.llm.cost import Patience

SECONDS = 5.0  # that a count may take
LOADING_SECONDS = 300.0  # that a large model may take to come into memory
POLL_SECONDS = 0.05
KEPT = 16  # counts


def estimated(text: str) -> int:
    """Tokens, rather too many.

    Many tokenizers have a token for each digit and sign, and one for each byte of a script that
    they know little of.
    """
    signs = sum(char.isascii() and not (char.isalpha() or char.isspace()) for char in text)
    letters = sum(char.isascii() for char in text) - signs
    return signs + letters // 3 + len(text.encode("utf-8", "replace")) - letters - signs + 1


class ServersTokens:
    """What the server at `address` says of itself.

    `count` and `context` raise CancelledError, and SettingsError as `Address.connect`.

    `cuts`: once `context` was looked up, whether the server cuts silently what is longer, and does
        not say where.
    """

    def __init__(
        self,
        address: Address,
        model: str,
        key: str,
        patience: Patience,
        sending: Callable[[], None] = lambda: None,
    ) -> None:
        """`sending`: as `Exchange`."""
        self._sending = sending
        self._address = address
        self._model = model
        self._key = key
        self._patience = patience
        self._root = address.path.removesuffix("/v1")
        self._ways = [self._tokenize, self._extras]
        self.count = lru_cache(KEPT)(self._count)
        self.cuts = False

    def _count(self, text: str) -> int | None:
        """`count`: tokens of a text; None where the server does not say."""
        for way in self._ways:
            if found := way(text):
                self._ways = [way]
                return found
        self._ways = []
        return None

    def context(self) -> int:
        """Tokens that it reads and writes at once; 0 where it does not say."""
        props = self._answer(f"{self._root}/props")
        found = [_number(_field(_field(props, "default_generation_settings"), "n_ctx"))]
        if not found[0]:
            found = self._answer(f"{self._address.path}/models")
            rows = _field(found, "data")
            if isinstance(rows, list):
                rows = [row for row in rows if isinstance(row, dict)]
            else:
                rows = []
            named = [row for row in rows if row.get("id") == self._model] or rows
            found = [_number(row.get("max_model_len")) for row in named]
        return min((one for one in found if one), default=0) or self._ollamas()

    def _ollamas(self) -> int:
        """The context that Ollama has loaded the model with; 0 where it does not say, or is
        another server.
        """
        loaded = f"{self._root}/api/ps"
        found = self._answer(loaded)
        if not isinstance(_field(found, "models"), list):
            return 0
        self._answer(
            f"{self._root}/api/generate", {"model": self._model, "stream": False}, LOADING_SECONDS
        )
        found = self._answer(loaded)
        rows = _field(found, "models")
        names = {self._model, f"{self._model}:latest"}
        found = [
            _number(row.get("context_length"))
            for row in (rows if isinstance(rows, list) else [])
            if isinstance(row, dict) and {str(row.get("name")), str(row.get("model"))} & names
        ]
        self.cuts = not any(found)
        return max(found, default=0)

    def _tokenize(self, text: str) -> int:
        """`content` is llama.cpp's word for it, `prompt` vLLM's."""
        request: dict[str, Any] = {"content": text, "prompt": text} | (
            {"model": self._model} if self._model else {}
        )
        found = self._answer(f"{self._root}/tokenize", request)
        tokens = _field(found, "tokens")
        return _number(_field(found, "count")) or (len(tokens) if isinstance(tokens, list) else 0)

    def _extras(self, text: str) -> int:
        return _number(
            _field(self._answer(f"{self._root}/extras/tokenize/count", {"input": text}), "count")
        )

    def _answer(
        self, path: str, request: dict[str, Any] | None = None, seconds: float = 0.0
    ) -> Any:
        """The JSON of an answer; None where there is none in `seconds`, `SECONDS` if that is 0."""
        seconds = seconds or SECONDS
        if request is None:
            body = None
        else:
            body = json.dumps(request).encode()
        exchange = Exchange(self._address, body, seconds, self._key, path, self._sending)
        exchange.start()
        until = self._patience.clock() + seconds
        try:
            while not exchange.done.wait(POLL_SECONDS):
                self._patience.check()
                if self._patience.clock() > until:
                    return None
        finally:
            exchange.abandon()
        with suppress(ExchangeError, ValueError, RecursionError):
            response = exchange.result()
            if response.status == 200:
                return json.loads(response.body)
            return None
        return None


def _field(found: Any, name: str) -> Any:
    if isinstance(found, dict):
        return found.get(name)
    return None


def _number(found: Any) -> int:
    """0 for what is none, or cannot be."""
    if isinstance(found, int) and not isinstance(found, bool) and 0 < found < 1 << 31:
        return found
    return 0
