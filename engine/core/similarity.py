"""The score of a query's vector and a chunk's, by the inner product of a form of each: whatever
ranks uses the forms.

An index serves it by cosine, over rows that may be wider than the vectors: how, says the
similarity's `IndexForm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]


def unit_rows(rows: NDArray[Any], least: float = 0.0) -> NDArray[np.float32]:
    """Rows (n, d) at unit length, float32; one that is no longer than `least` has no direction,
    and becomes zeros.
    """
    import numpy as np

    whole = rows.astype(np.promote_types(rows.dtype, np.float32), copy=False)
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    found = np.divide(whole, lengths, out=np.zeros_like(whole), where=lengths > least)
    return np.asarray(found, np.float32)


class IndexForm:
    """How an index of cosines serves a similarity: this one as the cosine of the vectors
    themselves, others override it.

    `name`: what a manifest calls the form. `added`: how many numbers a row has more than a vector.
        `of_cosines`: whether its
    similarities are cosines.
    """

    name: ClassVar[str] = "cosine"
    added: ClassVar[int] = 0
    of_cosines: ClassVar[bool] = True

    @property
    def parameters(self) -> dict[str, float]:
        """What the manifest keeps of it beside its name."""
        return {}

    def with_parameters(self, manifest: Mapping[str, Any]) -> IndexForm:
        """The form with the parameters that a manifest keeps.

        Raises KeyError, TypeError or ValueError for one without.
        """
        return self

    def fitted(self, chunks: Floats) -> IndexForm:
        """The form for an index of these vectors (n, d), and of those that it is fitted to
        already.
        """
        return self

    def takes(self, chunks: Floats) -> bool:
        """Whether vectors (n, d) can join an index of this form; otherwise it is to be built
        anew.
        """
        return True

    def rows(self, chunks: Floats, precision: type[np.floating]) -> Floats:
        """Vectors of chunks (n, d) as the index stores them, (n, d + added), in that precision."""
        return chunks

    def query_rows(self, queries: Floats) -> Floats:
        """Rows (…, d + added) of queries (…, d), to be compared with those of chunks."""
        return queries

    def similarities(self, cosines: Floats, query_row: Floats) -> Floats:
        """What the cosines (n,) of stored rows with a query's row stand for."""
        return cosines

    def vectors(self, rows: NDArray[Any]) -> Floats:
        """The encoder's vectors (n, d) of stored rows (n, d + added), up to rounding."""
        return unit_rows(rows)


class Similarity:
    """How an encoder's vectors are compared: by the inner product of unit vectors as they are;
    others override it.

    `of_unit_vectors`: whether the vectors are of unit length, so that only their directions count.
    """

    of_unit_vectors: ClassVar[bool] = True

    @property
    def index_form(self) -> IndexForm:
        """How an index serves it, before it is fitted to the vectors."""
        return IndexForm()

    def query_form(self, queries: Floats) -> Floats:
        """Vectors of queries (q, d) as the inner product takes them (q, e)."""
        return queries

    def chunk_form(self, chunks: Floats) -> Floats:
        """Vectors of chunks (n, d) as the inner product takes them (n, e)."""
        return chunks

    def of_products(self, products: Floats) -> Floats:
        """The scores that inner products stand for, in the same order; −inf of −inf."""
        return products

    def restored(self, stored: NDArray[Any]) -> Floats:
        """The encoder's vectors (n, d), float32, of what float16 has kept of them."""
        return unit_rows(stored)


class InnerProduct(Similarity):
    """The inner product of vectors whose lengths count."""

    of_unit_vectors = False

    def restored(self, stored: NDArray[Any]) -> Floats:
        """As they are."""
        found: Floats = stored.astype("float32")
        return found


COSINE = Similarity()
INNER_PRODUCT = InnerProduct()


def scores(similarity: Similarity, queries: Floats, chunks: Floats) -> Floats:
    """The score (q, n) of every query (q, d) with every chunk (n, d)."""
    return similarity.of_products(similarity.query_form(queries) @ similarity.chunk_form(chunks).T)
