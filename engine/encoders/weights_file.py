"""A file of weights: the tensors that it holds. Nothing is loaded."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import ModelError


def tensor_names(path: Path) -> frozenset[str]:
    """The names of the tensors in a safetensors file. Raises ModelError like `tensor_shapes`."""
    return frozenset(tensor_shapes(path))


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor in a safetensors file, by name.

    Raises ModelError where the file is truncated, has trailing bytes, or its header is not valid.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ModelError(
            f"The weights file {path} is damaged or incomplete.",
            f"Its safetensors header is invalid: {error}.",
            "Copy the model folder again, completely, and compare the checksums with the source.",
            code="model-damaged",
        ) from error


def metadata(path: Path) -> dict[str, str]:
    """What stands in a sound safetensors file beside its tensors."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return dict(file.metadata() or {})
