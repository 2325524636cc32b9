"""An embedding model on a server that speaks OpenAI's /v1/embeddings.

Texts are sent in batches; lost requests are repeated after a pause that doubles. Only the model's
vectors are known, so it is neither trained nor exported, and a change of the model is detected from
its vectors of fixed texts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel

from engine.core.disk import json_sha256
from engine.core.errors import EngineError, ModelError
from engine.encoders.encoder import (
    EncoderSource,
    Progress,
    Report,
    Unfinished,
    ignore_choice,
    report_prompts,
)
from engine.encoders.fingerprint import named_prompts
from engine.encoders.geometry.similarity import COSINE, Similarity, unit_rows
from engine.encoders.text_model import encodable
from engine.encoders.vector_shards import map_vectors, read_shard, write_shard
from engine.endpoint.address import Address, read_server_key
from engine.endpoint.client import Client, NoAnswerError
from engine.endpoint.model_server import ModelServer

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.settings.schema import EncoderSettings


VERSION = 1
# Texts in two languages, by whose vectors a change of the model is noticed.
PROBES = (
    "The order was confirmed on Monday.",
    "A valve leaks at low pressure.",
    "Wer haftet für den Schaden?",
)
MIN_SAME = 0.99
"""Least cosine of two vectors of a text by one model, on other hardware or in another batch."""
MAX_TOKENS = 32_768
"""Stands for a server's limit, which is not known: it truncates or refuses longer texts itself."""


@dataclass(frozen=True, kw_only=True)
class EndpointSource(EncoderSource):
    """A server that has not been called yet."""

    address: Address
    model: str
    """Name of the model on the server, or empty."""
    seconds: float
    """Time limit for an answer."""
    batch: int
    """Number of texts in a request."""
    dimension: int
    """Width that the server's vectors must have (0: any)."""
    keyed: bool
    """Whether the server gets the key."""

    @classmethod
    def named(
        cls,
        chosen: EncoderSettings,
        dimension: int,
        keyed: bool,
    ) -> EndpointSource:
        """Return the server that the settings name. Raises SettingsError."""
        address = Address.parse(
            chosen.endpoint,
            chosen.endpoint_allow_public,
            "encoder.endpoint",
        )
        return cls(
            name=chosen.endpoint_model or "embedding server",
            max_tokens=MAX_TOKENS,
            server=address.url,
            address=address,
            prompts=named_prompts(
                chosen.query_prompt, chosen.document_prompt, chosen.endpoint_model
            ),
            model=chosen.endpoint_model,
            seconds=chosen.endpoint_seconds,
            batch=chosen.endpoint_batch,
            dimension=dimension,
            keyed=keyed,
        )

    @property
    def fingerprint(self) -> str:
        """Identifier of the address, the model's name there and the prompts.

        It does not change if the server gives that name to another model; `is_other` detects this.
        """
        prompts = self.prompts
        parts = [
            VERSION,
            self.address.url,
            self.model,
            prompts.query,
            prompts.document,
        ]
        return json_sha256(["endpoint", *parts])

    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """Return the fingerprint, which does not depend on the length limit."""
        return self.fingerprint

    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = ignore_choice,
    ) -> EndpointEncoder:
        """Return the encoder; the server is first called when there is something to encode.

        Raises SettingsError for a key that cannot be sent.
        """
        report(
            "encoder",
            self.address.url,
            "encoder.endpoint names a server",
        )
        report_prompts(self.prompts, report)
        return EndpointEncoder(self, read_server_key() if self.keyed else "")


class Embedding(BaseModel):
    """A vector in a server's answer; `index`: the place of its text in the request."""

    index: int | None = None
    embedding: list[float]


class Embeddings(BaseModel):
    """A server's answer to a request for vectors."""

    data: list[Embedding]


