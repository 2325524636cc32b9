"""AdamW in training: its learning rate, and its state in a checkpoint with the adapters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

_STATE = ("step", "exp_avg", "exp_avg_sq")
"""Names of AdamW's state of a tensor: its number of steps and its two moments."""


def pack(
    masters: Mapping[str, Tensor], best: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Return all tensors of a checkpoint under names that `restore` knows."""
    tensors = {f"adapter/{name}": tensor for name, tensor in masters.items()}
    tensors |= {f"best/{name}": tensor for name, tensor in best.items()}
    for name, master in masters.items():
        for part, value in optimizer.state.get(master, {}).items():
            tensors[f"optimizer/{part}/{name}"] = value
    return tensors


def restore(
    tensors: Mapping[str, Tensor], masters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> dict[str, Tensor]:
    """Set `masters` and the optimizer's state to what was packed, and return the best adapter."""
    with torch.no_grad():
        for name, master in masters.items():
            master.copy_(tensors[f"adapter/{name}"])
    fused: set[int] = set()
    for group in optimizer.param_groups:
        if group.get("fused"):
            fused.update(map(id, group["params"]))
    for part in _STATE:
        for name, value in _select(tensors, f"optimizer/{part}/").items():
            master = masters[name]
            device = master.device
            # Only a fused kernel counts its steps on the GPU.
            if part == "step" and id(master) not in fused:
                device = torch.device("cpu")
            state = optimizer.state[master]
            state[part] = value.to(device)
    return _select(tensors, "best/")


def _select(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose names have a prefix, by their names without it."""
    selected = {}
    for name, tensor in tensors.items():
        if name.startswith(prefix):
            selected[name.removeprefix(prefix)] = tensor
    return selected


def learning_rate(
    step: int,
    steps: int,
    peak: float,
    warmup: float,
) -> float:
    """Return a rate with linear warm-up over the `warmup` share of the steps, then linear decay.

    `step` counts from 0. With w = round(warmup·steps) the rate is peak·(step + 1)/w while step < w,
    then peak·(steps − step)/(steps − w).
    """
    warmup_steps = round(warmup * steps)  # w
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * (steps - step) / (steps - warmup_steps)
