"""An index of what is embedded so far, to search in while the rest is being embedded."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.encoders.embedding_cache import CachedRows
from engine.project.stage import StageContext
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import INCOMPLETE, Artifact
from engine.vectors.index import VectorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.core.records import Document
    from engine.core.similarity import Similarity
    from engine.encoders.embedding_cache import VectorCache

FIRST_SECONDS = 2.0
"""What is embedded sooner has its whole index at once."""
WORTHWHILE = 0.1
"""Of what is searched by meaning already, the share that must be added to it: less has its place
at the end.
"""
NEXT_SECONDS = 10.0
SHARE = 20  # so many times as long as it took to write the last one must pass before the next


def newest_and_smallest_first(
    owners: Sequence[int], documents: Sequence[Document]
) -> NDArray[np.int64]:
    """The rows of the chunks of documents `owners` (n,) in the order in which they are embedded:
    documents by the sum of their places by age and by size.
    """
    by_age = sorted(documents, key=lambda one: -one.modified)
    by_size = sorted(documents, key=lambda one: one.size)
    places = dict.fromkeys((one.id for one in documents), 0)
    for ordered in (by_age, by_size):
        for place, document in enumerate(ordered):
            places[document.id] += place
    return np.argsort([places.get(owner, 0) for owner in owners], kind="stable").astype(np.int64)


class PartialIndex:
    """Is called with the cache whenever it has gained vectors; now and then puts an unfinished
    index in place.

    Only where that finds more than the present index: one of another encoder, or that is forced
    anew, stays until the end.
    `index`: the latest one, on which the next is built; `ids` (n,): the chunks that are embedded
        now.
    """

    def __init__(
        self,
        context: StageContext,
        index: VectorIndex | None,
        ids: NDArray[np.int64],
        similarity: Similarity,
        dtype: str,
        info: Callable[[int], VectorsInfo],
    ) -> None:
        self._context = context
        self._ids = ids
        self._similarity = similarity
        self._dtype = dtype
        self._info = info
        former = context.store.artifact(VectorsInfo)
        self._former = former if former and former.folder else None
        self.index = index
        self._due = time.monotonic() + FIRST_SECONDS
        self._worthwhile = index is None or len(ids) >= WORTHWHILE * index.count

    def __call__(self, cache: VectorCache, keys: NDArray[np.bytes_]) -> None:
        """`keys` (n,): the content hashes of the chunks."""
        started = time.monotonic()
        if started < self._due or not self._worthwhile:
            return
        places = cache.find(keys)
        there = places >= 0
        if self.index:
            known = self.index.keys()
        else:
            known = self._ids[:0]
        fresh = there & ~np.isin(self._ids, known)
        if not there.all() and self._finds_more(len(known) + int(fresh.sum())):
            self._put(self._ids[fresh], CachedRows(cache, places[fresh], self._similarity))
        took = time.monotonic() - started
        self._due = time.monotonic() + max(NEXT_SECONDS, SHARE * took)

    def _finds_more(self, count: int) -> bool:
        former = self._former
        info = self._info(count)
        if former is None:
            return True
        same = (former.info.chunk_encoder, former.info.encoder) == (
            info.chunk_encoder,
            info.encoder,
        )
        return (
            same and former.fingerprint != self._context.fingerprint and count > former.info.chunks
        )

    def _put(self, ids: NDArray[np.int64], vectors: CachedRows) -> None:
        context = self._context
        count = len(ids) + (self.index.count if self.index else 0)
        # no name is used twice: searchers take an index of the same name for the one that they have
        with context.project.building("vectors", f"{context.fingerprint}-{count}") as building:
            if self.index is None:
                VectorIndex.build(
                    building.folder, ids, vectors, similarity=self._similarity, dtype=self._dtype
                )
            elif self.index.updated(building.folder, ids, vectors, ()) is None:
                return  # the whole index is built anew at the end
        self.index = VectorIndex.open(context.project.path / building.name)
        former = self._former
        self._former = Artifact(self._info(count), INCOMPLETE, building.name)
        context.store.put_artifact(self._former)
        if former is not None and former.fingerprint == INCOMPLETE:  # searchers have it in memory
            shutil.rmtree(context.project.path / former.folder, ignore_errors=True)
