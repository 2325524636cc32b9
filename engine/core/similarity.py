"""The score of a query's vector and a chunk's, as the inner product of a form of each: whatever ranks or indexes uses the forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


class Similarity(Protocol):
    """How an encoder's vectors are compared."""

    def query_form(self, queries: Floats) -> Floats:
        """Vectors of queries (q, d) as the inner product takes them (q, e)."""

    def chunk_form(self, chunks: Floats) -> Floats:
        """Vectors of chunks (n, d) as the inner product takes them (n, e)."""


class Cosine:
    """The inner product of unit vectors as they are."""

    def query_form(self, queries: Floats) -> Floats:
        """The vectors themselves."""
        return queries

    def chunk_form(self, chunks: Floats) -> Floats:
        """The vectors themselves."""
        return chunks


COSINE = Cosine()


def scores(similarity: Similarity, queries: Floats, chunks: Floats) -> Floats:
    """The score (q, n) of every query (q, d) with every chunk (n, d)."""
    found: Floats = similarity.query_form(queries) @ similarity.chunk_form(chunks).T
    return found
