"""BM25 and the encoders of an evaluation, as they rank queries over the whole corpus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.core.records import Chunk
from engine.evaluation.rankings import padded, rank_within
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo, LexicalInfo

if TYPE_CHECKING:
    from engine.encoders.encoder import Encoder
    from engine.lexical.index import LexicalIndex

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
Among = Sequence[Ids | None]
General = tuple[dict[str, NDArray[np.float64]], Floats]
"""Metric → (n,) per-question values, and the passages' unit vectors (n, d)."""


class Rankers:
    """`ids`: of all `chunks`, ascending; `adapter`: the trained adapter's folder, or None. Depth as in the settings.

    `offsets` (n,): what search with the served encoder takes from each chunk's cosines; None where that is nothing.
    """

    def __init__(self, context: StageContext, chunks: list[Chunk]) -> None:
        from engine.encoders.for_project import told_hardware

        self._context, self.chunks = context, chunks
        self._hardware = told_hardware(context, "encode")
        artifact = context.need(AdapterInfo)
        self.adapter = context.project.path / artifact.info.adapter if artifact.info.adapter else None
        self.adapter_scope = artifact.info.adapter_scope
        self.ids = np.array([chunk.id for chunk in chunks], dtype=np.int64)  # ascending
        self.offsets: Floats | None = None
        self._of_base: Floats | None = None
        self._passages: Floats | None = None

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The BM25 index."""
        from engine.lexical.index import LexicalIndex

        return LexicalIndex.open(self._context.project.folder_of(self._context.need(LexicalInfo)))

    def bm25(self, texts: Sequence[str], among: Among, index: LexicalIndex | None = None) -> tuple[Ids, Floats]:
        """Ids and scores (q, depth) of each text's best chunks, of those that it is looked for `among`.

        By `index`, a weighted form of the project's, or by that itself.
        """
        context, depth, index = self._context, self._context.settings.evaluation.depth, index or self.lexical
        found = list(index.search_many(texts, depth))
        for row, allowed in enumerate(among):
            if allowed is not None:
                found[row] = index.search_among(texts[row], depth, allowed)
        context.check_stop()
        return padded(found, depth)

    def encoder(self, strength: float) -> Encoder:
        """The encoder with the adapter at `strength` (λ)."""
        from engine.encoders.for_project import load_encoder

        return load_encoder(self._context, self._hardware, self.adapter if strength else None, strength or 1.0)

    def trained(self, adapter: Path, scope: str) -> tuple[Encoder, Encoder]:
        """The encoders of queries and of chunks with another adapter, trained for `side`, at full strength."""
        from engine.encoders.for_project import chunk_adapter, load_encoder

        of_queries, of_chunks = adapter, chunk_adapter(adapter, scope)
        encoder = load_encoder(self._context, self._hardware, of_queries)
        return encoder, encoder if of_chunks == of_queries else load_encoder(self._context, self._hardware, of_chunks)

    def own_vectors(self, encoder: Encoder, chunks: Sequence[Chunk], name: str) -> Floats:
        """The chunks' unit vectors by an encoder of chunks."""
        from engine.encoders.for_project import chunk_vectors

        return chunk_vectors(self._context, encoder, chunks, f"chunks ({name})")

    def cosine(self, asked: Floats, vectors: Floats, among: Among) -> tuple[Ids, Floats]:
        """Ids and cosines (q, depth) of the chunks, with unit vectors `vectors`, nearest to the queries `asked` (q, d)."""
        return rank_within(asked, vectors, self.ids, self._context.settings.evaluation.depth, among)

    def compared_queries(self, asked: Floats) -> Floats:
        """Queries (q, d) by the served encoder such that their products with `compared_chunks` are similarities."""
        return compared_queries(asked, self.offsets)

    def compared_chunks(self, vectors: Floats) -> Floats:
        """All chunks (n, d) by the served encoder, as search compares them with `compared_queries`."""
        return compared_chunks(vectors, self.offsets)

    def vectors(self, encoder: Encoder, strength: float, chunks: Sequence[Chunk], name: str) -> Floats:
        """The chunks' unit vectors, where `encoder` encodes queries with the adapter at `strength` (λ): of the untouched
        encoder where the adapter acts on queries alone, of the chunks' own adapter where they have one."""
        alone = self.adapter_scope == "queries"
        if alone and self._of_base is not None:
            return self._of_base[np.searchsorted(self.ids, [chunk.id for chunk in chunks])]
        vectors = self.own_vectors(self._of_chunks(encoder, strength), chunks, name)
        if alone and name == "base" and len(chunks) == len(self.chunks):
            self._of_base = vectors
        return vectors

    def general(self, encoder: Encoder, strength: float) -> General:
        """How well `encoder`, with the adapter at `strength` (λ), answers the questions of general knowledge."""
        from engine.evaluation.general_knowledge import answered, general_knowledge

        known = general_knowledge()
        if (
            self._passages is None or self.adapter_scope != "queries"
        ):  # an adapter for queries alone leaves passages as they are
            of_chunks = self._of_chunks(encoder, strength)
            self._passages = of_chunks.encode_chunks(known.passages, between_batches(self._context))
        return answered(encoded_queries(self._context, encoder, known.questions), self._passages), self._passages

    def general_of(self, encoder: Encoder, of_chunks: Encoder) -> General:
        """As `general`, of encoders of queries and of chunks."""
        from engine.evaluation.general_knowledge import answered, general_knowledge

        known = general_knowledge()
        passages = of_chunks.encode_chunks(known.passages, between_batches(self._context))
        return answered(encoded_queries(self._context, encoder, known.questions), passages), passages

    def _of_chunks(self, encoder: Encoder, strength: float) -> Encoder:
        """The encoder of chunks where queries have `encoder` with the adapter at `strength` (λ)."""
        from engine.encoders.for_project import chunk_adapter, load_encoder

        if strength and self.adapter_scope == "both-then-queries":
            return load_encoder(
                self._context, self._hardware, chunk_adapter(self.adapter, self.adapter_scope), strength
            )
        return encoder


def between_batches(context: StageContext) -> Callable[[int], None]:
    """What an encoder calls after each batch: whoever cancels the run does not wait for the last of thousands of texts."""
    return lambda _: context.check_stop()


def encoded_queries(context: StageContext, encoder: Encoder, texts: Sequence[str]) -> Floats:
    """Unit vectors (q, d) of queries. Raises CancelledError."""
    return encoder.encode_queries(texts, between_batches(context))


def compared_queries(asked: Floats, offsets: Floats | None) -> Floats:
    """Queries (q, d) such that their products with `compared_chunks` are cosines less `offsets`; as they are without any."""
    return asked if offsets is None else np.column_stack([asked, np.ones(len(asked), np.float32)])


def compared_chunks(vectors: Floats, offsets: Floats | None) -> Floats:
    """Chunks (n, d) to multiply with `compared_queries`; `offsets` (n,): what is taken from each one's cosines."""
    return vectors if offsets is None else np.column_stack([vectors, -offsets])
