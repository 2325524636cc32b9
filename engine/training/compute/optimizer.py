"""AdamW in training: its learning rate over the steps, and what a checkpoint holds of it, with
parameters and best adapter.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def packed(
    masters: Mapping[str, Tensor], best: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """All of it under names that `restore` knows."""
    tensors = {f"adapter/{name}": tensor for name, tensor in masters.items()}
    tensors |= {f"best/{name}": tensor for name, tensor in best.items()}
    for name, master in masters.items():
        for part, value in optimizer.state.get(master, {}).items():
            tensors[f"optimizer/{part}/{name}"] = value
    return tensors


def restore(
    tensors: Mapping[str, Tensor], masters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Set `masters` and the optimizer's state to what was packed; returns the best adapter."""
    with torch.no_grad():
        for name, master in masters.items():
            master.copy_(tensors[f"adapter/{name}"])
    fused = {
        id(one) for group in optimizer.param_groups if group.get("fused") for one in group["params"]
    }
    for part in _MOMENTS:
        for name, value in _part(tensors, f"optimizer/{part}/").items():
            master = masters[name]
            # A fused kernel counts its steps on the GPU; the plain optimizer counts them on the
            # CPU.
            counted_on_cpu = part == "step" and id(master) not in fused
            optimizer.state[master][part] = value.to("cpu" if counted_on_cpu else master.device)
    return _part(tensors, "best/")


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def learning_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Linear warm-up over the first `warmup` share of the steps, then linear decay towards 0.

    `step` counts from 0. With w = round(warmup·steps) it is peak·(step + 1)/w while step < w, then
    peak·(steps − step)/(steps − w).
    """
    rising = round(warmup * steps)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * (steps - step) / (steps - rising)
