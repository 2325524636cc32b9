"""A GGUF embedding model, run by llama.cpp in a separate process.

It is neither trained nor exported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.disk import json_sha256
from engine.core.errors import EngineError, ModelError
from engine.encoders.encoder import EncoderSource, Progress, Report, ignore_choice, report_prompts
from engine.encoders.fingerprint import named_prompts
from engine.encoders.geometry.similarity import COSINE, Similarity, unit_rows
from engine.encoders.kinds.endpoint import Embeddings
from engine.encoders.text_model import encodable
from engine.endpoint.client import NoAnswerError
from engine.endpoint.model_server import MAX_ANSWER_SIZE
from engine.gguf.file import content_identity, find_gguf_file
from engine.gguf.header import read_header
from engine.llm.model_process import ModelProcess, ServedFile

if TYPE_CHECKING:
    from engine.core.arrays import Floats
    from engine.settings.schema import EncoderSettings


VERSION = 1
TEXTS_AT_ONCE = 4
"""Texts of a request; a cancellation takes effect between two requests."""
DEFAULT_MAX_TOKENS = 512
"""Length limit of a model whose header does not state one."""


@dataclass(frozen=True, kw_only=True)
class GgufSource(EncoderSource):
    """The file of an embedding model that is not loaded yet.

    `pooling` is as in the settings. `name` is the file's name without its extension, or the model's
    if the file is named by its content.
    """

    path: Path
    identity: str
    pooling: str
    on_gpu: bool

    @classmethod
    def named(cls, chosen: EncoderSettings) -> GgufSource:
        """Return the file that the settings name.

        They give its path, or its name in the folder of `engine models add`. Prompts that they do
        not give are those of the model's family, by the file's name or the name in its header.
        Raises ModelError.
        """
        try:
            path = find_gguf_file(Path(), chosen.model)
            header = read_header(path)
            identity = content_identity(path)
        except ModelError as error:
            to_do = "Set encoder.model to a GGUF file of an embedding model, or to a folder."
            message = f"The embedding model {chosen.model} cannot be used."
            raise ModelError(
                message,
                error.why,
                to_do,
                code="model-invalid",
            ) from None
        model_name = header.name.replace(" ", "-")
        name = model_name
        if path.suffix.lower() == ".gguf":
            name = path.stem
        prompts = named_prompts(
            chosen.query_prompt,
            chosen.document_prompt,
            name,
            model_name,
        )
        return cls(
            name=name,
            prompts=prompts,
            max_tokens=header.context or DEFAULT_MAX_TOKENS,
            path=path,
            identity=identity,
            pooling=chosen.pooling,
            on_gpu=chosen.device != "cpu",
        )

    @property
    def fingerprint(self) -> str:
        """Identifier of the file's content, the prompts and the pooling."""
        parts = [
            VERSION,
            self.identity,
            self.prompts.query,
            self.prompts.document,
            self.pooling,
        ]
        return json_sha256(["gguf", *parts])

    def vectors_fingerprint(
        self, max_tokens: int, adapter: Path | None = None, weight: float = 1.0
    ) -> str:
        """Return the fingerprint of the model and the length limit."""
        return hashlib.sha256(
            f"{self.fingerprint} {min(max_tokens, self.max_tokens)}".encode()
        ).hexdigest()

    @property
    def weights(self) -> Path:
        """See `EncoderSource`."""
        return self.path

    def moved(self, folder: Path, _dtype: str) -> GgufSource:
        """See `EncoderSource`."""
        return replace(self, path=folder / self.path.name)

    def load(
        self,
        max_tokens: int,
        adapter: Path | None = None,
        weight: float = 1.0,
        report: Report = ignore_choice,
    ) -> GgufEncoder:
        """Start the model in a process that ends with the encoder.

        Raises ModelError if the file cannot be used.
        """
        report_prompts(self.prompts, report)
        return GgufEncoder(self, max_tokens)


class GgufEncoder:
    """A process that encodes; if it has died, the next call starts another. Not thread-safe."""

    similarity: Similarity = COSINE

    def __init__(self, source: GgufSource, max_tokens: int) -> None:
        self.fingerprint = source.vectors_fingerprint(max_tokens)
        self.notices: list[str] = []
        self._source = source
        self._limit = min(max_tokens, source.max_tokens)
        self._process = self._start()
        self.dimension = self._process.served.width

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def encode_chunks(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """See `Encoder`.

        Raises StageError if the process has died, EngineError for unusable vectors.
        """
        return self._encode(
            self._source.prompts.document,
            texts,
            progress,
        )

    def encode_queries(self, texts: Sequence[str], progress: Progress | None = None) -> Floats:
        """Return the vectors of queries: as `encode_chunks`."""
        return self._encode(
            self._source.prompts.query,
            texts,
            progress,
        )

    def _start(self) -> ModelProcess:
        """Start a process that serves the model. Raises ModelError."""
        source = self._source
        file = ServedFile(
            path=str(source.path),
            context=self._limit,
            pooling=source.pooling,
            on_gpu=source.on_gpu,
        )
        try:
            return ModelProcess(file, lambda: None)
        except ModelError as error:
            if error.code in ("pooling-unsupported", "context-too-large"):
                raise
            raise _invalid_error(source, error.why) from None

    def _encode(
        self,
        prompt: str,
        texts: Sequence[str],
        progress: Progress | None,
    ) -> Floats:
        """Return the unit vectors (n, d) of texts, each after the prompt."""
        import numpy as np

        if not self._process.is_alive:
            self._process = self._start()
        vectors = np.empty((len(texts), self.dimension), np.float32)
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            batch = [prompt + text for text in texts[start : start + TEXTS_AT_ONCE]]
            vectors[start : start + len(batch)] = self._request(batch)
            if progress is not None:
                progress(start + len(batch))
        if not (np.isfinite(vectors).all() and vectors.any(axis=1).all()):
            raise EngineError(
                f"The model {self._source.name} gave unusable vectors.",
                "They hold numbers that are not finite, or only zeros.",
                "Use another file of the model, or another model.",
                code="vectors-not-finite",
            )
        return unit_rows(vectors)

    def _request(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of a few texts by one request, as the model gives them."""
        request = {"input": [encodable(text) for text in texts]}
        try:
            response = self._process.client.send(
                "/v1/embeddings", request, seconds=inf, max_size=MAX_ANSWER_SIZE
            )
        except NoAnswerError:
            raise self._process.crash_error() from None
        if response.status != 200:
            why = f"A text could not be encoded (HTTP {response.status})."
            raise _invalid_error(self._source, why)
        return [row.embedding for row in Embeddings.model_validate_json(response.body).data]


def _invalid_error(source: GgufSource, why: str) -> ModelError:
    return ModelError(
        f"The embedding model {source.path} cannot be used.",
        why,
        "Set encoder.model to another GGUF file of an embedding model, or get this one again.",
        code="model-invalid",
    )
