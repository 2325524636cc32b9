"""What follows pooling for adapters whose vectors are not of unit length.

λ-Mafin keeps learned lengths (METHODS.md §2). A hyperbolic encoder maps vectors to points of its
space (§4).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.encoders.geometry.similarity import INNER_PRODUCT, Similarity
from engine.encoders.weights_file import read_metadata

if TYPE_CHECKING:
    from torch import Tensor

# Limit of √c‖v‖: float16 can hold the points of such vectors.
_MAX_LENGTH = math.asinh(2**14)
_MIN_LENGTH = 1e-6  # of a vector that is divided by its length


@dataclass(frozen=True)
class Geometry(ABC):
    """Maps pooled vectors to an encoder's vectors; its parameters are metadata of the adapter."""

    @property
    def similarity(self) -> Similarity:
        """How the encoder's vectors are compared."""
        return INNER_PRODUCT

    @property
    def metadata(self) -> dict[str, str]:
        """The parameters as metadata of an adapter's weights file."""
        return {name: repr(value) for name, value in asdict(self).items()}

    @abstractmethod
    def vectors(self, pooled: Tensor) -> Tensor:
        """Return the encoder's vectors (b, d) for pooled ones (b, d)."""


@dataclass(frozen=True)
class OwnLengths(Geometry):
    """Pooled vectors times `small_scale`: those of a small model, joined to a black box's."""

    small_scale: float

    def vectors(self, pooled: Tensor) -> Tensor:
        """See `Geometry`."""
        return self.small_scale * pooled


@dataclass(frozen=True)
class Hyperbolic(Geometry):
    """Hyperbolic space of curvature −c.

    A pooled vector times `scale` is v: the direction and distance of its point from the origin.
    """

    curvature: float
    scale: float

    @property
    def similarity(self) -> Similarity:
        """The negative distance, −d_L."""
        from engine.encoders.geometry.lorentz import Lorentz

        return Lorentz(self.curvature)

    def vectors(self, pooled: Tensor) -> Tensor:
        """Return x = sinh(√c‖v‖)/(√c‖v‖) · v."""
        tangent = self.scale * pooled
        length = (self.curvature**0.5 * tangent.norm(dim=1, keepdim=True)).clamp_min(_MIN_LENGTH)
        points: Tensor = length.clamp_max(_MAX_LENGTH).sinh() / length * tangent
        return points


def read_geometry(adapter: Path) -> Geometry | None:
    """Read the geometry of an adapter's folder, or None if its vectors have unit length.

    Raises ModelError if the adapter is damaged.
    """
    parameters = read_metadata(adapter / "adapter_model.safetensors")
    if "small_scale" in parameters:
        return OwnLengths(float(parameters["small_scale"]))
    if {"curvature", "scale"} <= parameters.keys():
        return Hyperbolic(float(parameters["curvature"]), float(parameters["scale"]))
    return None
