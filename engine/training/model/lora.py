"""The trained weights of an encoder: LoRA layers or all weights, and their folder on disk.

On a CPU the LoRA part is added within the matrix products, because peft's makes three more passes
over a layer's output.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engine.core.disk import disk_errors, publish_folder
from engine.core.errors import ModelError
from engine.core.platforms.files import try_remove_tree
from engine.encoders.fingerprint import ALL_WEIGHTS
from engine.encoders.loading import WHOLE
from engine.encoders.model_folder import ModelFolder
from engine.training.config import TrainingConfig

ADAPTER_NAME = "default"
# Prefix that peft gives every name of a saved adapter.
_PREFIX = "base_model.model."


class _FusedLora(torch.autograd.Function):
    """LoRA's layer y = x Wᵀ + c + s (x Aᵀ) Bᵀ, with gradients for x, A and B (Hu et al. 2021).

    x (..., i), W (o, i) and its bias c (o,), which are frozen, A (r, i), B (o, r), s = alpha / r.
    With G = dL/dy: dL/dx = G W + s (G B) A, dL/dA = s (G B)ᵀ x, dL/dB = Gᵀ s (x Aᵀ).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float
    ) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])  # (n, i)
        low = (flat @ a.T).mul_(scale)  # s x Aᵀ (n, r)
        if bias is None:
            output = flat @ weight.T  # (n, o)
        else:
            output = torch.addmm(
                bias,
                flat,
                weight.T,
            )
        output.addmm_(low, b.T)
        ctx.save_for_backward(
            flat,
            low,
            weight,
            a,
            b,
        )
        ctx.scale = scale
        ctx.shape = x.shape
        return output.view(*x.shape[:-1], -1)

    @staticmethod
    def backward(
        ctx: Any, *gradients: Tensor
    ) -> tuple[Tensor | None, None, None, Tensor, Tensor, None]:
        flat, low, weight, a, b = ctx.saved_tensors
        gradient = gradients[0].reshape(-1, weight.shape[0])  # G (n, o)
        low_gradient = (gradient @ b).mul_(ctx.scale)  # s G B (n, r)
        x_gradient = None
        if ctx.needs_input_grad[0]:
            x_gradient = (gradient @ weight).addmm_(low_gradient, a).view(ctx.shape)
        return x_gradient, None, None, low_gradient.T @ flat, gradient.T @ low, None


def fuse(transformer: nn.Module) -> None:
    """Let peft's LoRA layers compute as `_FusedLora`, in place.

    They must have no dropout, and their base weights get no gradient.
    """
    for layer in transformer.modules():
        if hasattr(layer, "base_layer"):
            layer.forward = _build_forward(layer)


def _build_forward(layer: Any) -> Any:
    """Return the forward function of one of peft's LoRA layers by `_FusedLora`."""
    base = layer.base_layer
    scale = layer.scaling[ADAPTER_NAME]
    a = layer.lora_A[ADAPTER_NAME]
    b = layer.lora_B[ADAPTER_NAME]
    return lambda x: _FusedLora.apply(x, base.weight, base.bias, a.weight, b.weight, scale)  # type: ignore[no-untyped-call]  # torch


def find_blocks(transformer: nn.Module) -> tuple[str, nn.ModuleList] | None:
    """Return the name of the transformer's list of blocks, and the list; None if it has none.

    It is the `ModuleList` with the most parameters: BERT's and RoBERTa's `encoder.layer`,
    ModernBERT's and the decoders' `layers`.
    """
    lists = []
    for name, module in transformer.named_modules():
        if isinstance(module, nn.ModuleList):
            lists.append((name, module))
    if lists:
        return max(lists, key=lambda item: sum(p.numel() for p in item[1].parameters()))
    return None


def target_modules(transformer: nn.Module) -> list[str]:
    """Return the full names of the linear layers inside the transformer blocks, in order.

    This includes query, key, value, output and feed-forward projections (a decoder's gate, up and
    down) under any name, and leaves out embeddings, pooler and heads. Raises ModelError if there
    are none.
    """
    names = []
    named_blocks = find_blocks(transformer)
    if named_blocks is not None:
        blocks_name, blocks = named_blocks
        for name, module in blocks.named_modules():
            if isinstance(module, nn.Linear):
                names.append(f"{blocks_name}.{name}")
    if names:
        return names
    raise ModelError(
        f"The model type {type(transformer).__name__} cannot be adapted.",
        "It has no transformer blocks with linear layers to put LoRA on.",
        "Use a BERT, RoBERTa, MPNet, ModernBERT, Qwen or Mistral model, or search with the model as"
        " it is.",
        code="model-unsupported",
    )


