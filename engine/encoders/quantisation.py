"""Weights in 4 bits for training (QLoRA: Dettmers et al. 2023), where bitsandbytes and a CUDA GPU are present."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from engine.core.errors import UsageError

if TYPE_CHECKING:
    import torch

_NEEDED = ("bitsandbytes", "accelerate")


def check_four_bit(device: str) -> None:
    """Raises UsageError, with the reason, where a model cannot be held in 4 bits on `device`."""
    if device == "cpu":
        raise _refusal(
            "It runs on a CUDA GPU alone, and this training runs on the CPU.",
            "Set training.quantisation to none, or encoder.device to cuda on a machine that has a GPU.",
        )
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise _refusal(
            f"The Python package {' and '.join(missing)} is not installed.",
            f"Install {' and '.join(missing)} in the program's environment, or set training.quantisation to none.",
        )


def four_bit(device: str, dtype: torch.dtype) -> dict[str, Any]:
    """Options for transformers: NF4 with nested constants, computing in `dtype`; loaded straight onto `device`."""
    from transformers import BitsAndBytesConfig

    wanted = BitsAndBytesConfig(  # type: ignore[no-untyped-call]
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=dtype
    )
    return {"quantization_config": wanted, "device_map": {"": device}}


def _refusal(why: str, to_do: str) -> UsageError:
    return UsageError("The model cannot be held in 4 bits.", why, to_do, code="quantisation-unavailable")
