"""Hyperbolic similarity (Lorentz model), and an index's rows for it (METHODS.md §4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from engine.core.arrays import Floats
from engine.encoders.geometry.similarity import IndexForm, InnerProduct


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
        """Return x_time = √(1/c + ‖x‖²) (…, 1) of points (…, d)."""
        squares = np.square(points).sum(axis=-1, keepdims=True)
        times: Floats = np.sqrt(1 / self.curvature + squares)
        return times


@dataclass(frozen=True, slots=True)
class LorentzForm(IndexForm):
    """Rows [x, x_time], whose inner products with [q, −q_time] are Lorentz products.

    An index compares a query with all of them, in float32: float16 would lose too much of the time.
    """

    name: ClassVar[str] = "hyperbolic"
    added: ClassVar[int] = 1
    of_cosines: ClassVar[bool] = False
    curvature: float = 1.0

    @property
    def parameters(self) -> dict[str, float]:
        """The curvature c."""
        return {"curvature": self.curvature}

    def with_parameters(self, manifest: Mapping[str, Any]) -> IndexForm:
        """Return the form with the curvature of an index."""
        curvature = float(manifest["curvature"])
        if not 0 < curvature < np.inf:
            raise ValueError(f"a curvature of −{curvature}")
        return LorentzForm(curvature)

    def rows(self, chunks: Floats) -> Floats:
        """Return the rows [x, x_time]."""
        return Lorentz(self.curvature).chunk_form(chunks)

    def query_rows(self, queries: Floats) -> Floats:
        """Return the rows [q, −q_time]."""
        return Lorentz(self.curvature).query_form(queries)

    def similarities(self, values: Floats) -> Floats:
        """Return −d_L."""
        return Lorentz(self.curvature).of_products(values)

    def vectors(self, rows: NDArray[Any]) -> Floats:
        """Return the points without their time."""
        points: Floats = rows[:, : -self.added].astype(np.float32)
        return points
