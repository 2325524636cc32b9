"""Rankings of queries over the whole corpus, by BM25 and the encoders of an evaluation.

Rankings of many queries are arrays: ids (q, depth) int64, best first, padded with −1, and scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from engine.core.arrays import Floats, Ids
from engine.core.records import Chunk
from engine.core.systems import BM25
from engine.encoders.for_project import chunk_adapter, load_encoder, open_cache
from engine.encoders.geometry.similarity import COSINE, Similarity
from engine.evaluation.candidates import Candidate
from engine.metrics.relevance import pad_rows
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo, LexicalInfo
from engine.project.store.chunks import chunk_ids_of, document_ids_of
from engine.ranking.nearest import BLOCK, rank_all

if TYPE_CHECKING:
    from engine.encoders.embedding_cache import EmbeddingCache
    from engine.encoders.encoder import Encoder
    from engine.evaluation.query_sets import QuerySet
    from engine.lexical.index import LexicalIndex

PLAIN = ".plain"
"""Folder of the plain BM25 index, which is removed at the end of the stage."""
SAMPLE = ".sample"
"""Folder of the BM25 index of a sample of the chunks, which is removed as well."""


@dataclass(frozen=True, slots=True)
class AllExcept:
    """All chunks except these `ids` (n,).

    Listing the allowed ones of a million chunks instead would take 8 MB for each query.
    """

    ids: Ids


AllowedChunks = Sequence[Ids | AllExcept | None]
"""Per query, the ids of the chunks to rank; None: all."""


class Rankers:
    """BM25 and encoders over one corpus, to the depth that the settings say.

    `chunks` ascend by id. `lexical` is the chunks' BM25 index; None: the project's.
    """

    def __init__(
        self, context: StageContext, chunks: Sequence[Chunk], lexical: LexicalIndex | None = None
    ) -> None:
        self._context = context
        self.chunks = chunks
        self._lexical = lexical
        self.ids = chunk_ids_of(chunks)
        self._owners = document_ids_of(chunks)
        # The chunks' vectors, if all candidates have the same.
        self._vectors: Floats | None = None

    @cached_property
    def adapter(self) -> Path | None:
        """The trained adapter's folder, or None. Raises NotBuiltError before the first training."""
        folder = self._context.need(AdapterInfo).info.adapter
        if folder:
            return self._context.project.path / folder
        return None

    @property
    def weights(self) -> list[float]:
        """The interpolation weights to compare: 0 (base), and with an adapter others up to 1."""
        if not self.adapter:
            return [0.0]
        interpolations = self._context.settings.evaluation.interpolation_weights
        return [
            0.0,
            *sorted(interpolations),
            1.0,
        ]

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The BM25 index."""
        from engine.lexical.index import LexicalIndex

        if self._lexical is not None:
            return self._lexical
        return LexicalIndex.open(self._context.project.folder_of(self._context.need(LexicalInfo)))

    @cached_property
    def texts(self) -> dict[int, str]:
        """The text of each chunk that encoders see, by id."""
        return {chunk.id: chunk.embedded_text for chunk in self.chunks}

    def document_of(self, ids: Ids) -> Ids:
        """Return the document of each chunk, in the shape of `ids`."""
        return self._owners[np.searchsorted(self.ids, ids)]

    def find_allowed(self, queries: QuerySet) -> AllowedChunks:
        """Return the chunks to rank for each query.

        These are the chunks of the documents that the query names, or of all documents if it names
        none, without those that are neither right nor wrong for it.
        """
        chunks_of: dict[frozenset[int], Ids] = {}
        allowed: list[Ids | AllExcept | None] = []
        for row, match in enumerate(queries.matches):
            documents = match.documents
            if documents and documents not in chunks_of:
                chunks_of[documents] = self.ids[np.isin(self._owners, list(documents))]
            chunks = chunks_of.get(documents)
            excluded = np.array(sorted(queries.ignored_by(row)), dtype=np.int64)
            if not len(excluded):
                allowed.append(chunks)
            elif chunks is None:
                allowed.append(AllExcept(excluded))
            else:
                allowed.append(np.setdiff1d(chunks, excluded))
        return allowed

    def bm25(self, texts: Sequence[str], allowed: AllowedChunks) -> tuple[Ids, Floats]:
        """Return ids and scores (q, depth) of each text's best chunks."""
        depth = self._context.settings.evaluation.depth
        index = self.lexical
        hits = list(index.search_many(texts, depth))
        for row, chunks in enumerate(allowed):
            if isinstance(chunks, AllExcept):
                hits[row] = index.search_without(
                    texts[row],
                    depth,
                    chunks.ids,
                )
            elif chunks is not None:
                hits[row] = index.search(
                    texts[row],
                    depth,
                    chunks,
                )
        self._context.check_stop()
        return pad_lists(hits, depth)

    def candidate(self, weight: float) -> Candidate:
        """Return the encoder at an interpolation weight of the trained adapter."""
        scope = self._context.need(AdapterInfo).info.adapter_scope
        base = None
        if self.shares_chunk_encoder:
            base = self._base_encoder
        return Candidate(
            self._context,
            self.adapter,
            scope,
            weight,
            base,
            self._cache,
        )

    def chunk_vectors(self, candidate: Candidate) -> Floats:
        """Return a candidate's vectors (n, d) of the chunks.

        If only queries are adapted, they are kept for the next candidate, which has the same.
        """
        if not self.shares_chunk_encoder:
            return candidate.chunk_vectors(self.chunks)
        if self._vectors is None:
            self._vectors = candidate.chunk_vectors(self.chunks)
        return self._vectors

    def free_vectors(self) -> None:
        """Free the vectors that `chunk_vectors` keeps: those of a million chunks take 1.5 GB."""
        self._vectors = None

    @cached_property
    def shares_chunk_encoder(self) -> bool:
        """Whether all candidates encode chunks alike: only queries are adapted."""
        scope = self._context.need(AdapterInfo).info.adapter_scope
        return chunk_adapter(self.adapter, scope) is None

    @cached_property
    def _cache(self) -> EmbeddingCache:
        """The project's cache of vectors, which all candidates share: opening it takes long."""
        return open_cache(self._context)

    @cached_property
    def _base_encoder(self) -> Encoder:
        """The base encoder; it encodes the chunks of all candidates if only queries are adapted."""
        return load_encoder(self._context)

    def nearest(
        self,
        queries: Floats,
        chunks: Floats,
        allowed: AllowedChunks,
        similarity: Similarity = COSINE,
    ) -> tuple[Ids, Floats]:
        """Return ids and scores (q, depth) of the nearest chunks (n, d) to the queries (q, d)."""
        depth = self._context.settings.evaluation.depth
        query_form = similarity.query_form(queries)
        chunk_form = similarity.chunk_form(chunks)
        ids, products = rank_within(
            query_form,
            chunk_form,
            self.ids,
            depth,
            allowed,
        )
        return ids, similarity.of_products(products)

    def rank_by_encoder(
        self,
        name: str,
        queries: QuerySet,
        vectors: Floats,
        chunks: Floats,
        allowed: AllowedChunks,
        similarity: Similarity,
    ) -> None:
        """Add an encoder's rankings to a set that BM25 has ranked, and its scores of BM25's hits.

        `vectors` (q, d) are the queries', `chunks` (n, d) the chunks'.
        """
        ids, scores = self.nearest(
            vectors,
            chunks,
            allowed,
            similarity,
        )
        bm25_ids = queries.rankings[BM25]
        queries.rankings[name] = ids
        queries.scores[name] = scores
        queries.cross_scores[name] = self.scores_of(
            vectors,
            chunks,
            bm25_ids,
            similarity,
        )

    def scores_of(
        self, queries: Floats, chunks: Floats, ids: Ids, similarity: Similarity = COSINE
    ) -> Floats:
        """Return scores (q, n) of the chunks `ids` (q, n) for each query, −inf where padded."""
        query_form = similarity.query_form(queries)
        chunk_form = similarity.chunk_form(chunks)
        return similarity.of_products(products_of(query_form, chunk_form, self.ids, ids))