class EndpointEncoder:
    """Encodes with a server and scales its vectors to unit length."""

    similarity: Similarity = COSINE

    def __init__(self, source: EndpointSource, key: str) -> None:
        self.fingerprint = source.fingerprint
        self.notices: list[str] = []
        self._source = source
        self._width = source.dimension
        self._server = ModelServer(
            client=Client(source.address, key),
            path="embeddings",
            kind="embedding server",
            seconds=source.seconds,
            limit="encoder.endpoint_seconds",
            advice=", then run again. Finished vectors are kept",
            smaller=(
                " It may also take fewer or shorter texts: lower encoder.endpoint_batch or"
                " corpus.chunk_tokens."
            ),
        )
        self._probes: Path | None = None

    @property
    def dimension(self) -> int:
        """Width of the vectors in the server's first answer."""
        if not self._width:
            self.encode_queries(["a"])
        return self._width

    def watch(self, probes: Path) -> None:
        """Check before the first request that the model is the one of `probes` (`is_other`)."""
        self._probes = probes

    def is_other(self, probes: Path) -> bool:
        """Return whether the vectors of fixed texts differ from those in a file.

        The file is written if it does not exist.
        """
        vectors = self._request(PROBES, lambda: None)
        stored = read_shard(probes)
        if stored is None:
            hashes = [hashlib.sha256(text.encode()).digest() for text in PROBES]
            probes.parent.mkdir(
                mode=0o700,
                parents=True,
                exist_ok=True,
            )
            write_shard(
                probes,
                np.array(hashes, "S32"),
                vectors,
            )
            return False
        rows = len(stored.hashes)
        if vectors.shape != (rows, stored.width):
            return True
        cosines = (map_vectors(probes, rows, stored.width) * vectors).sum(axis=1)
        return bool(cosines.min() < MIN_SAME)

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`; `progress` is also called while waiting for an answer.

        Raises ModelError if the server refuses the request, StageError after several tries without
        an answer, EngineError for an unusable answer.
        """
        return self._encode([self._source.prompts.document + text for text in texts], progress)

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Return the vectors of queries: as `encode_chunks`."""
        return self._encode([self._source.prompts.query + text for text in texts], progress)

    def _encode(self, texts: Sequence[str], progress: Progress | None) -> Floats:
        """Return the vectors (n, d) of texts, batch after batch.

        An error after the first batch has the cause `Unfinished` with the vectors so far.
        """
        if texts and self._probes:
            if self.is_other(self._probes):
                raise _changed_model_error(self._source)
            self._probes = None
        batches: list[Floats] = []
        for start in range(0, len(texts), self._source.batch):
            batch = texts[start : start + self._source.batch]
            waiting = partial(progress, start) if progress else lambda: None
            try:
                batches.append(self._request(batch, waiting))
            except EngineError as error:
                if batches:
                    raise error from Unfinished(np.concatenate(batches), self.fingerprint)
                raise
        if progress is not None:
            progress(len(texts))
        if not batches:
            return np.empty((0, self._width), np.float32)
        return np.concatenate(batches)

    def _request(self, texts: Sequence[str], waiting: Callable[[], object]) -> Floats:
        """Return the vectors (b, d) of texts that fit into one request.

        `waiting` is called repeatedly, and may raise to stop.
        """
        request: dict[str, object] = {"input": [encodable(text) for text in texts]}
        if self._source.model:
            request["model"] = self._source.model
        return self._server.ask(
            request,
            partial(self._read_vectors, count=len(texts)),
            waiting,
        )

    def _read_vectors(self, body: bytes, count: int) -> Floats:
        """Return the vectors (count, d) of an answer, in the order of the texts, at unit length.

        Raises NoAnswerError for an answer of another form, EngineError for unusable vectors.
        """
        try:
            data = Embeddings.model_validate_json(body).data
        except ValueError:
            raise NoAnswerError("the answer holds no vectors") from None
        rows = {}
        for place, row in enumerate(data):
            index = place if row.index is None else row.index
            rows[index] = row.embedding
        if len(data) != count:
            raise self._unusable_error(
                f"{count} texts were sent and {len(data)} vectors came back.", code="endpoint-count"
            )
        if sorted(rows) != list(range(count)):
            why = (
                f"Each has an 'index', but these are not the numbers from 0 to {count - 1}: which"
                " text is whose is not known."
            )
            raise self._unusable_error(why, code="endpoint-index")
        widths = sorted({len(row) for row in rows.values()})
        is_new_width = self._width and widths != [self._width]
        if len(widths) > 1 or widths[0] == 0 or is_new_width:
            why = f"Its vectors have {' and '.join(map(str, widths))} dimensions"
            if self._width:
                why += f", those before have {self._width}"
            raise self._unusable_error(f"{why}.", code="endpoint-dimension")
        vectors = np.array([rows[place] for place in range(count)], np.float64)
        if not (np.isfinite(vectors).all() and vectors.any(axis=1).all()):
            raise self._unusable_error(
                "They hold numbers that are not finite, or only zeros.", code="vectors-not-finite"
            )
        self._width = vectors.shape[1]
        return unit_rows(vectors)

    def _unusable_error(self, why: str, code: str) -> EngineError:
        to_do = (
            "Check that it runs the embedding model that the documents were embedded with. To use"
            " another one, name it in encoder.endpoint_model; 'engine embed --force' embeds all"
            " documents with it."
        )
        return EngineError(
            f"The vectors of the embedding server {self._source.address.url} cannot be used.",
            why,
            to_do,
            code=code,
        )


def _changed_model_error(source: EndpointSource) -> ModelError:
    return ModelError(
        f"The embedding server {source.address.url} has a different model under the name"
        f" {source.name}.",
        "Its vectors of fixed texts have changed, so new vectors would not fit the stored ones.",
        "Bring the former model back, or run 'engine embed --force' to embed all documents with the"
        " new one.",
        code="endpoint-model-changed",
        command="embed --force",
    )
