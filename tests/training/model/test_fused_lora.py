from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from engine.training.config import TrainingConfig
from engine.training.model.lora import add_lora, fuse, lora_parameters

IDS = torch.tensor([[3, 7, 11, 2, 30], [5, 5, 40, 1, 9]])


def adapted(kind: str, dtype: torch.dtype = torch.float32) -> Any:
    import transformers as t

    torch.manual_seed(1)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "vocab_size": 50,
    }
    made: nn.Module = (
        t.BertModel(t.BertConfig(**sizes))
        if kind == "bert"
        else t.MistralModel(t.MistralConfig(**sizes, num_key_value_heads=1))
    )
    made = made.to(dtype).eval()
    add_lora(made, TrainingConfig(lora_rank=4, lora_alpha=6))
    with torch.no_grad():
        for parameter in lora_parameters(made).values():
            parameter.normal_(std=0.1)
    return made


def states_and_gradients(model: Any) -> tuple[Tensor, dict[str, Tensor]]:
    states = model(IDS).last_hidden_state
    torch.manual_seed(2)
    parameters = lora_parameters(model)
    found = torch.autograd.grad(
        states,
        list(parameters.values()),
        torch.randn_like(states),
    )
    return states.detach(), dict(zip(parameters, found, strict=True))


@pytest.mark.parametrize("kind", ["bert", "mistral"])  # with a bias, and without
def test_states_and_gradients_are_those_of_peft(kind: str) -> None:
    plain = adapted(kind).double()  # gradients of 75 round beyond single precision's tolerance
    fused = copy.deepcopy(plain)
    fuse(fused)
    expected, by_peft = states_and_gradients(plain)
    found, gradients = states_and_gradients(fused)
    torch.testing.assert_close(found, expected)
    assert min(gradient.abs().max() for gradient in by_peft.values()) > 1e-4
    for name, gradient in by_peft.items():
        torch.testing.assert_close(
            gradients[name],
            gradient,
            msg=name,
        )
