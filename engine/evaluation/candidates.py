"""The encoders that an evaluation compares, one of which comes into use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.core.records import Chunk
from engine.core.similarity import Similarity
from engine.core.systems import candidate_name
from engine.project.stage import StageContext

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder

Floats = NDArray[np.float32]


class Candidate(Protocol):
    """An encoder that may come into use."""

    @property
    def name(self) -> str:
        """Of the system in reports."""

    @property
    def similarity(self) -> Similarity:
        """How its vectors are compared."""

    def query_vectors(self, texts: Sequence[str]) -> Floats:
        """Vectors (q, d) of queries. Raises CancelledError."""

    def chunk_vectors(self, chunks: Sequence[Chunk]) -> Floats:
        """Vectors (n, d) of chunks. Raises CancelledError."""

    def passage_vectors(self, texts: Sequence[str]) -> Floats:
        """Vectors (n, d) of passages that are no chunks of the project. Raises CancelledError."""


class AdapterCandidate:
    """The base encoder with an adapter at an interpolation weight: base, adapted, and what lies between. Its vectors are of unit
    length."""

    def __init__(self, family: AdapterCandidates, weight: float, encoder: Encoder) -> None:
        self.name = candidate_name(weight)
        self._family, self._weight, self._encoder = family, weight, encoder

    @property
    def similarity(self) -> Similarity:
        """The encoder's."""
        return self._encoder.similarity

    def query_vectors(self, texts: Sequence[str]) -> Floats:
        """By the encoder itself."""
        return self._encoder.encode_queries(texts, self._family.between_batches)

    def chunk_vectors(self, chunks: Sequence[Chunk]) -> Floats:
        """By the encoder of chunks, or from the cache."""
        return self._family.chunk_vectors(self.name, self._chunk_encoder, chunks)

    def passage_vectors(self, texts: Sequence[str]) -> Floats:
        """By the encoder of chunks."""
        return self._chunk_encoder.encode_chunks(texts, self._family.between_batches)

    @cached_property
    def _chunk_encoder(self) -> Encoder:
        return self._family.chunk_encoder(self._encoder, self._weight)


class AdapterCandidates:
    """Makes the candidates of an adapter."""

    def __init__(self, context: StageContext, adapter: Path | None, scope: str) -> None:
        self._context, self._adapter, self._scope = context, adapter, scope

    def at(self, weight: float) -> AdapterCandidate:
        """The candidate of an interpolation weight."""
        return AdapterCandidate(self, weight, self._load(self._adapter if weight else None, weight))

    def between_batches(self, _done: int) -> None:
        """Whoever cancels the run does not wait for the last of thousands of texts."""
        self._context.check_stop()

    def chunk_encoder(self, encoder: Encoder, weight: float) -> Encoder:
        """What encodes chunks where queries have `encoder`, the adapter being at `weight`."""
        from engine.encoders.for_project import chunk_adapter

        of_chunks = chunk_adapter(self._adapter, self._scope) if weight else None
        return encoder if not weight or of_chunks == self._adapter else self._load(of_chunks, weight)

    def chunk_vectors(self, name: str, encoder: Encoder, chunks: Sequence[Chunk]) -> Floats:
        """Encoded, or from the cache."""
        from engine.encoders.for_project import chunk_vectors

        return chunk_vectors(self._context, encoder, chunks, f"chunks ({name})")

    def _load(self, adapter: Path | None, weight: float) -> Encoder:
        from engine.encoders.for_project import load_encoder

        return load_encoder(self._context, adapter, weight or 1.0)
