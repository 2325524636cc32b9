"""A reranker on a server with the /v1/rerank API of Cohere, Jina, vLLM and llama.cpp."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from engine.core.disk import disk_errors, json_sha256
from engine.core.errors import EngineError
from engine.encoders.text_model import encodable
from engine.endpoint.address import Address, read_server_key
from engine.endpoint.client import Client, NoAnswerError
from engine.endpoint.model_server import ModelServer
from engine.endpoint.servers import note_server
from engine.reranking.reranker import require_finite, too_slow

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.settings.schema import SearchSettings

SECONDS = 60.0
"""Time limit of a request if the caller sets none."""
BATCH = 32
"""Maximum number of passages in a request."""


class _Result(BaseModel):
    """The score of the passage number `index`, from 0, of the request."""

    index: int
    relevance_score: float


class _Results(BaseModel):
    """The answer of a server: a score for each passage, in any order."""

    results: list[_Result]


class ServerReranker:
    """A reranking server.

    `project`: the project's folder, where the server is recorded as one that gets text. `chosen`:
    the settings that name the server. Raises SettingsError for an address or a key that cannot be
    used.
    """

    batch_share = 0.5
    first_batch = 4

    def __init__(self, project: Path, chosen: SearchSettings) -> None:
        self._address = Address.parse(
            chosen.reranker, chosen.reranker_allow_public, "search.reranker"
        )
        self._project = project
        self._model = chosen.reranker_model
        self._server = ModelServer(
            client=Client(self._address, read_server_key()),
            path="rerank",
            kind="reranking server",
            seconds=SECONDS,
            limit="search.rerank_seconds",
        )
        self.name = self._address.url
        self.fingerprint = json_sha256(["rerank", self.name, self._model])

    def load(self) -> None:
        """Do nothing: the server loads its model itself."""

    def scores(
        self,
        query: str,
        passages: Sequence[str],
        seconds: float = inf,
    ) -> Floats:
        """Return the scores (n,) of passages for a query, see `Reranker`.

        The requests, of at most 32 passages, share the time.
        """
        deadline = monotonic() + seconds
        with disk_errors("The address of the reranking server cannot be noted."):
            note_server(self._project, self.name)
        batches = [np.empty(0, np.float32)]
        for start in range(0, len(passages), BATCH):
            remaining = deadline - monotonic()
            if remaining <= 0:
                raise too_slow(self.name)
            batch = [encodable(passage) for passage in passages[start : start + BATCH]]
            request: dict[str, Any] = {
                "query": encodable(query),
                "documents": batch,
                "top_n": len(batch),
            }
            if self._model:
                request["model"] = self._model
            read = partial(self._read_scores, count=len(batch))
            batches.append(self._server.ask(request, read, within=remaining))
        return np.concatenate(batches)

    def _read_scores(self, body: bytes, count: int) -> Floats:
        """Return the scores (count,) in an answer, in the order of the passages."""
        try:
            results = _Results.model_validate_json(body).results
        except ValueError:
            raise NoAnswerError("the answer holds no scores") from None
        scores = {result.index: result.relevance_score for result in results}
        if len(results) != count:
            why = f"{count} passages were sent and {len(results)} scores came back."
            raise self._unusable(why, "endpoint-count")
        if sorted(scores) != list(range(count)):
            why = f"Each has an 'index', but these are not the numbers from 0 to {count - 1}."
            raise self._unusable(why, "endpoint-index")
        # Numbers too large for float32 become infinite, and are refused.
        with np.errstate(over="ignore"):
            ordered = np.array([scores[place] for place in range(count)], np.float32)
        return require_finite(ordered, self.name)

    def _unusable(self, why: str, code: str) -> EngineError:
        """Build the error for an answer whose scores cannot be used."""
        return EngineError(
            f"The scores of the reranking server {self.name} cannot be used.",
            why,
            "Check that it runs a reranking model, and name that in search.reranker_model if it has"
            " several.",
            code=code,
        )
