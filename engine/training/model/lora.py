"""What is trained of an encoder: LoRA layers on its attention and feed-forward projections, or
all weights; and its folder on disk.

On a CPU their part is added within the matrix products: peft's make three more passes over a
layer's output.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.core.disk import complete_folder, disk_errors
from engine.core.errors import ModelError
from engine.encoders.fingerprint import ALL_WEIGHTS
from engine.encoders.loading import WHOLE
from engine.encoders.model_folder import ModelFolder
from engine.training.config import TrainingConfig


class _FusedLora(torch.autograd.Function):
    """y = x Wᵀ + b + s (x Aᵀ) Bᵀ, with gradients for x, A and B; W (o, i), A (r, i), B (o, r), x
    (..., i).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float
    ) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        low = (flat @ a.T).mul_(scale)
        if bias is None:
            found = flat @ weight.T
        else:
            found = torch.addmm(bias, flat, weight.T)
        found.addmm_(low, b.T)
        ctx.save_for_backward(flat, low, weight, a, b)
        ctx.scale = scale
        ctx.shape = x.shape
        return found.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        flat, low, weight, a, b = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, weight.shape[0])
        of_low = (gradient @ b).mul_(ctx.scale)
        of_x = None
        if ctx.needs_input_grad[0]:
            of_x = (gradient @ weight).addmm_(of_low, a).view(ctx.shape)
        return of_x, None, None, of_low.T @ flat, gradient.T @ low, None


def fuse(transformer: nn.Module) -> None:
    """Let peft's LoRA layers compute this way, in place.

    They must have no dropout, and their base weights get no gradient.
    """
    for layer in transformer.modules():
        if hasattr(layer, "base_layer"):
            layer.forward = _forward(layer)


def _forward(layer: Any) -> Any:
    base = layer.base_layer
    scale = layer.scaling[ADAPTER_NAME]
    a = layer.lora_A[ADAPTER_NAME]
    b = layer.lora_B[ADAPTER_NAME]
    return lambda x: _FusedLora.apply(x, base.weight, base.bias, a.weight, b.weight, scale)  # type: ignore[no-untyped-call]  # torch


ADAPTER_NAME = "default"
_PREFIX = "base_model.model."  # what peft puts before every name of a saved adapter


def blocks(transformer: nn.Module) -> tuple[str, nn.ModuleList] | None:
    """The transformer's blocks and their name in it; None where it has none.

    They are the `ModuleList` with the most parameters: BERT's and RoBERTa's `encoder.layer`,
    ModernBERT's and the decoders' `layers`.
    """
    from torch import nn

    lists = [
        (name, module)
        for name, module in transformer.named_modules()
        if isinstance(module, nn.ModuleList)
    ]
    if lists:
        return max(lists, key=lambda item: sum(p.numel() for p in item[1].parameters()))
    return None


def target_modules(transformer: nn.Module) -> list[str]:
    """Full names of the linear layers inside the transformer blocks, in the model's order.

    That takes in query, key, value, output and feed-forward projections (a decoder's gate, up and
    down) under whatever name, and leaves out embeddings, pooler and heads. Raises ModelError where
    there are none.
    """
    from torch import nn

    if (found := blocks(transformer)) is not None:
        name, block = found
        linear = [
            f"{name}.{inner}"
            for inner, module in block.named_modules()
            if isinstance(module, nn.Linear)
        ]
        if linear:
            return linear
    raise ModelError(
        f"The model type {type(transformer).__name__} cannot be adapted.",
        "It has no transformer blocks with linear layers to put LoRA on.",
        "Use a BERT, RoBERTa, MPNet, ModernBERT, Qwen or Mistral model, or search with the model as"
        " it is.",
        code="model-unsupported",
    )


def add_lora(transformer: nn.Module, config: TrainingConfig) -> Any:
    """Freeze the model and add trainable LoRA layers in place (B = 0: its output is unchanged).

    Returns peft's config.

    The layers take the dtype of the weights beside them. Seed torch before: A is random.
    """
    from peft import LoraConfig, inject_adapter_in_model

    lora = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,  # type: ignore[arg-type]  # peft scales by alpha/r with any number
        lora_dropout=config.lora_dropout,
        target_modules=target_modules(transformer),
        bias="none",
        task_type="FEATURE_EXTRACTION",
    )
    dtype = next(
        parameter.dtype for parameter in transformer.parameters() if parameter.is_floating_point()
    )
    inject_adapter_in_model(lora, transformer, adapter_name=ADAPTER_NAME)
    for name, parameter in transformer.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if "lora_" in name:
            parameter.data = parameter.data.to(dtype)
    return lora


def lora_parameters(transformer: nn.Module) -> dict[str, nn.Parameter]:
    """The trainable tensors under the names that peft gives them in `adapter_model.safetensors`."""
    marker = f".{ADAPTER_NAME}."
    return {
        _PREFIX + name.replace(marker, "."): parameter
        for name, parameter in transformer.named_parameters()
        if parameter.requires_grad
    }


def lora_settings(lora: Any, model: ModelFolder) -> dict[str, Any]:
    """Peft's settings of LoRA layers, as `write_adapter` takes them."""
    settings = lora.to_dict() | {"base_model_name_or_path": model.name, "inference_mode": True}
    return {key: _plain(value) for key, value in settings.items()}


def all_weights_settings(model: ModelFolder, tensors: int) -> dict[str, Any]:
    """What stands beside so many tensors of a model's weights, as `write_adapter` takes it:
    which weights training began with.
    """
    return {
        "peft_type": ALL_WEIGHTS,
        "base_model_name_or_path": model.name,
        "base_weights_sha256": model.weights_sha256,
        "tensors": tensors,
    }


def whole_parameters(transformer: nn.Module) -> dict[str, nn.Parameter]:
    """All tensors but the LoRA layers', under the names that an adapter's file has them by."""
    named = transformer.named_parameters()
    return {
        WHOLE + name.replace(".base_layer.", "."): parameter
        for name, parameter in named
        if "lora_" not in name
    }


def write_adapter(
    folder: Path,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write an adapter's folder, in one piece: `adapter_config.json`,
    `adapter_model.safetensors` (float32) with its `metadata`.

    Raises ResourceError when the disk is full.
    """
    from safetensors.torch import save_file

    text = json.dumps(dict(settings), indent=2, sort_keys=True)
    plain = {name: tensor.float().contiguous().cpu() for name, tensor in tensors.items()}
    with disk_errors(f"The adapter could not be written to {folder}."):
        shutil.rmtree(folder, ignore_errors=True)
        with complete_folder(
            folder.with_name(f".writing-{folder.name}-{os.getpid()}"), folder
        ) as temporary:
            save_file(plain, temporary / "adapter_model.safetensors", metadata)
            (temporary / "adapter_config.json").write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    """Sets have no order and enumerations no JSON form."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return getattr(value, "value", value)


def start_of(folder: Path, masters: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of an adapter to begin with.

    Raises ModelError where its layers are not shaped like a student's `masters`.
    """
    from safetensors.torch import load_file

    tensors = load_file(folder / "adapter_model.safetensors")
    shapes = {
        name: tuple(tensor.shape)
        for name, tensor in tensors.items()
        if name in masters or not name.startswith(WHOLE)
    }
    if shapes != {name: tuple(master.shape) for name, master in masters.items()}:
        raise ModelError(
            f"The adapter {folder} cannot be trained on.",
            "Its layers do not match this model and training.lora_rank.",
            "Train without it, or with the model and rank that it was trained with.",
            code="adapter-mismatch",
        )
    return tensors
