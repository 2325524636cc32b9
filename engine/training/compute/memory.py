"""Memory that training takes apart from the model and its graphs.

The module is light to import, so that a run can be checked before it starts.
"""

from __future__ import annotations

from engine.core.errors import ResourceError
from engine.encoders.model_size import ModelSize

_GB = 1e9
_STATE_BYTES = 20
"""Bytes per trained weight: its float32 master, two gradients, and AdamW's two moments."""
_KEPT_BYTES = 20
"""Bytes per trained weight on the CPU: the best ones so far, and a checkpoint being written."""


def state_bytes(parameters: int, device: str) -> int:
    """Return the bytes that a training of so many weights takes apart from model and graphs."""
    per_weight = _STATE_BYTES
    if device == "cpu":
        per_weight += _KEPT_BYTES
    return parameters * per_weight


def check_all_weights_fit(
    size: ModelSize,
    device: str,
    name: str,
    total: int,
) -> None:
    """Raise ResourceError if the device is too small to train all weights of the model.

    `total` is its memory in bytes. Graphs are not counted.
    """
    weights = 4 * size.parameters  # float32
    needed = weights + state_bytes(size.parameters, device)
    if needed > total:
        raise ResourceError(
            f"All weights of {name} cannot be trained on this machine.",
            f"With gradients and optimizer they take {needed / _GB:.1f} GB, and there are"
            f" {total / _GB:.1f} GB of memory.",
            "Set training.weights to adapter, or choose a smaller encoder.",
            code="memory-too-small",
            stage="train",
        )
