"""Adapter folders on disk: written in one piece, and read to begin another training with."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from engine.core.disk import complete_folder
from engine.core.errors import ModelError, ResourceError
from engine.training.model.lora import save_adapter

if TYPE_CHECKING:
    from torch import Tensor

    from engine.training.model.student import Student


def write_adapter(folder: Path, student: Student, tensors: dict[str, Tensor]) -> Path:
    """`folder/adapter`, put there in one piece. Raises ResourceError when the disk is full."""
    final = folder / "adapter"
    try:
        shutil.rmtree(final, ignore_errors=True)
        with complete_folder(folder / f".writing-adapter-{os.getpid()}", final) as temporary:
            save_adapter(temporary, student.lora, tensors, student.model.name)
    except OSError as error:
        raise ResourceError(
            f"The adapter cannot be written to {final}.", f"{error}.", "Free disk space and run again.",
            code="write-failed", command="run",
        ) from error  # fmt: skip
    return final


def start_of(folder: Path, student: Student) -> dict[str, Tensor]:
    """The tensors of an adapter to begin with. Raises ModelError when they are not those of the student's layers."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "adapter_model.safetensors")
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if shapes != {name: tuple(master.shape) for name, master in student.masters.items()}:
        raise ModelError(
            f"The adapter {folder} cannot be trained on.", "Its layers are not those of this model and training.lora_rank.",
            "Train without it, or with the model and the rank that it was made with.", code="adapter-mismatch",
        )  # fmt: skip
    return tensors
