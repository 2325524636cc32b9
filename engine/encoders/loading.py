"""Loading a model folder as a SentenceTransformer, offline, and merging an adapter into it."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.environment import OFFLINE
from engine.core.errors import ModelError, ResourceError, first_line
from engine.encoders.deferred import light_imports
from engine.encoders.end_token import add_missing
from engine.encoders.fingerprint import ALL_WEIGHTS, check_adapter
from engine.encoders.model_folder import ModelFolder
from engine.encoders.pooling import replace_pooling
from engine.encoders.weights_file import tensor_names

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

WHOLE = "whole/"
"""Prefix of whole weights in an adapter's file; LoRA layers are added to these weights."""


def load_sentence_transformer(
    model: ModelFolder, device: str, torch_dtype: torch.dtype | str
) -> SentenceTransformer:
    """Load the model on `device`, its transformer in `torch_dtype`, later modules in float32.

    `device` is "cpu", "cuda" or "cuda:N". No connection is opened and no code from the folder is
    run. Raises ModelError if the weights do not fit the configuration, ResourceError if memory runs
    out.
    """
    _go_offline()
    with light_imports():
        import torch
        from sentence_transformers import SentenceTransformer

    dtype = getattr(torch, torch_dtype) if isinstance(torch_dtype, str) else torch_dtype
    try:
        loaded = SentenceTransformer(
            str(model.path),
            device=device,
            local_files_only=True,
            trust_remote_code=False,
            model_kwargs={"dtype": dtype, "use_safetensors": True},
        )
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise ResourceError(
            f"There is not enough memory to load the model {model.name}.",
            first_line(error),
            "Close other programs, or use a smaller model.",
            code="memory-full",
        ) from error
    except Exception as error:
        raise ModelError(
            f"The model {model.name} cannot be loaded.",
            f"The libraries say: {first_line(error)}",
            "Copy the model folder again, or use another model.",
        ) from error
    _check_reads_text(loaded, model)
    _check_weights_fit(loaded, model)
    add_missing(loaded.tokenizer, model)
    if model.pooling:
        replace_pooling(loaded, model.pooling)
    for module in list(loaded)[1:]:
        module.to(device).float()
    loaded.eval()
    return loaded


def merge_adapter(
    loaded: SentenceTransformer, model: ModelFolder, folder: Path, scale: float
) -> None:
    """Merge an adapter into the transformer's weights in place and in their dtype: W + scale · ΔW.

    ΔW includes what pre-training of all weights changed (`WHOLE`). `model` must be loaded in
    float32. Raises ModelError if the adapter does not belong to the model.
    """
    config = check_adapter(folder)
    if config["peft_type"] == ALL_WEIGHTS:
        if config.get("base_weights_sha256") != model.weights_sha256:
            raise _mismatch_error(
                folder, f"It was trained on a model with other weights than {model.name}."
            )
        if config.get("tensors") != len(tensor_names(folder / "adapter_model.safetensors")):
            raise _mismatch_error(folder, "Some of its weights are missing.")
        _merge_all_weights(loaded, folder, scale)
    else:
        _merge_lora(loaded, folder, scale)


def _merge_all_weights(
    loaded: SentenceTransformer,
    folder: Path,
    scale: float,
) -> None:
    """Merge trained weights: W + scale · (W_trained − W)."""
    from safetensors.torch import load_file

    transformer: Any = loaded[0]
    weights = {WHOLE + name: value for name, value in transformer.auto_model.named_parameters()}
    trained = load_file(folder / "adapter_model.safetensors")
    for name, value in trained.items():
        if name not in weights or weights[name].shape != value.shape:
            raise _mismatch_error(
                folder, f"The model has no weights of the name and shape of {name}."
            )
        weights[name].data = weights[name].data.lerp(value, scale)


def _merge_lora(
    loaded: SentenceTransformer,
    folder: Path,
    scale: float,
) -> None:
    """Merge LoRA layers as `merge_adapter`, with the whole weights that pre-training changed."""
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors.torch import load_file

    file = folder / "adapter_model.safetensors"
    transformer: Any = loaded[0]
    base = {}  # the weights before the merge, if they are needed
    if scale != 1.0:
        for name, value in transformer.auto_model.named_parameters():
            base[name] = value.detach().clone()
    try:
        whole = {}
        for name, tensor in load_file(file).items():
            if name.startswith(WHOLE):
                whole[name.removeprefix(WHOLE)] = tensor
        unexpected = transformer.auto_model.load_state_dict(whole, strict=False).unexpected_keys
        with warnings.catch_warnings():
            # What peft warns of is raised as an error below.
            warnings.simplefilter("ignore")
            wrapped = PeftModel.from_pretrained(
                transformer.auto_model, str(folder), is_trainable=False, torch_device="cpu"
            )
            expected = frozenset(get_peft_model_state_dict(wrapped))
    except Exception as error:
        raise _mismatch_error(folder, first_line(error)) from error
    loaded_whole = {WHOLE + name for name in whole.keys() - set(unexpected)}
    # LoRA layers without a place in the model, or places without layers.
    unmatched = expected ^ (tensor_names(file) - loaded_whole)
    if unmatched:
        count = len(unmatched)
        raise _mismatch_error(
            folder, f"{count} of its tensors have no counterpart, such as {min(unmatched)}."
        )
    merged = wrapped.merge_and_unload()
    for name, value in merged.named_parameters():
        if name in base:
            value.data = base[name].lerp(value.data, scale)
    transformer.model = merged


def _mismatch_error(folder: Path, why: str) -> ModelError:
    return ModelError(
        f"The adapter {folder} does not fit this model.",
        why,
        "Use the adapter with the model it was trained on, or train again.",
        code="adapter-mismatch",
        command="train",
    )


def _check_reads_text(loaded: SentenceTransformer, model: ModelFolder) -> None:
    """Refuse models that wrap every text in a chat.

    They would get other tokens here than they were trained with.
    """
    kinds = [str(kind) for kind in getattr(loaded[0], "modality_config", {"text": None})]
    if "text" not in kinds or "message" in kinds:
        raise ModelError(
            f"The model {model.name} does not read plain text.",
            f"It reads: {', '.join(kinds)}.",
            "Use a text embedding model.",
            code="model-unsupported",
        )


def _check_weights_fit(loaded: SentenceTransformer, model: ModelFolder) -> None:
    """Refuse a model if most of its weights have unknown names.

    The libraries would silently replace them by random ones.
    """
    transformer: Any = loaded[0]
    stored: set[str] = set()
    for file in model.transformer_path.glob("*.safetensors"):
        for name in tensor_names(file):
            # A file may hold `bert.encoder.…` or `model.bert.encoder.…` for `encoder.…`.
            parts = name.split(".")
            for cut in range(min(3, len(parts))):
                stored.add(".".join(parts[cut:]))
    names = [name for name, _ in transformer.auto_model.named_parameters()]
    present = sum(name in stored for name in names)
    if present * 2 < len(names):
        raise ModelError(
            f"The weights of the model {model.name} do not fit its configuration.",
            f"Only {present} of {len(names)} parameters are in its weights files.",
            "Copy config.json and the weights from the same model.",
            code="model-incomplete",
        )


def _go_offline() -> None:
    """Forbid the model libraries any connection, and silence their warnings and progress bars."""
    os.environ.update(OFFLINE)
    hub: Any = sys.modules.get("huggingface_hub.constants")
    if hub is not None:
        hub.HF_HUB_OFFLINE = True
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    transformers_logging: Any = import_module("transformers.utils.logging")
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
