"""The chunks of a large corpus: of a million, all of what they hold takes several GB."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from engine.core.records import Chunk

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

IN_MEMORY = 100_000  # so many chunks are read at once; of more, each when it is wanted


class StoredChunk(Chunk):
    """A chunk with its id, document and content hash; all else is read when it is wanted."""

    __slots__ = ("_read",)

    @classmethod
    def of(cls, *row: Any) -> StoredChunk:
        """`row`: id, document id, content hash, and a function that reads a chunk by its id."""
        chunk = object.__new__(cls)
        for name, value in zip(("id", "document_id", "content_hash", "_read"), row, strict=True):
            object.__setattr__(chunk, name, value)
        return chunk

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "_read")(self.id), name)


def drawn(total: int, seed: int, needed: Iterable[ArrayLike] = (), most: int = 0) -> NDArray[np.int64]:
    """Places of chunks, ascending: all of `total`, or `most` (`IN_MEMORY`) at random and those `needed`, where −1 is none."""
    import numpy as np

    found = np.concatenate(
        [np.random.default_rng([seed, 7]).permutation(total)[: most or IN_MEMORY], *map(np.ravel, needed)]
    )
    return np.unique(found[found >= 0]).astype(np.int64)
