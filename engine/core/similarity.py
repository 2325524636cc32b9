"""The score of a query's vector and a chunk's, by the inner product of a form of each: whatever ranks uses the forms.

An index serves it by cosine, over rows that may be wider than the vectors: how, says the similarity's `IndexForm`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

    @property
    def parameters(self) -> dict[str, float]:
        """What the manifest keeps of it beside its name."""
        return {}

    def with_parameters(self, manifest: Mapping[str, Any]) -> IndexForm:
        """The form with the parameters that a manifest keeps. Raises KeyError, TypeError or ValueError for one without."""
        return self

    def fitted(self, chunks: Floats) -> IndexForm:
        """The form for an index of these vectors (n, d)."""
        return self

    def takes(self, chunks: Floats) -> bool:
        """Whether vectors (n, d) can join an index of this form; otherwise it is to be built anew."""
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


class Similarity(Protocol):
    """How an encoder's vectors are compared."""

    @property
    def of_unit_vectors(self) -> bool:
        """Whether the vectors are of unit length, so that only their directions count."""

    @property
    def index_form(self) -> IndexForm:
        """How an index serves it, before it is fitted to the vectors."""

    def query_form(self, queries: Floats) -> Floats:
        """Vectors of queries (q, d) as the inner product takes them (q, e)."""

    def chunk_form(self, chunks: Floats) -> Floats:
        """Vectors of chunks (n, d) as the inner product takes them (n, e)."""

    def of_products(self, products: Floats) -> Floats:
        """The scores that inner products stand for, in the same order; −inf of −inf."""

    def restored(self, stored: NDArray[Any]) -> Floats:
        """The encoder's vectors (n, d), float32, of what float16 has kept of them."""


class Cosine:
    """The inner product of unit vectors as they are."""

    of_unit_vectors = True
    index_form = IndexForm()

    def query_form(self, queries: Floats) -> Floats:
        """The vectors themselves."""
        return queries

    chunk_form = of_products = query_form

    def restored(self, stored: NDArray[Any]) -> Floats:
        """At unit length again."""
        return unit_rows(stored)


COSINE = Cosine()


@dataclass(frozen=True, slots=True)
class Lorentz:
    """−d_L of points of hyperbolic space with curvature −c, each named by its space part x (METHODS.md §4).

    x_time = √(1/c + ‖x‖²); ⟨x, y⟩_L = x·y − x_time y_time; d_L = √(1/c) acosh(−c ⟨x, y⟩_L).
    """

    of_unit_vectors: ClassVar[bool] = False
    curvature: float = 1.0

    @property
    def index_form(self) -> IndexForm:
        """See `LorentzForm`."""
        return LorentzForm(self.curvature)

    def query_form(self, queries: Floats) -> Floats:
        """[x, −x_time]."""
        return self._with_time(queries, -1.0)

    def chunk_form(self, chunks: Floats) -> Floats:
        """[x, x_time]."""
        return self._with_time(chunks, 1.0)

    def of_products(self, products: Floats) -> Floats:
        """−d_L of ⟨x, y⟩_L; 0 where rounding puts two points nearer than none."""
        import numpy as np

        found: Floats = -np.arccosh(np.maximum(-self.curvature * products, 1.0)) / np.float32(self.curvature**0.5)
        return found

    def restored(self, stored: NDArray[Any]) -> Floats:
        """As they are: their lengths count."""
        import numpy as np

        return stored.astype(np.float32)

    def _with_time(self, points: Floats, sign: float) -> Floats:
        import numpy as np

        time = np.sqrt(1 / self.curvature + np.square(points).sum(axis=-1, keepdims=True))
        return np.concatenate([points, np.float32(sign) * time], axis=-1, dtype=np.float32)


@dataclass(frozen=True, slots=True)
class LorentzForm(IndexForm):
    """Rows [x, x_time, √(M² − ‖x‖² − x_time²)]/M of unit length, M = `largest` being the greatest ‖[x, x_time]‖ of an index; their
    cosine with [q, −q_time, 0], times M and the length of that, is ⟨q, x⟩_L. Brought to unit length without the last number, rows
    would be ranked otherwise (METHODS.md §4).

    The time and the last number are two each, as float16 would lose too much of one: a high and a low part of the time, and two
    that bring the row as it is stored to unit length.
    """

    name: ClassVar[str] = "lorentz"
    added: ClassVar[int] = 4
    curvature: float = 1.0
    largest: float = 1.0

    def __post_init__(self) -> None:
        """Raises ValueError for numbers that no index has."""
        if not (0 < self.curvature < float("inf") and 0 < self.largest < float("inf")):
            raise ValueError(f"a curvature of −{self.curvature}, vectors of at most {self.largest}")

    @property
    def parameters(self) -> dict[str, float]:
        """c and M."""
        return {"curvature": self.curvature, "largest_norm": self.largest}

    def with_parameters(self, manifest: Mapping[str, Any]) -> IndexForm:
        """With those of an index."""
        return LorentzForm(float(manifest["curvature"]), float(manifest["largest_norm"]))

    def fitted(self, chunks: Floats) -> IndexForm:
        """With the M of these vectors."""
        return LorentzForm(self.curvature, self._largest(chunks) or 1.0)

    def takes(self, chunks: Floats) -> bool:
        """Those that are not longer than M."""
        return self._largest(chunks) <= self.largest

    def rows(self, chunks: Floats, precision: type[np.floating]) -> Floats:
        """See the class."""
        import numpy as np

        scaled = Lorentz(self.curvature).chunk_form(chunks) / np.float32(self.largest)
        high, low = _two_parts(scaled[:, -1:])
        parts = np.concatenate([scaled[:, :-1], high, low], axis=1).astype(precision)
        squared = np.square(parts, dtype=np.float32).sum(axis=1, keepdims=True)
        most = _two_parts(np.sqrt(np.maximum(1 - squared, 0)))[0]
        return np.concatenate(
            [parts, most, np.sqrt(np.maximum(1 - squared - np.square(most), 0))], axis=1, dtype=np.float32
        )

    def query_rows(self, queries: Floats) -> Floats:
        """See the class."""
        import numpy as np

        form = Lorentz(self.curvature).query_form(queries)
        none = np.zeros_like(form[..., :1])
        return np.concatenate([form, form[..., -1:], none, none], axis=-1)

    def similarities(self, cosines: Floats, query_row: Floats) -> Floats:
        """−d_L."""
        import numpy as np

        return Lorentz(self.curvature).of_products(cosines * np.float32(self.largest * np.linalg.norm(query_row)))

    def vectors(self, rows: NDArray[Any]) -> Floats:
        """Without what was added."""
        import numpy as np

        return unit_rows(rows)[:, : -self.added] * np.float32(self.largest)

    def _largest(self, chunks: Floats) -> float:
        import numpy as np

        return float(np.linalg.norm(Lorentz(self.curvature).chunk_form(chunks), axis=1).max(initial=0.0))


def _two_parts(values: Floats) -> tuple[Floats, Floats]:
    """Numbers in [0, 1] as a part that float16 keeps, and what is left of them, none negative."""
    import numpy as np

    high: Floats = np.floor(values * np.float32(1024)) / np.float32(1024)
    return high, values - high


def scores(similarity: Similarity, queries: Floats, chunks: Floats) -> Floats:
    """The score (q, n) of every query (q, d) with every chunk (n, d)."""
    return similarity.of_products(similarity.query_form(queries) @ similarity.chunk_form(chunks).T)
