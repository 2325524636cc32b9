"""Saving an encoder as a sentence-transformers folder that gives the same vectors anywhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.errors import EngineError, ResourceError
from engine.encoders.fingerprint import effective_max_tokens, read_prompts
from engine.encoders.geometry.spaces import read_geometry
from engine.encoders.loading import load_sentence_transformer, merge_adapter
from engine.encoders.model_folder import ModelFolder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_PATH_KEYS = ("_name_or_path", "base_model_name_or_path")


def save_encoder(
    model: ModelFolder, folder: Path, *, adapter: Path | None, scale: float, max_tokens: int
) -> None:
    """Save the model that `TransformerEncoder.load` loads with the same arguments.

    It has float32 weights, the length limit, the prompts and unit norm. For a hyperbolic encoder
    its vectors are the pooled ones, which the geometry maps to points. `folder` is created; no file
    in it names a folder of this machine. Raises ModelError as `TransformerEncoder.load` does,
    ResourceError if the disk is full.
    """
    loaded = load_sentence_transformer(model, "cpu", "float32")
    geometry = None
    if adapter is not None and scale != 0.0:
        merge_adapter(loaded, model, adapter, scale)
        geometry = read_geometry(adapter)
    _complete(
        loaded,
        model,
        max_tokens,
        unit_norm=geometry is None,
    )
    try:
        loaded.save(
            str(folder),
            create_model_card=False,
            safe_serialization=True,
        )
    except OSError:
        raise
    except Exception as error:  # safetensors has its own exception for a full disk.
        if "No space left" not in str(error):
            raise EngineError(
                f"The model {model.name} could not be saved.", f"{error}.", code="write-failed"
            ) from error
        raise ResourceError(
            "The model could not be written.",
            f"{error}.",
            "Free some disk space and try again.",
            code="disk-full",
        ) from error
    for file in folder.rglob("*.json"):
        _remove_paths(file)


def _complete(
    loaded: SentenceTransformer, model: ModelFolder, max_tokens: int, *, unit_norm: bool
) -> None:
    """Set the length limit, prompts and unit norm, which the engine applies around the model."""
    from sentence_transformers.sentence_transformer.modules import Normalize

    loaded.max_seq_length = effective_max_tokens(model, max_tokens)
    prompts = read_prompts(model)
    loaded.prompts = {
        **loaded.prompts,
        "query": prompts.query,
        "document": prompts.document,
    }
    has_unit_norm = type(list(loaded)[-1]).__name__ == "Normalize"
    if unit_norm and not has_unit_norm:
        loaded.append(Normalize())
    if has_unit_norm and not unit_norm:
        del loaded[-1]


def _remove_paths(file: Path) -> None:
    """Remove the keys of a configuration that name folders of this machine."""
    try:
        config: Any = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return
    if not isinstance(config, dict) or config.keys().isdisjoint(_PATH_KEYS):
        return
    for name in _PATH_KEYS:
        config.pop(name, None)
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    file.write_text(
        text,
        encoding="utf-8",
        newline="\n",
    )
