"""The tensors and metadata of a weights file, read without loading it."""

from __future__ import annotations

from pathlib import Path

from engine.core.errors import ModelError


def tensor_names(path: Path) -> frozenset[str]:
    """Return the names of the tensors in a safetensors file. Raises what `tensor_shapes` raises."""
    return frozenset(tensor_shapes(path))


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of every tensor in a safetensors file, by name.

    Raises ModelError if the file is truncated, has trailing bytes or an invalid header.
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


def read_metadata(path: Path) -> dict[str, str]:
    """Return the metadata of a valid safetensors file."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        return dict(file.metadata() or {})
