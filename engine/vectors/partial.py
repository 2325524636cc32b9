"""Unfinished indexes of the chunks embedded so far, searched while the others are embedded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from engine.core.platforms.files import try_remove_tree
from engine.encoders.embedding_cache import CachedRows
from engine.project.stage import StageContext
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import INCOMPLETE, Artifact
from engine.vectors.index import VectorIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.core.arrays import Ids
    from engine.core.records import Document
    from engine.encoders.embedding_cache import VectorCache
    from engine.encoders.geometry.similarity import Similarity

FIRST_SECONDS = 2.0
"""Time before the first unfinished index, so that a quick embedding writes only the whole one."""
WORTHWHILE = 0.1
"""Minimum number of new chunks, as a share of the chunks that the present index contains."""
NEXT_SECONDS = 10.0
"""Minimum time between two unfinished indexes."""
WAIT_PER_WRITE = 20
"""After a write that took t seconds, the next index is written at least this times t later."""


def newest_and_smallest_first(owners: Sequence[int], documents: Sequence[Document]) -> Ids:
    """Return the order (n,) in which to embed chunks, as positions in `owners`.

    `owners` (n,): the document id of each chunk. Documents are sorted by the sum of two places:
    among all sorted by age, and among all sorted by size.
    """
    newest_first = sorted(documents, key=lambda document: -document.modified)
    smallest_first = sorted(documents, key=lambda document: document.size)
    places: Counter[int] = Counter()
    for ordered in (newest_first, smallest_first):
        for place, document in enumerate(ordered):
            places[document.id] += place
    owner_places = [places[owner] for owner in owners]
    return np.argsort(owner_places, kind="stable").astype(np.int64)


class PartialIndex:
    """Callback for new vectors in the cache, which publishes an unfinished index now and then.

    An index is published only if it contains more chunks than the one that is searched. While an
    index of another encoder is searched, or if the user forces a rebuild, nothing is published.

    `index`: the latest index, to which new chunks are added; None to start with an empty one. `ids`
    (n,): the chunks to embed. `info`: returns the record of an index of so many chunks.
    `first_seconds`, `worthwhile`: see `FIRST_SECONDS`, `WORTHWHILE`.
    """

    def __init__(
        self,
        context: StageContext,
        index: VectorIndex | None,
        ids: Ids,
        similarity: Similarity,
        dtype: str,
        info: Callable[[int], VectorsInfo],
        first_seconds: float = FIRST_SECONDS,
        worthwhile: float = WORTHWHILE,
    ) -> None:
        self._context = context
        self._ids = ids
        self._similarity = similarity
        self._dtype = dtype
        self._info = info
        former = context.store.artifact(VectorsInfo)
        self._present = former if former and former.folder else None
        self.index = index
        self._due = time.monotonic() + first_seconds
        self._worthwhile = index is None or len(ids) >= worthwhile * index.count

    def __call__(self, cache: VectorCache, keys: NDArray[np.bytes_]) -> None:
        """Publish an index if it is time for one. `keys` (n,): content hashes of the chunks."""
        start = time.monotonic()
        if start < self._due or not self._worthwhile:
            return
        places = cache.find(keys)  # −1 for a chunk that is not embedded yet
        is_embedded = places >= 0
        indexed = self.index.keys() if self.index else self._ids[:0]
        is_new = is_embedded & ~np.isin(self._ids, indexed)
        count = len(indexed) + int(is_new.sum())
        # Once all chunks are embedded, the stage itself writes the whole index.
        if not is_embedded.all() and self._finds_more(count):
            vectors = CachedRows(
                cache,
                places[is_new],
                self._similarity,
            )
            self._publish(self._ids[is_new], vectors)
        duration = time.monotonic() - start
        self._due = time.monotonic() + max(NEXT_SECONDS, WAIT_PER_WRITE * duration)

    def _finds_more(self, count: int) -> bool:
        """Return whether an index of `count` chunks may replace the one that is searched."""
        present = self._present
        if present is None:
            return True
        info = self._info(count)
        if present.info.chunk_encoder != info.chunk_encoder:
            return False
        if present.info.encoder != info.encoder:
            return False
        return present.fingerprint != self._context.fingerprint and count > present.info.chunks

    def _publish(self, ids: Ids, vectors: CachedRows) -> None:
        """Write an index with these chunks added, and make it the one that is searched."""
        context = self._context
        count = len(ids)
        if self.index is not None:
            if self.index.needs_rebuild(ids):
                return  # the whole index is built at the end
            count += self.index.count
        # Each index gets a new name: searchers do not reopen a folder of the same name.
        with context.project.building("vectors", f"{context.fingerprint}-{count}") as building:
            if self.index is None:
                VectorIndex.build(
                    building.folder, ids, vectors, similarity=self._similarity, dtype=self._dtype
                )
            else:
                self.index.updated(
                    building.folder,
                    ids,
                    vectors,
                    (),
                )
        self.index = VectorIndex.open(context.project.path / building.name)
        replaced = self._present
        self._present = Artifact(
            self._info(count),
            INCOMPLETE,
            building.name,
        )
        context.store.put_artifact(self._present)
        if replaced is not None and replaced.fingerprint == INCOMPLETE:
            # On Windows, an index that searchers have mapped cannot be deleted yet.
            try_remove_tree(context.project.path / replaced.folder)
