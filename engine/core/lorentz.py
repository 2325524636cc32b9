"""Points of hyperbolic space compared by distance, and how an index of cosines serves that
(METHODS.md §4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.core.similarity import IndexForm, InnerProduct, unit_rows

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lorentz(InnerProduct):
    """−d_L of points of a space of curvature −c, each named by its space part x: x_time = √(1/c
    + ‖x‖²), ⟨x, y⟩_L = x·y − x_time y_time, d_L = √(1/c) acosh(−c ⟨x, y⟩_L).
    """

    curvature: float = 1.0

    @property
    def index_form(self) -> IndexForm:
        """See `LorentzForm`."""
        return LorentzForm(self.curvature)

    def query_form(self, queries: Floats) -> Floats:
        """[x, −x_time]."""
        return np.concatenate([queries, -self._time(queries)], axis=-1)

    def chunk_form(self, chunks: Floats) -> Floats:
        """[x, x_time]."""
        return np.concatenate([chunks, self._time(chunks)], axis=-1)

    def of_products(self, products: Floats) -> Floats:
        """−d_L of ⟨x, y⟩_L; 0 where rounding puts two points nearer than none."""
        found: Floats = -np.arccosh(np.maximum(-self.curvature * products, 1.0)) / np.float32(
            self.curvature**0.5
        )
        return found

    def _time(self, points: Floats) -> Floats:
        found: Floats = np.sqrt(1 / self.curvature + np.square(points).sum(axis=-1, keepdims=True))
        return found


@dataclass(frozen=True, slots=True)
class LorentzForm(IndexForm):
    """Rows [x, x_time, √(M² − ‖x‖² − x_time²)]/M of unit length, M = `largest` being the
    greatest ‖[x, x_time]‖ of an index; their cosine with [q, −q_time, 0], times M and the length
    of that, is ⟨q, x⟩_L. Rows brought to unit length otherwise are ranked otherwise.

    The time and the last number are two each, as float16 would lose too much of one: a high and a
    low part of the time, and two that bring the row as it is stored to unit length.
    """

    name: ClassVar[str] = "lorentz"
    added: ClassVar[int] = 4
    of_cosines: ClassVar[bool] = False
    curvature: float = 1.0
    largest: float = 0.0

    @property
    def parameters(self) -> dict[str, float]:
        """c and M."""
        return {"curvature": self.curvature, "largest_norm": self.largest}

    def with_parameters(self, manifest: Mapping[str, Any]) -> IndexForm:
        """With those of an index."""
        curvature = float(manifest["curvature"])
        largest = float(manifest["largest_norm"])
        if not (0 < curvature < np.inf and 0 < largest < np.inf):
            raise ValueError(f"a curvature of −{curvature}, vectors of at most {largest}")
        return LorentzForm(curvature, largest)

    def fitted(self, chunks: Floats) -> IndexForm:
        """With the M of these vectors and of those that it is fitted to already."""
        return LorentzForm(self.curvature, max(self.largest, self._largest(chunks)) or 1.0)

    def takes(self, chunks: Floats) -> bool:
        """Those that are not longer than M."""
        return self._largest(chunks) <= self.largest

    def rows(self, chunks: Floats, precision: type[np.floating]) -> Floats:
        """See the class."""
        scaled = Lorentz(self.curvature).chunk_form(chunks) / np.float32(self.largest)
        high, low = _two_parts(scaled[:, -1:])
        parts = np.concatenate([scaled[:, :-1], high, low], axis=1).astype(precision)
        squared = np.square(parts, dtype=np.float32).sum(axis=1, keepdims=True)
        most = _two_parts(np.sqrt(np.maximum(1 - squared, 0)))[0]
        rest = np.sqrt(np.maximum(1 - squared - np.square(most), 0))
        return np.concatenate([parts, most, rest], axis=1, dtype=np.float32)

    def query_rows(self, queries: Floats) -> Floats:
        """See the class."""
        form = Lorentz(self.curvature).query_form(queries)
        none = np.zeros_like(form[..., :2])
        return np.concatenate([form, form[..., -1:], none], axis=-1)

    def similarities(self, cosines: Floats, query_row: Floats) -> Floats:
        """−d_L."""
        return Lorentz(self.curvature).of_products(
            cosines * np.float32(self.largest * np.linalg.norm(query_row))
        )

    def vectors(self, rows: NDArray[Any]) -> Floats:
        """Without what was added."""
        return unit_rows(rows)[:, : -self.added] * np.float32(self.largest)

    def _largest(self, chunks: Floats) -> float:
        return float(
            np.linalg.norm(Lorentz(self.curvature).chunk_form(chunks), axis=1).max(initial=0.0)
        )


def _two_parts(values: Floats) -> tuple[Floats, Floats]:
    """Numbers in [0, 1] as a part that float16 keeps, and what is left of them, none negative."""
    high: Floats = np.floor(values * np.float32(1024)) / np.float32(1024)
    return high, values - high
