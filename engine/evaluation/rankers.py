"""BM25 and the encoders of an evaluation, as they rank queries over the whole corpus.

Rankings of many queries are arrays: ids (q, depth) int64, best first, −1 where padded, with their
scores.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.core.records import Chunk
from engine.core.similarity import COSINE, Similarity
from engine.evaluation.candidates import Candidate
from engine.metrics.relevance import pad_rows
from engine.project.stage import StageContext
from engine.project.store.artifact_info import AdapterInfo, LexicalInfo
from engine.project.store.chunks import IN_MEMORY

if TYPE_CHECKING:
    from engine.evaluation.query_sets import QuerySet
    from engine.lexical.index import LexicalIndex

Ids = NDArray[np.int64]
Floats = NDArray[np.float32]
PLAIN = ".plain"
"""Folder of the plain BM25 index; the sweep at the end of the stage removes it."""
BLOCK = 256
PRODUCTS = 256 * IN_MEMORY


@dataclass(frozen=True, slots=True)
class Without:
    """All chunks but those of these `ids` (n,): of a million chunks, an array of the others
    takes 8 MB for each query.
    """

    ids: Ids


Among = Sequence[Ids | Without | None]
"""Per query, the chunks that it is ranked among; None: all."""


class Rankers:
    """A corpus as systems rank it.

    `ids`: of all `chunks`, ascending. Depth as in the settings. `lexical`: the BM25 index of the
    chunks, that of the project where None.
    """

    def __init__(
        self, context: StageContext, chunks: list[Chunk], lexical: LexicalIndex | None = None
    ) -> None:
        self._context = context
        self.chunks = chunks
        self._lexical = lexical
        self.ids = np.array([chunk.id for chunk in chunks], dtype=np.int64)  # ascending
        self._owners = np.array([chunk.document_id for chunk in chunks], dtype=np.int64)

    @cached_property
    def adapter(self) -> Path | None:
        """The trained adapter's folder, or None. Raises NotBuiltError before the first training."""
        folder = self._context.need(AdapterInfo).info.adapter
        if folder:
            return self._context.project.path / folder
        return None

    @cached_property
    def lexical(self) -> LexicalIndex:
        """The BM25 index."""
        from engine.lexical.index import LexicalIndex

        if self._lexical is not None:
            return self._lexical
        return LexicalIndex.open(self._context.project.folder_of(self._context.need(LexicalInfo)))

    def document_of(self, ids: Ids) -> Ids:
        """The document of each chunk, in the shape of `ids`."""
        return self._owners[np.searchsorted(self.ids, ids)]

    def allowed(self, one: QuerySet) -> Among:
        """Per query, the chunks that it is looked for among: those of the documents that it
        names, without those that are neither right nor wrong.
        """
        named = {match.documents for match in one.matches if match.documents}
        chunks = {
            documents: self.ids[np.isin(self._owners, list(documents))] for documents in named
        }
        found: list[Ids | Without | None] = [chunks.get(match.documents) for match in one.matches]
        for row, ignored in enumerate(one.ignored):
            if ignored:
                allowed = chunks.get(one.matches[row].documents)
                out = np.array(sorted(ignored), dtype=np.int64)
                found[row] = Without(out) if allowed is None else np.setdiff1d(allowed, out)
        return found

    def bm25(self, texts: Sequence[str], among: Among) -> tuple[Ids, Floats]:
        """Ids and scores (q, depth) of each text's best chunks, of those that it is looked for
        `among`.
        """
        context = self._context
        depth = self._context.settings.evaluation.depth
        index = self.lexical
        found = list(index.search_many(texts, depth))
        for row, allowed in enumerate(among):
            if isinstance(allowed, Without):
                found[row] = index.search_without(texts[row], depth, allowed.ids)
            elif allowed is not None:
                found[row] = index.search(texts[row], depth, allowed)
        context.check_stop()
        return padded(found, depth)

    def candidate(self, weight: float) -> Candidate:
        """The encoder at an interpolation weight of the trained adapter."""
        scope = self._context.need(AdapterInfo).info.adapter_scope
        return Candidate(self._context, self.adapter, scope, weight)

    def nearest(
        self, queries: Floats, chunks: Floats, among: Among, similarity: Similarity = COSINE
    ) -> tuple[Ids, Floats]:
        """Ids and scores (q, depth) of the chunks, with vectors `chunks` (n, d), that come first
        for the queries (q, d).
        """
        forms = similarity.query_form(queries), similarity.chunk_form(chunks)
        ids, products = rank_within(
            *forms, self.ids, self._context.settings.evaluation.depth, among
        )
        return ids, similarity.of_products(products)

    def scores_of(
        self, queries: Floats, chunks: Floats, ids: Ids, similarity: Similarity = COSINE
    ) -> Floats:
        """Scores (q, n) of the chunks `ids` (q, n) for each query; −inf where `ids` is −1."""
        products = products_of(
            similarity.query_form(queries), similarity.chunk_form(chunks), self.ids, ids
        )
        return similarity.of_products(products)


