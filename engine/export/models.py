"""The adapter as a peft folder, and the encoders as sentence-transformers folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.core.messages.report import SearchMode
from engine.core.platforms.files import delete_tree
from engine.encoders.model_folder import ModelFolder
from engine.export.source import Source

QUERY_FOLDER = "query-encoder"
CHUNK_FOLDER = "chunk-encoder"
MODEL_FOLDER = "model"
ADAPTER_FOLDER = "adapter"
OF_SEMANTIC_SEARCH = "semantic-"
"""Prefix of what only semantic search uses, if hybrid search has another encoder."""


@dataclass(frozen=True, slots=True)
class ModelPart:
    """An encoder of an export: its folder, and its search mode.

    `of_chunks`: it encodes chunks only.
    """

    folder: str
    mode: SearchMode
    of_chunks: bool = False


def write_adapter(source: Source, folder: Path) -> None:
    """Write `adapter/`, with which peft gives the encoder that search uses.

    Its `lora_alpha` includes the interpolation weight. It is the adapter of queries if chunks have
    another one. If the search modes use it with different weights, `semantic-adapter/` is that of
    semantic search.
    """
    adapter, weight = source.adapter()
    _copy_adapter(adapter, folder / ADAPTER_FOLDER, weight or 1.0)  # whole, if it is not in use
    _, weights = source.adapter_weights()
    semantic_weight = weights["semantic"]
    if semantic_weight not in (0.0, weight):
        target = folder / (OF_SEMANTIC_SEARCH + ADAPTER_FOLDER)
        _copy_adapter(adapter, target, semantic_weight)


def _copy_adapter(
    adapter: Path,
    target: Path,
    weight: float,
) -> None:
    """Copy an adapter with the interpolation weight in its `lora_alpha`, which scales ΔW."""
    target.mkdir()
    shutil.copyfile(adapter / "adapter_model.safetensors", target / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    config["lora_alpha"] = config["lora_alpha"] * weight
    (target / "adapter_config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8", newline="\n"
    )


def write_models(source: Source, folder: Path) -> None:
    """Write `model/`, or `query-encoder/` and `chunk-encoder/` if they differ.

    Folders that only semantic search uses have the prefix `semantic-`.
    """
    for part in list_model_parts(source):
        _save(
            source,
            part,
            folder / part.folder,
        )


def write_onnx(source: Source, folder: Path) -> None:
    """Write `model-onnx/`, or `query-encoder-onnx/` and `chunk-encoder-onnx/` if they differ."""
    from engine.encoders.graph.onnx_file import save_onnx

    _convert(source, folder, "onnx", save_onnx)


def write_gguf(source: Source, folder: Path) -> None:
    """Write `model-gguf/`, or `query-encoder-gguf/` and `chunk-encoder-gguf/` if they differ."""
    from engine.export.gguf_file import save_gguf

    _convert(source, folder, "gguf", save_gguf)


def _convert(
    source: Source, folder: Path, form: str, save: Callable[[ModelFolder, Path], None]
) -> None:
    """Write the encoders in another file format.

    `form`: the suffix of their folders, such as `onnx`. `save`: writes the format, from a
    sentence-transformers folder. Such folders are removed unless they are exported too.
    """
    from engine.encoders.model_folder import resolve_model

    for part in list_model_parts(source):
        target = folder / f"{part.folder}-{form}"
        exported = folder / part.folder
        if exported.is_dir():
            save(resolve_model(str(exported)), target)
            continue
        temporary = folder / f".{part.folder}"
        _save(source, part, temporary)
        save(resolve_model(str(temporary)), target)
        delete_tree(temporary)


def _save(
    source: Source,
    part: ModelPart,
    folder: Path,
) -> None:
    """Write an encoder as a sentence-transformers folder."""
    from engine.encoders.saving import save_encoder

    in_use = source.encoders[part.mode]
    adapter = in_use.chunk_adapter if part.of_chunks else in_use.adapter
    save_encoder(
        in_use.folder, folder, adapter=adapter, scale=in_use.weight, max_tokens=in_use.max_tokens
    )


def list_model_parts(source: Source) -> tuple[ModelPart, ...]:
    """Return the encoders that search uses, as parts of an export.

    If semantic search has its own encoder for queries only, its chunks are encoded as those of
    hybrid search.
    """
    parts: list[ModelPart] = []
    for mode, encoder in source.encoders.items():
        prefix = OF_SEMANTIC_SEARCH if mode == "semantic" else ""
        if mode == "semantic" and encoder.chunk_encoder == source.in_use.chunk_encoder:
            parts.append(ModelPart(prefix + QUERY_FOLDER, mode))
        elif encoder.scope == "both":
            parts.append(ModelPart(prefix + MODEL_FOLDER, mode))
        else:
            parts.append(ModelPart(prefix + QUERY_FOLDER, mode))
            parts.append(ModelPart(prefix + CHUNK_FOLDER, mode, of_chunks=True))
    return tuple(parts)
