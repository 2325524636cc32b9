"""Token counts and context size of a model on a server, as far as the server says.

llama.cpp's server and vLLM count at `/tokenize`, llama-cpp-python's at `/extras/tokenize/count`;
the former two give their context at `/props` and `/v1/models`. Ollama cannot count, and silently
cuts long prompts; from 0.10 on, `/api/ps` gives the context of a loaded model, and an
`/api/generate` without a prompt loads one.
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

SECONDS = 5.0  # Time limit for a count.
LOADING_SECONDS = 300.0  # Time limit for loading a large model into memory.
POLL_SECONDS = 0.05
KEPT = 16  # Counts in the cache.


def estimated(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few.

    Many tokenizers have one token for each digit and sign, and one for each byte of a script that
    they hardly know.
    """
    signs = sum(char.isascii() and not (char.isalpha() or char.isspace()) for char in text)
    letters = sum(char.isascii() for char in text) - signs
    return signs + letters // 3 + len(text.encode("utf-8", "replace")) - letters - signs + 1


class ServersTokens:
    """What the server at `address` says about its tokenizer and its context.

    `count` and `context` raise CancelledError, and SettingsError as `Address.connect` does. `cuts`
    is set by `context`: the server silently cuts longer prompts, and does not say at which length.
    A server that could not count one text is not asked again.
    """

    def __init__(
        self,
        address: Address,
        model: str,
        key: str,
        patience: Patience,
        sending: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare requests; `sending` is as in `Exchange`."""
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
        """Count the tokens of a text, or return None if the server does not say."""
        for way in self._ways:
            if found := way(text):
                self._ways = [way]
                return found
        self._ways = []
        return None

    def context(self) -> int:
        """Return the size of the context in tokens, or 0 if the server does not say."""
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
        """Return the context with which Ollama loaded the model, or 0.

        0 also stands for a server that is not Ollama.
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
        """Count at `/tokenize`; llama.cpp calls the text `content`, vLLM `prompt`."""
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
        """Return the JSON of an answer within `seconds` (0: `SECONDS`), or None."""
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
    """Return a positive number that fits into 31 bits, otherwise 0."""
    if isinstance(found, int) and not isinstance(found, bool) and 0 < found < 1 << 31:
        return found
    return 0