def plain_index(context: StageContext, chunks: list[Chunk]) -> LexicalIndex | None:
    """Return what BM25 as papers have it ranks by, made beside the project's own; None where
    that is not asked for.
    """
    if not context.settings.evaluation.plain_bm25:
        return None
    from engine.lexical.stage import index_without

    folder = context.project.path / "lexical" / PLAIN
    shutil.rmtree(folder, ignore_errors=True)
    return index_without(context, folder, chunks, untitled=None).without_bonus()


def padded(lists: Sequence[tuple[Ids, Floats]], depth: int) -> tuple[Ids, Floats]:
    """Ragged (ids, scores) pairs as two arrays (q, depth); scores are −inf where padded."""
    ids = pad_rows([found for found, _ in lists], -1, np.int64, depth)
    return ids, pad_rows([values for _, values in lists], -np.inf, np.float32, depth)


def rank_all(
    queries: Floats, chunks: Floats, keys: Ids, depth: int, without: Sequence[Ids] = ()
) -> tuple[Ids, Floats]:
    """Exact ranking by inner product of `chunks` (N, d), named by `keys` (N,), for `queries` (q,
    d).

    Returns ids and products (q, min(depth, N)); equal ones in order of key. `without`: for each
    query, places in `keys` of chunks that it is not to find; padded as by `padded` where fewer than
    `depth` are left.
    """
    depth = min(depth, len(keys))
    block = max(1, min(BLOCK, PRODUCTS // max(1, len(keys))))
    ids = np.empty((len(queries), depth), dtype=np.int64)
    scores = np.empty((len(queries), depth), dtype=np.float32)
    for start in range(0, len(queries), block):
        product = queries[start : start + block] @ chunks.T  # (b, N)
        for row, places in enumerate(without[start : start + block]):
            product[row, places] = -np.inf
        best = np.argpartition(-product, depth - 1, axis=1)[:, :depth]
        value = np.take_along_axis(product, best, axis=1)
        order = np.lexsort((keys[best], -value), axis=1)
        rows = slice(start, start + len(product))
        ids[rows] = keys[np.take_along_axis(best, order, axis=1)]
        scores[rows] = np.take_along_axis(value, order, axis=1)
    ids[np.isneginf(scores)] = -1
    return ids, scores


def rank_within(
    queries: Floats, chunks: Floats, keys: Ids, depth: int, among: Among
) -> tuple[Ids, Floats]:
    """`rank_all`, each query (of q) among the chunks of `among` alone; padded as by `padded`.

    `keys` ascend.
    """
    ids = np.full((len(queries), min(depth, len(keys))), -1, dtype=np.int64)
    scores = np.full(ids.shape, -np.inf, dtype=np.float32)
    if free := [row for row, allowed in enumerate(among) if not isinstance(allowed, np.ndarray)]:
        without = [_places(keys, among[row]) for row in free]
        ids[free], scores[free] = rank_all(queries[free], chunks, keys, depth, without)
    for row, allowed in enumerate(among):
        if not isinstance(allowed, np.ndarray) or not (inside := np.isin(keys, allowed)).any():
            continue
        found, values = rank_all(queries[row : row + 1], chunks[inside], keys[inside], depth)
        ids[row, : found.shape[1]] = found[0]
        scores[row, : found.shape[1]] = values[0]
    return ids, scores


def _places(keys: Ids, among: Ids | Without | None) -> Ids:
    """Where in `keys`, ascending, those stand that are left out."""
    if isinstance(among, Without):
        ids = among.ids
    else:
        ids = keys[:0]
    places = np.minimum(np.searchsorted(keys, ids), len(keys) - 1)
    found: Ids = places[keys[places] == ids]
    return found


def products_of(queries: Floats, chunks: Floats, keys: Ids, ids: Ids) -> Floats:
    """Inner products (q, n) of each query (q, d) with the chunks `ids` (q, n); `chunks` (N, d)
    are named by `keys` (N,), ascending.

    -inf where `ids` is -1.
    """
    products = np.empty(ids.shape, dtype=np.float32)
    rows = np.searchsorted(keys, np.maximum(ids, keys[:1]))
    for start in range(0, len(ids), BLOCK):
        part = slice(start, start + BLOCK)
        products[part] = np.einsum("qd,qnd->qn", queries[part], chunks[rows[part]])
    products[ids < 0] = -np.inf
    return products
