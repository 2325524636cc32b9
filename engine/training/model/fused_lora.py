"""LoRA layers on a CPU, their part added within the matrix products: peft's make three more passes over a layer's output."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from engine.training.model.lora import ADAPTER_NAME


class _FusedLora(torch.autograd.Function):
    """y = x Wᵀ + b + s (x Aᵀ) Bᵀ, with gradients for x, A and B; W (o, i), A (r, i), B (o, r), x (..., i)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        low = (flat @ a.T).mul_(scale)
        found = flat @ weight.T if bias is None else torch.addmm(bias, flat, weight.T)
        found.addmm_(low, b.T)
        ctx.save_for_backward(flat, low, weight, a, b)
        ctx.scale, ctx.shape = scale, x.shape
        return found.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        flat, low, weight, a, b = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, weight.shape[0])
        of_low = (gradient @ b).mul_(ctx.scale)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = (gradient @ weight).addmm_(of_low, a).view(ctx.shape)
        return of_x, None, None, of_low.T @ flat, gradient.T @ low, None


def fuse(transformer: nn.Module) -> None:
    """Let peft's LoRA layers compute this way, in place. They must have no dropout, and their base weights get no gradient."""
    for layer in transformer.modules():
        if hasattr(layer, "base_layer"):
            layer.forward = _forward(layer)


def _forward(layer: Any) -> Any:
    base, scale = layer.base_layer, layer.scaling[ADAPTER_NAME]
    a, b = layer.lora_A[ADAPTER_NAME], layer.lora_B[ADAPTER_NAME]
    return lambda x: _FusedLora.apply(x, base.weight, base.bias, a.weight, b.weight, scale)  # type: ignore[no-untyped-call]  # torch
