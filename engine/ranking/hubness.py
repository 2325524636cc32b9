"""Hubness correction: hubs are chunks that are near to any query, and so stand in rankings where they do not belong.

Cross-domain similarity local scaling (Conneau et al. 2018, section 2.3) takes from a cosine the mean cosine of the chunk to
its `NEIGHBOURS` nearest queries: CSLS(q, c) = 2·cos(q, c) − r(q) − r(c). r(q) is the same for all chunks, so halving leaves

    similarity(q, c) = cos(q, c) − r(c)/2,

which needs one number of each chunk and no more time in a search. The queries are training queries, of other articles than
the chunk's own (engine/queries/articles.py: the files or entries that are parts of one).

An index of cosines serves it when vectors get two more numbers: a chunk [c, −o, √(1 − o²)]/√2 and a query [q, 1, 0]/√2 are of
unit length, and twice their inner product is q·c − o (compare Bachrach et al. 2014).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from engine.core.errors import DamagedError
from engine.core.similarity import IndexForm, Similarity
from engine.core.unit_vectors import unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NEIGHBOURS = 10
MIN_QUERIES = 200
"""With fewer training queries their neighbourhoods say little."""
MIN_ARTICLES = 10
"""Made of fewer, they leave out most queries for the chunks of some articles, and none for those of others."""
MAX_QUERIES = 6000
FILE = "hub_queries.npz"
_BLOCK = 1024


@dataclass(frozen=True)
class HubnessReference:
    """Training queries, whose neighbourhoods show hubs: unit vectors (m, d), and the numbers of their articles (m,)."""

    vectors: NDArray[np.float32]
    articles: NDArray[np.int64]

    def similarity(
        self, vectors: NDArray[np.float32], articles: NDArray[np.int64], check: Callable[[], None] = lambda: None
    ) -> Similarity:
        """The similarity of queries to chunks with unit vectors `vectors` (n, d), of `articles` (n,)."""
        return Csls(hub_offsets(vectors, articles, self, check))


class CslsIndexForm(IndexForm):
    """Two numbers more: twice the cosine is the similarity."""

    name, added, corrects = "csls", 2, True

    def query_rows(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """[q, 1, 0]/√2."""
        import numpy as np

        added = np.broadcast_to(np.array([1.0, 0.0], np.float32), (*queries.shape[:-1], self.added))
        return np.asarray(np.concatenate([queries, added], axis=-1) / np.sqrt(2.0), np.float32)

    def similarities(self, cosines: NDArray[np.float32], query_row: NDArray[np.float32]) -> NDArray[np.float32]:
        """Twice the cosines."""
        return 2 * cosines

    def vectors(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Without the numbers that were added."""
        return unit_rows(rows[:, : -self.added])

    def corrections(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """The offsets."""
        import numpy as np

        return np.asarray(-rows[:, -self.added] * np.sqrt(2.0), np.float32)


@dataclass(frozen=True)
class Csls:
    """Cosines less `offsets` (n,), one of each chunk."""

    offsets: NDArray[np.float32]
    index_form: ClassVar[CslsIndexForm] = CslsIndexForm()

    def index_rows(self, chunks: NDArray[np.float32]) -> NDArray[np.float32]:
        """[c, −o, √(1 − o²)]/√2, for offsets in [−1, 1]."""
        import numpy as np

        rest = np.sqrt(np.maximum(0.0, 1.0 - self.offsets**2))
        return np.asarray(np.column_stack([chunks, -self.offsets, rest]) / np.sqrt(2.0), np.float32)

    def query_form(self, queries: NDArray[np.float32]) -> NDArray[np.float32]:
        """[q, 1]."""
        import numpy as np

        return np.column_stack([queries, np.ones(len(queries), np.float32)])

    def chunk_form(self, chunks: NDArray[np.float32]) -> NDArray[np.float32]:
        """[c, −o]."""
        import numpy as np

        return np.column_stack([chunks, -self.offsets])


def hub_offsets(
    vectors: NDArray[np.float32],
    articles: NDArray[np.int64],
    reference: HubnessReference,
    check: Callable[[], None] = lambda: None,
) -> NDArray[np.float32]:
    """r(c)/2 (n,) of chunks with unit vectors `vectors` (n, d), of `articles` (n,).

    Queries of a chunk's own article do not count for it: else chunks that have some would stand behind those that have none,
    whatever the query. `check` is called now and then, and may raise.
    """
    import numpy as np

    offsets = np.zeros(len(vectors), np.float32)
    for start in range(0, len(vectors), _BLOCK):
        check()
        block = slice(start, start + _BLOCK)
        cosines = vectors[block] @ reference.vectors.T
        cosines[articles[block, None] == reference.articles] = -np.inf
        nearest = min(NEIGHBOURS, cosines.shape[1])
        best = np.partition(cosines, -nearest, axis=1)[:, -nearest:]
        counted = np.isfinite(best)
        offsets[block] = np.where(counted, best, 0).sum(axis=1) / np.maximum(1, counted.sum(axis=1)) / 2
    return np.asarray(np.clip(offsets, -1.0, 1.0), np.float32)


def write_reference(folder: Path, reference: HubnessReference) -> None:
    """Keep the queries' vectors, in half precision, and their articles in `folder`."""
    import numpy as np

    with (folder / FILE).open("wb") as file:
        np.savez(file, vectors=reference.vectors.astype(np.float16), articles=reference.articles)
    (folder / FILE).chmod(0o600)


def read_reference(folder: Path) -> HubnessReference:
    """What `write_reference` kept. Raises DamagedError where it cannot be read."""
    import numpy as np

    try:
        with np.load(folder / FILE, allow_pickle=False) as kept:
            reference = HubnessReference(kept["vectors"].astype(np.float32), kept["articles"].astype(np.int64))
        shape = reference.vectors.shape
        fitting = len(shape) == 2 and shape[0] and reference.articles.shape == shape[:1]
        if not fitting or not np.isfinite(reference.vectors).all():
            raise ValueError(f"vectors of shape {shape} cannot be used")
    except (
        OSError,
        ValueError,
        EOFError,
        KeyError,
        TypeError,
        AttributeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        raise DamagedError(
            f"{folder / FILE} cannot be read.", f"{error}.", "Run 'engine evaluate --force' to make it again.",
            code="artifact-damaged", stage="evaluate", command="evaluate --force",
        ) from error  # fmt: skip
    return reference
