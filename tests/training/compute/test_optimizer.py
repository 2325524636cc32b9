"""What a checkpoint keeps of AdamW comes back to where the optimizer looks for it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.training.compute.optimizer import pack, restore


def stepped() -> tuple[dict[str, Tensor], torch.optim.AdamW]:
    masters = {"a": torch.ones(2, requires_grad=True), "b": torch.ones(3, requires_grad=True)}
    optimizer = torch.optim.AdamW([{"params": list(masters.values())}], lr=0.1)
    for _ in range(3):
        for master in masters.values():
            master.grad = torch.full_like(master, 0.5)
        optimizer.step()
    return masters, optimizer


def test_a_restored_optimizer_goes_on_as_the_unbroken_one() -> None:
    masters, optimizer = stepped()
    kept = {name: tensor.detach().clone() for name, tensor in pack(masters, {}, optimizer).items()}
    others, fresh = stepped()
    fresh = torch.optim.AdamW([{"params": list(others.values())}], lr=0.1)
    restore(kept, others, fresh)
    for one, named in ((optimizer, masters), (fresh, others)):
        for master in named.values():
            master.grad = torch.full_like(master, -0.25)
        one.step()
    assert torch.equal(masters["a"], others["a"])
    assert fresh.state[others["b"]]["step"].item() == 4


@pytest.mark.parametrize(("fused", "place"), [(True, "meta"), (False, "cpu")])
def test_steps_are_counted_where_the_kernel_looks_for_them(fused: bool, place: str) -> None:
    """A fused kernel reads the number of steps on the device of the weights; "meta" stands for a
    GPU.
    """
    masters, optimizer = stepped()
    kept = {name: tensor.detach().clone() for name, tensor in pack(masters, {}, optimizer).items()}
    away = {
        name: torch.empty_like(master, device="meta", requires_grad=True)
        for name, master in masters.items()
    }
    other = torch.optim.AdamW([{"params": list(away.values())}], lr=0.1)
    other.param_groups[0]["fused"] = fused
    restore(kept, away, other)
    for master in away.values():
        assert other.state[master]["step"].device.type == place
        assert other.state[master]["exp_avg"].device.type == "meta"