def add_lora(transformer: nn.Module, config: TrainingConfig) -> Any:
    """Freeze the model, add trainable LoRA layers in place, and return peft's config.

    With B = 0 the model's output is unchanged. The layers take the dtype of the weights they belong
    to. Seed torch before, because A is random.
    """
    from peft import LoraConfig, inject_adapter_in_model

    lora = LoraConfig(
        r=config.lora_rank,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        target_modules=target_modules(transformer),
        bias="none",
        task_type="FEATURE_EXTRACTION",
    )
    parameters = transformer.parameters()
    dtype = next(weights.dtype for weights in parameters if weights.is_floating_point())
    inject_adapter_in_model(lora, transformer, adapter_name=ADAPTER_NAME)
    for name, parameter in transformer.named_parameters():
        parameter.requires_grad_("lora_" in name)
        if "lora_" in name:
            parameter.data = parameter.data.to(dtype)
    return lora


def lora_parameters(transformer: nn.Module) -> dict[str, nn.Parameter]:
    """Return the trainable tensors by the names that peft gives them in an adapter's file."""
    marker = f".{ADAPTER_NAME}."
    parameters = {}
    for name, parameter in transformer.named_parameters():
        if parameter.requires_grad:
            parameters[_PREFIX + name.replace(marker, ".")] = parameter
    return parameters


def lora_settings(lora: Any, model: ModelFolder) -> dict[str, Any]:
    """Return peft's `LoraConfig` as the settings that `write_adapter` takes."""
    settings = lora.to_dict() | {"base_model_name_or_path": model.name, "inference_mode": True}
    return {key: _to_json(value) for key, value in settings.items()}


def all_weights_settings(model: ModelFolder, tensors: int) -> dict[str, Any]:
    """Return the settings that `write_adapter` takes if all weights are trained.

    `tensors`: their number. The settings name the weights that training began with.
    """
    return {
        "peft_type": ALL_WEIGHTS,
        "base_model_name_or_path": model.name,
        "base_weights_sha256": model.weights_sha256,
        "tensors": tensors,
    }


def whole_parameters(transformer: nn.Module) -> dict[str, nn.Parameter]:
    """Return all tensors except the LoRA layers' by their names in an adapter's file."""
    parameters = {}
    for name, parameter in transformer.named_parameters():
        if "lora_" not in name:
            parameters[WHOLE + name.replace(".base_layer.", ".")] = parameter
    return parameters


def write_adapter(
    folder: Path,
    settings: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    metadata: dict[str, str] | None = None,
) -> None:
    """Write an adapter's folder atomically.

    It holds `adapter_config.json` and `adapter_model.safetensors` (float32) with its `metadata`.
    Raises ResourceError if the disk is full.
    """
    from safetensors.torch import save_file

    text = json.dumps(
        dict(settings),
        indent=2,
        sort_keys=True,
    )
    plain = {name: tensor.float().contiguous().cpu() for name, tensor in tensors.items()}
    unfinished = folder.with_name(f".writing-{folder.name}-{os.getpid()}")
    with disk_errors(f"The adapter could not be written to {folder}."):
        try_remove_tree(folder)
        with publish_folder(unfinished, folder) as temporary:
            save_file(
                plain,
                temporary / "adapter_model.safetensors",
                metadata,
            )
            (temporary / "adapter_config.json").write_text(
                text + "\n", encoding="utf-8", newline="\n"
            )


def _to_json(value: Any) -> Any:
    """Return a value for JSON: sets as sorted lists, enumerations as their values."""
    if isinstance(value, set | frozenset):
        return sorted(value)
    return getattr(value, "value", value)


def read_initial_tensors(folder: Path, masters: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read the tensors of an adapter to begin with.

    Raises ModelError if its layers are not shaped like a student's `masters`.
    """
    from safetensors.torch import load_file

    tensors = load_file(folder / "adapter_model.safetensors")
    shapes = {}
    for name, tensor in tensors.items():
        # Whole weights that this training leaves alone have no master.
        if name in masters or not name.startswith(WHOLE):
            shapes[name] = tuple(tensor.shape)
    if shapes != {name: tuple(master.shape) for name, master in masters.items()}:
        raise ModelError(
            f"The adapter {folder} cannot be trained on.",
            "Its layers do not match this model and training.lora_rank.",
            "Train without it, or with the model and rank that it was trained with.",
            code="adapter-mismatch",
        )
    return tensors
