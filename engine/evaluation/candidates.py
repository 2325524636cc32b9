"""The encoders that an evaluation compares, one of which comes into use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.arrays import Floats
from engine.core.records import Chunk
from engine.core.systems import candidate_name
from engine.encoders.for_project import chunk_adapter, chunk_vectors, load_encoder
from engine.encoders.geometry.similarity import Similarity
from engine.project.stage import StageContext

if TYPE_CHECKING:
    from engine.encoders.embedding_cache import EmbeddingCache
    from engine.encoders.encoder import Encoder


class Candidate:
    """The base encoder with an adapter at an interpolation weight: base, adapted, or between.

    `scope` says which texts the adapter was trained for. `base`: the base encoder if it is loaded
    already. `cache`: the project's cache if it is open already. All methods may raise
    CancelledError between two batches.
    """

    def __init__(
        self,
        context: StageContext,
        adapter: Path | None,
        scope: str,
        weight: float,
        base: Encoder | None = None,
        cache: EmbeddingCache | None = None,
    ) -> None:
        self.name = candidate_name(weight)
        self._context = context
        self._scope = scope
        self._weight = weight
        self._base = base
        self._cache = cache
        # At weight 0 the adapter changes nothing.
        self._adapter = adapter if weight else None
        self._encoder = self._load(self._adapter)

    @property
    def similarity(self) -> Similarity:
        """How vectors of this encoder are compared."""
        return self._encoder.similarity

    def query_vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors (q, d) of queries."""
        return self._encoder.encode_queries(texts, lambda _done: self._context.check_stop())

    def chunk_vectors(self, chunks: Sequence[Chunk]) -> Floats:
        """Return vectors (n, d) of chunks, from the cache as far as it holds them."""
        what = f"chunks ({self.name})"
        return chunk_vectors(
            self._context,
            self._chunk_encoder,
            chunks,
            what,
            self._cache,
        )

    def passage_vectors(self, texts: Sequence[str]) -> Floats:
        """Return vectors (n, d) of passages that are not chunks of the project."""
        return self._chunk_encoder.encode_chunks(texts, lambda _done: self._context.check_stop())

    @cached_property
    def _chunk_encoder(self) -> Encoder:
        """The encoder of chunks: base if the adapter was trained for queries alone."""
        adapter = chunk_adapter(self._adapter, self._scope)
        if adapter == self._adapter:
            return self._encoder
        return self._load(adapter)

    def _load(self, adapter: Path | None) -> Encoder:
        """Return the encoder with an adapter at the interpolation weight; None: the base."""
        if adapter is None and self._base is not None:
            return self._base
        return load_encoder(
            self._context,
            adapter,
            self._weight or 1.0,
        )
