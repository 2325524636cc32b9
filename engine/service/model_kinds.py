"""What kind of model a folder holds, and whether it can be loaded."""

from __future__ import annotations

from pathlib import Path

from engine.gguf.header import not_a_writer, read_header
from engine.models.catalogue import Kind


def check_usable(kind: Kind, folder: Path) -> None:
    """Raise ModelError unless a folder holds a model of that kind that can be loaded."""
    from engine.encoders.model_folder import resolve_model
    from engine.reranking.folder import resolve_cross_encoder

    if kind == "encoder":
        resolve_model(str(folder))
    elif kind == "reranker":
        resolve_cross_encoder(folder, folder)
    else:
        # The header of a split model is that of its first part.
        for file in sorted(folder.glob("*.gguf"))[:1]:
            unsuitable = not_a_writer(file, read_header(file))
            if unsuitable is not None:
                raise unsuitable


def find_kind(folder: Path) -> Kind:
    """Return whether a folder holds an encoder or a reranker, judged by its files."""
    from engine.encoders.model_folder import read_object
    from engine.reranking.folder import HEAD, is_modular

    config = folder / "config.json"
    architectures = read_object(config).get("architectures") if config.is_file() else None
    if isinstance(architectures, list) and architectures and str(architectures[0]).endswith(HEAD):
        return "reranker"
    if is_modular(folder):
        return "reranker"
    return "encoder"
