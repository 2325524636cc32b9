"""What an adapter makes of pooled vectors where it does not bring them to unit length: λ-Mafin
keeps lengths that it has learnt (METHODS.md §2), a hyperbolic encoder takes them to points of
its space (§4).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.similarity import INNER_PRODUCT, Similarity
from engine.encoders.weights_file import metadata

if TYPE_CHECKING:
    from torch import Tensor

_MAX_LENGTH = math.asinh(2**14)  # of √c‖v‖: float16 holds the points of these
_MIN_LENGTH = 1e-6


@dataclass(frozen=True)
class Geometry(ABC):
    """Pooled vectors → an encoder's. Its numbers stand beside the tensors of an adapter."""

    @property
    def similarity(self) -> Similarity:
        """How the encoder's vectors are compared."""
        return INNER_PRODUCT

    @property
    def metadata(self) -> dict[str, str]:
        """As an adapter's tensors have it beside them."""
        return {name: repr(value) for name, value in asdict(self).items()}

    @abstractmethod
    def vectors(self, pooled: Tensor) -> Tensor:
        """The encoder's vectors (b, d) of pooled ones (b, d)."""


@dataclass(frozen=True)
class OwnLengths(Geometry):
    """Pooled vectors times `small_scale`: those of a small model, which are joined to a black
    box's.
    """

    small_scale: float

    def vectors(self, pooled: Tensor) -> Tensor:
        """See `Geometry`."""
        return self.small_scale * pooled


@dataclass(frozen=True)
class Hyperbolic(Geometry):
    """Space of curvature −c.

    A pooled vector times `scale` is v, the direction and the distance in which its point lies from
    the origin.
    """

    curvature: float
    scale: float

    @property
    def similarity(self) -> Similarity:
        """−d_L."""
        from engine.core.lorentz import Lorentz

        return Lorentz(self.curvature)

    def vectors(self, pooled: Tensor) -> Tensor:
        """x = sinh(√c‖v‖)/(√c‖v‖) · v."""
        tangent = self.scale * pooled
        length = (self.curvature**0.5 * tangent.norm(dim=1, keepdim=True)).clamp_min(_MIN_LENGTH)
        found: Tensor = length.clamp_max(_MAX_LENGTH).sinh() / length * tangent
        return found


def read_geometry(adapter: Path) -> Geometry | None:
    """That of an adapter's folder; None where its vectors are of unit length.

    Raises ModelError for a damaged one.
    """
    found = metadata(adapter / "adapter_model.safetensors")
    if "small_scale" in found:
        return OwnLengths(float(found["small_scale"]))
    if {"curvature", "scale"} <= found.keys():
        return Hyperbolic(float(found["curvature"]), float(found["scale"]))
    return None
