"""Hyperbolic similarity (Lorentz model), and how an index of cosines serves it (METHODS.md §4)."""

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
    """Negative Lorentz distance −d_L of points in a space of curvature −c.

    Points are given by their space part x: x_time = √(1/c + ‖x‖²), ⟨x, y⟩_L = x·y − x_time y_time,
    d_L = √(1/c) acosh(−c ⟨x, y⟩_L).
    """

    curvature: float = 1.0

    @property
    def index_form(self) -> IndexForm:
        """The form `LorentzForm`."""
        return LorentzForm(self.curvature)

    def query_form(self, queries: Floats) -> Floats:
        """Return [x, −x_time]."""
        return np.concatenate([queries, -self._time(queries)], axis=-1)

    def chunk_form(self, chunks: Floats) -> Floats:
        """Return [x, x_time]."""
        return np.concatenate([chunks, self._time(chunks)], axis=-1)

    def of_products(self, products: Floats) -> Floats:
        """Return −d_L for values of ⟨x, y⟩_L; 0 if rounding puts points nearer than equal ones."""
        hyperbolic_cosines = np.maximum(-self.curvature * products, 1.0)
        distances: Floats = np.arccosh(hyperbolic_cosines) / np.float32(self.curvature**0.5)
        return -distances

    def _time(self, points: Floats) -> Floats:
        squares = np.square(points).sum(axis=-1, keepdims=True)
        times: Floats = np.sqrt(1 / self.curvature + squares)
        return times


@dataclass(frozen=True, slots=True)
class LorentzForm(IndexForm):
    """Rows of unit length whose cosines give Lorentz products.

    A row is [x, x_time, √(M² − ‖x‖² − x_time²)]/M, where M = `largest` is the greatest ‖[x,
    x_time]‖ of an index. Its cosine with [q, −q_time, 0], times M and the length of that, is ⟨q,
    x⟩_L. Normalising rows in another way would change the ranking. The time and the last number are
    stored as two numbers each, since float16 would lose too much of one: a high and a low part of
    the time, and two that bring the stored row to unit length.
    """

    name: ClassVar[str] = "lorentz"
    added: ClassVar[int] = 4
    of_cosines: ClassVar[bool] = False
    curvature: float = 1.0
    largest: float = 0.0

    @property
    def parameters(self) -> dict[str, float]:
        """The curvature c and the largest norm M."""
        return {"curvature": self.curvature, "largest_norm": self.largest}

    def with_parameters(self, manifest: Mapping[str, Any]) -> IndexForm:
        """Return the form with the parameters of an index."""
        curvature = float(manifest["curvature"])
        largest = float(manifest["largest_norm"])
        if not (0 < curvature < np.inf and 0 < largest < np.inf):
            raise ValueError(f"a curvature of −{curvature}, vectors of at most {largest}")
        return LorentzForm(curvature, largest)

    def fit(self, chunks: Floats) -> IndexForm:
        """Return the form whose M covers these vectors and those it already covers."""
        return LorentzForm(self.curvature, max(self.largest, self._largest(chunks)) or 1.0)

    def takes(self, chunks: Floats) -> bool:
        """Return whether no vector is longer than M."""
        return self._largest(chunks) <= self.largest

    def rows(self, chunks: Floats, precision: type[np.floating]) -> Floats:
        """Return the rows that the class describes."""
        scaled = Lorentz(self.curvature).chunk_form(chunks) / np.float32(self.largest)
        high, low = _two_parts(scaled[:, -1:])
        parts = np.concatenate([scaled[:, :-1], high, low], axis=1).astype(precision)
        squared = np.square(parts, dtype=np.float32).sum(axis=1, keepdims=True)
        most = _two_parts(np.sqrt(np.maximum(1 - squared, 0)))[0]
        rest = np.sqrt(np.maximum(1 - squared - np.square(most), 0))
        return np.concatenate([parts, most, rest], axis=1, dtype=np.float32)

    def query_rows(self, queries: Floats) -> Floats:
        """Return the rows [q, −q_time, −q_time, 0, 0] of queries."""
        form = Lorentz(self.curvature).query_form(queries)
        zeros = np.zeros_like(form[..., :2])
        return np.concatenate([form, form[..., -1:], zeros], axis=-1)

    def similarities(self, cosines: Floats, query_row: Floats) -> Floats:
        """Return −d_L."""
        length = np.float32(self.largest * np.linalg.norm(query_row))
        return Lorentz(self.curvature).of_products(cosines * length)

    def vectors(self, rows: NDArray[Any]) -> Floats:
        """Return the vectors without the added numbers."""
        return unit_rows(rows)[:, : -self.added] * np.float32(self.largest)

    def _largest(self, chunks: Floats) -> float:
        form = Lorentz(self.curvature).chunk_form(chunks)
        return float(np.linalg.norm(form, axis=1).max(initial=0.0))


def _two_parts(values: Floats) -> tuple[Floats, Floats]:
    """Split numbers in [0, 1] into a part that float16 keeps exactly and a non-negative rest."""
    high: Floats = np.floor(values * np.float32(1024)) / np.float32(1024)
    return high, values - high