def build_plain_index(context: StageContext, chunks: Sequence[Chunk]) -> LexicalIndex | None:
    """Build the index of plain BM25, as in papers, or return None if it is not configured."""
    if not context.settings.evaluation.plain_bm25:
        return None
    from engine.lexical.index import LexicalIndex
    from engine.lexical.stage import index_without

    folder = index_without(context, PLAIN, chunks, untitled=None).folder
    return LexicalIndex.open(folder, code_bonus=False)


def build_sample_index(context: StageContext, chunks: Sequence[Chunk]) -> LexicalIndex:
    """Build the BM25 index of a sample of the chunks, as if the project had no others."""
    from engine.lexical.stage import index_without

    return index_without(
        context,
        SAMPLE,
        chunks,
        untitled=(),
    )


def pad_lists(lists: Sequence[tuple[Ids, Floats]], depth: int) -> tuple[Ids, Floats]:
    """Return lists of ids and scores as two arrays (q, depth), padded with −1 and −inf."""
    ids = pad_rows(
        [list_ids for list_ids, _ in lists],
        -1,
        np.int64,
        depth,
    )
    scores = pad_rows(
        [list_scores for _, list_scores in lists],
        -np.inf,
        np.float32,
        depth,
    )
    return ids, scores


def rank_within(
    queries: Floats, chunks: Floats, keys: Ids, depth: int, allowed: AllowedChunks
) -> tuple[Ids, Floats]:
    """Rank as `rank_all`, each query only among its allowed chunks, padded with −1 and −inf.

    `queries` (q, d), `chunks` (N, d) with the ascending ids `keys` (N,).
    """
    ids = np.full(
        (len(queries), min(depth, len(keys))),
        -1,
        dtype=np.int64,
    )
    scores = np.full(
        ids.shape,
        -np.inf,
        dtype=np.float32,
    )
    unrestricted: list[int] = []
    excluded: list[Ids] = []
    for row, allowed_ids in enumerate(allowed):
        if not isinstance(allowed_ids, np.ndarray):
            unrestricted.append(row)
            excluded.append(_find_excluded(keys, allowed_ids))
            continue
        inside = np.isin(keys, allowed_ids)
        if not inside.any():
            continue
        best, products = rank_all(
            queries[row : row + 1],
            chunks[inside],
            keys[inside],
            depth,
        )
        width = best.shape[1]
        ids[row, :width] = best[0]
        scores[row, :width] = products[0]
    # Queries without a list of allowed chunks are ranked together.
    if unrestricted:
        best, products = rank_all(
            queries[unrestricted],
            chunks,
            keys,
            depth,
            excluded,
        )
        ids[unrestricted] = best
        scores[unrestricted] = products
    return ids, scores


def _find_excluded(keys: Ids, allowed: AllExcept | None) -> Ids:
    """Return the positions of excluded chunks in the ascending `keys`."""
    if allowed is None:
        return keys[:0]
    # Searching without the last key gives an id above all keys a valid position, too.
    positions = np.searchsorted(keys[:-1], allowed.ids)
    present: Ids = positions[keys[positions] == allowed.ids]
    return present


def products_of(
    queries: Floats,
    chunks: Floats,
    keys: Ids,
    ids: Ids,
) -> Floats:
    """Return inner products (q, n) of each query (q, d) with the chunks `ids` (q, n).

    `chunks` (N, d) are named by the ascending `keys` (N,). The product is −inf where `ids` is −1.
    """
    products = np.empty(ids.shape, dtype=np.float32)
    # Padding is looked up as the first chunk; its product is overwritten at the end.
    rows = np.searchsorted(keys, np.maximum(ids, keys[:1]))
    for start in range(0, len(ids), BLOCK):
        block = slice(start, start + BLOCK)
        vectors = chunks[rows[block]]  # (b, n, d)
        products[block] = np.einsum(
            "qd,qnd->qn",
            queries[block],
            vectors,
        )
    products[ids < 0] = -np.inf
    return products
