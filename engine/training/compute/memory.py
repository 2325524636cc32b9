"""What training holds in memory beside the model and its graphs: light to import, so that it can
be asked before a run.
"""

from __future__ import annotations

from engine.core.errors import ResourceError
from engine.encoders.model_size import ModelSize

_GB = 1e9
_STATE_BYTES = 20
"""Of each trained weight in float32: its master, its gradient, that of a micro-batch, and
AdamW's two moments.
"""
_KEPT_BYTES = 20
"""Of each trained weight on the CPU: the best ones so far, and a checkpoint as it is written."""


def state_bytes(parameters: int, device: str) -> int:
    """What a training of so many parameters holds on the `device` beside the model and its
    graphs.
    """
    return parameters * (_STATE_BYTES + _KEPT_BYTES if device == "cpu" else _STATE_BYTES)


def check_all_weights_fit(size: ModelSize, device: str, name: str, total: int) -> None:
    """Raises ResourceError where the device has too little memory to train all weights of the
    model, graphs aside, even with nothing else running. `total`: its bytes.
    """
    needed = 4 * size.parameters + state_bytes(size.parameters, device)
    if needed > total:
        raise ResourceError(
            f"All weights of {name} cannot be trained on this machine.",
            f"With gradients and optimizer they take {needed / _GB:.1f} GB, and there are"
            f" {total / _GB:.1f} GB of memory.",
            "Set training.weights to adapter, or choose a smaller encoder.",
            code="memory-too-small",
            stage="train",
        )
