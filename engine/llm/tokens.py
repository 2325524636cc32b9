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

from engine.endpoint.client import Client, NoAnswerError

SECONDS = 5.0  # Time limit for a count.
LOADING_SECONDS = 300.0  # Time limit for loading a large model into memory.
MAX_COUNTS = 16  # Counts in the cache.


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text, rather too many than too few.

    Many tokenizers have one token for each digit and sign, and one for each byte of a script that
    they hardly know.
    """
    ascii_characters = sum(char.isascii() for char in text)
    signs = sum(char.isascii() and not (char.isalpha() or char.isspace()) for char in text)
    letters = ascii_characters - signs  # and white space
    other_bytes = len(text.encode("utf-8", "replace")) - ascii_characters
    return signs + letters // 3 + other_bytes + 1


class ServerTokens:
    """What a server says about its tokenizer and its context.

    `cuts` is set by `context`: the server silently cuts longer prompts, and does not say at which
    length. A server that could not count one text is not asked again. Raises what `check` raises,
    and SettingsError for a public address.
    """

    def __init__(
        self,
        client: Client,
        model: str,
        check: Callable[[], object],
    ) -> None:
        self._client = client
        self._model = model
        self._check = check
        self._root = client.address.path.removesuffix("/v1")
        self._methods = [self._count_by_tokenize, self._count_by_extras]
        self.count = lru_cache(MAX_COUNTS)(self._count)
        self.cuts = False

    def _count(self, text: str) -> int | None:
        """Count the tokens of a text, or return None if the server does not say."""
        for method in self._methods:
            count = method(text)
            if count:
                self._methods = [method]
                return count
        self._methods = []
        return None

    def context(self) -> int:
        """Return the size of the context in tokens, or 0 if the server does not say."""
        settings = _field(self._ask(f"{self._root}/props"), "default_generation_settings")
        context = _number(_field(settings, "n_ctx"))
        if context:
            return context
        rows = _rows(self._ask(f"{self._client.address.path}/models"), "data")
        rows_of_model = [row for row in rows if row.get("id") == self._model] or rows
        limits = [_number(row.get("max_model_len")) for row in rows_of_model]  # as vLLM calls it
        return min(filter(None, limits), default=0) or self._find_ollama_context()

    def _find_ollama_context(self) -> int:
        """Return the context with which Ollama has loaded the model; 0 if it does not say.

        0 also stands for a server that is not Ollama.
        """
        loaded_models = f"{self._root}/api/ps"
        if not isinstance(_field(self._ask(loaded_models), "models"), list):
            return 0
        request = {"model": self._model, "stream": False}
        self._ask(
            f"{self._root}/api/generate",
            request,
            LOADING_SECONDS,
        )
        names = {self._model, f"{self._model}:latest"}
        contexts = []
        for row in _rows(self._ask(loaded_models), "models"):
            if {str(row.get("name")), str(row.get("model"))} & names:
                contexts.append(_number(row.get("context_length")))
        context = max(contexts, default=0)
        self.cuts = context == 0
        return context

    def _count_by_tokenize(self, text: str) -> int:
        """Count at `/tokenize`; 0 if the server does not count there.

        llama.cpp calls the text `content`, vLLM `prompt`.
        """
        request = {"content": text, "prompt": text}
        if self._model:
            request["model"] = self._model
        answer = self._ask(f"{self._root}/tokenize", request)
        count = _number(_field(answer, "count"))
        tokens = _field(answer, "tokens")
        if not count and isinstance(tokens, list):
            return len(tokens)
        return count

    def _count_by_extras(self, text: str) -> int:
        """Count at `/extras/tokenize/count`; 0 if the server does not count there."""
        answer = self._ask(f"{self._root}/extras/tokenize/count", {"input": text})
        return _number(_field(answer, "count"))

    def _ask(
        self,
        path: str,
        request: dict[str, Any] | None = None,
        seconds: float = 0.0,
    ) -> Any:
        """Return the JSON of an answer within `seconds` (0: `SECONDS`), or None."""
        with suppress(NoAnswerError, ValueError, RecursionError):
            response = self._client.send(
                path, request, seconds=seconds or SECONDS, check=self._check
            )
            if response.status == 200:
                return json.loads(response.body)
        return None


def _field(answer: Any, name: str) -> Any:
    """Return a field of a JSON object; None if it is missing or the answer is no object."""
    if isinstance(answer, dict):
        return answer.get(name)
    return None


def _rows(answer: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects in the list that a field of an answer holds; empty if it holds none."""
    rows = _field(answer, name)
    if isinstance(rows, list):
        return [row for row in rows if isinstance(row, dict)]
    return []


def _number(value: Any) -> int:
    """Return a positive number that fits into 31 bits, otherwise 0."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31:
        return value
    return 0
