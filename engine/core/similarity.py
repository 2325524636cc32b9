"""The score of a query's vector and a chunk's, as the inner product of a form of each: whatever ranks uses the forms.

An index serves it by cosine, over rows that may be wider than the vectors: how, says the similarity's `IndexForm`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from engine.core.unit_vectors import unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


class IndexForm:
    """How an index of cosines serves a similarity: this one as the cosine of the vectors themselves, others override it.

    `name`: what an index's manifest calls the form. `added`: how many numbers a row has more than a vector.
    """

    name: ClassVar[str] = "cosine"
    added: ClassVar[int] = 0

    def query_rows(self, queries: Floats) -> Floats:
        """Rows (…, d + added) of queries (…, d), to be compared with those of chunks."""
        return queries

    def similarities(self, cosines: Floats, query_row: Floats) -> Floats:
        """What the cosines (n,) of stored rows with a query's row stand for."""
        return cosines

    def vectors(self, rows: NDArray[Any]) -> Floats:
        """The encoder's unit vectors (n, d) of stored rows (n, d + added), up to rounding."""
        return unit_rows(rows)


class Similarity(Protocol):
    """How an encoder's vectors are compared."""

    @property
    def index_form(self) -> IndexForm:
        """How an index serves it."""

    def index_rows(self, chunks: Floats) -> Floats:
        """Vectors of chunks (n, d) as an index of that form stores them, (n, d + added)."""

    def query_form(self, queries: Floats) -> Floats:
        """Vectors of queries (q, d) as the inner product takes them (q, e)."""

    def chunk_form(self, chunks: Floats) -> Floats:
        """Vectors of chunks (n, d) as the inner product takes them (n, e)."""


class Cosine:
    """The inner product of unit vectors as they are."""

    index_form = IndexForm()

    def index_rows(self, chunks: Floats) -> Floats:
        """The vectors themselves."""
        return chunks

    query_form = chunk_form = index_rows


COSINE = Cosine()


def scores(similarity: Similarity, queries: Floats, chunks: Floats) -> Floats:
    """The score (q, n) of every query (q, d) with every chunk (n, d)."""
    found: Floats = similarity.query_form(queries) @ similarity.chunk_form(chunks).T
    return found
