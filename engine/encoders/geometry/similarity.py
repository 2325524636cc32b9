"""The similarity of a query's vector and a chunk's: the inner product of a form of each.

Everything that ranks uses these forms. An `IndexForm` says which rows an index stores for a
similarity.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from engine.core.arrays import Floats


def unit_rows(rows: NDArray[Any], least: float = 0.0) -> Floats:
    """Return rows (n, d) at unit length, float32; rows no longer than `least` become zeros."""
    import numpy as np

    whole = rows.astype(np.promote_types(rows.dtype, np.float32), copy=False)
    lengths = np.linalg.norm(
        whole,
        axis=1,
        keepdims=True,
    )
    units = np.divide(
        whole,
        lengths,
        out=np.zeros_like(whole),
        where=lengths > least,
    )
    return np.asarray(units, np.float32)


class IndexForm:
    """The rows that an index stores, and how it compares them; here the vectors, by cosine."""

    name: ClassVar[str] = "cosine"
    """The form's name in an index's manifest."""
    added: ClassVar[int] = 0
    """Number of additional numbers in a row: a vector of d numbers is stored as d + `added`."""
    of_cosines: ClassVar[bool] = True
    """Whether rows are compared by cosine; otherwise each query's inner product with all rows."""

    @property
    def parameters(self) -> dict[str, float]:
        """What the manifest keeps of the form besides its name."""
        return {}

    def with_parameters(self, manifest: Mapping[str, Any]) -> IndexForm:
        """Return the form with the parameters in a manifest.

        Raises KeyError, TypeError or ValueError if they are missing or wrong.
        """
        return self

    def rows(self, chunks: Floats) -> Floats:
        """Return the rows (n, d + added) that the index stores for chunk vectors (n, d)."""
        return chunks

    def query_rows(self, queries: Floats) -> Floats:
        """Return rows (…, d + added) of queries (…, d), to be compared with those of chunks."""
        return queries

    def similarities(self, values: Floats) -> Floats:
        """Return the similarities for cosines or inner products (n,) of stored rows and a query."""
        return values

    def vectors(self, rows: NDArray[Any]) -> Floats:
        """Return the encoder's vectors (n, d) of stored rows (n, d + added), up to rounding."""
        return unit_rows(rows)


class Similarity:
    """How an encoder's vectors are compared; this one by the inner product of unit vectors.

    `of_unit_vectors`: whether the vectors have unit length, so that only their directions count.
    """

    of_unit_vectors: ClassVar[bool] = True

    @property
    def index_form(self) -> IndexForm:
        """The rows that an index stores for it."""
        return IndexForm()

    def query_form(self, queries: Floats) -> Floats:
        """Return vectors of queries (q, d) as the inner product takes them (q, e)."""
        return queries

    def chunk_form(self, chunks: Floats) -> Floats:
        """Return vectors of chunks (n, d) as the inner product takes them (n, e)."""
        return chunks

    def of_products(self, products: Floats) -> Floats:
        """Return the scores for inner products, in the same order; −inf for −inf."""
        return products

    def restore(self, stored: NDArray[Any]) -> Floats:
        """Return the encoder's vectors (n, d), float32, from their float16 copy."""
        return unit_rows(stored)


class InnerProduct(Similarity):
    """The inner product of vectors whose lengths count."""

    of_unit_vectors = False

    def restore(self, stored: NDArray[Any]) -> Floats:
        """Return the vectors with the lengths that they have."""
        vectors: Floats = stored.astype("float32")
        return vectors


COSINE = Similarity()
INNER_PRODUCT = InnerProduct()


def compute_scores(
    similarity: Similarity,
    queries: Floats,
    chunks: Floats,
) -> Floats:
    """Return the score (q, n) of every query (q, d) with every chunk (n, d)."""
    products = similarity.query_form(queries) @ similarity.chunk_form(chunks).T
    return similarity.of_products(products)
