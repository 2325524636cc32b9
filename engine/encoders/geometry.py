"""From a model's pooled vectors to points of hyperbolic space, as an adapter was trained for (METHODS.md §4)."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from engine.encoders.weights_file import metadata

if TYPE_CHECKING:
    from torch import Tensor

    from engine.core.lorentz import Lorentz

_MAX_LENGTH = math.asinh(2**14)  # of √c‖v‖: float16 holds the points of these
_MIN_LENGTH = 1e-6


@dataclass(frozen=True, slots=True)
class Geometry:
    """Space of curvature −c. A pooled vector times `scale` is v, the direction and the distance in which its point lies from the
    origin."""

    curvature: float
    scale: float

    @property
    def similarity(self) -> Lorentz:
        """How points are compared."""
        from engine.core.lorentz import Lorentz

        return Lorentz(self.curvature)

    @property
    def metadata(self) -> dict[str, str]:
        """As an adapter's tensors have it beside them."""
        return {name: repr(value) for name, value in asdict(self).items()}

    def points(self, pooled: Tensor) -> Tensor:
        """x = sinh(√c‖v‖)/(√c‖v‖) · v, (b, d)."""
        tangent = self.scale * pooled
        length = (self.curvature**0.5 * tangent.norm(dim=1, keepdim=True)).clamp_min(_MIN_LENGTH)
        found: Tensor = length.clamp_max(_MAX_LENGTH).sinh() / length * tangent
        return found


def read_geometry(adapter: Path) -> Geometry | None:
    """That of an adapter's folder; None where its vectors are of unit length. Raises ModelError for a damaged one."""
    found = metadata(adapter / "adapter_model.safetensors")
    return (
        Geometry(float(found["curvature"]), float(found["scale"])) if {"curvature", "scale"} <= found.keys() else None
    )
