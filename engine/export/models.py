"""The adapter as a peft folder, and the encoders as sentence-transformers folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.core.messages.report import SearchMode
from engine.encoders.model_folder import ModelFolder
from engine.export.source import Source

QUERY_FOLDER = "query-encoder"
CHUNK_FOLDER = "chunk-encoder"
MODEL_FOLDER = "model"
ADAPTER_FOLDER = "adapter"
OF_SEMANTIC_SEARCH = "semantic-"
"""Begins the name of what only semantic search uses, where hybrid search has another encoder."""


@dataclass(frozen=True, slots=True)
class ModelPart:
    """An encoder of an export: its folder, the search mode that it is of, and whether it encodes
    chunks alone.
    """

    folder: str
    mode: SearchMode
    of_chunks: bool = False


def write_adapter(source: Source, folder: Path) -> None:
    """`adapter/`: loading it with peft gives what search uses, its weight taken into
    `lora_alpha`.

    It is the queries' where chunks have another, which is then `adapter/chunks/`. Where both search
    modes use it with weights of their own, that of semantic search is `semantic-adapter/`.
    """
    adapter, weight = source.adapter()
    _copy_adapter(adapter, folder / ADAPTER_FOLDER, weight or 1.0)
    semantic = source.adapter_weights()[1]["semantic"]
    if semantic not in (0.0, weight):
        _copy_adapter(adapter, folder / (OF_SEMANTIC_SEARCH + ADAPTER_FOLDER), semantic)


def _copy_adapter(adapter: Path, target: Path, weight: float) -> None:
    target.mkdir()
    shutil.copyfile(adapter / "adapter_model.safetensors", target / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    config["lora_alpha"] = config["lora_alpha"] * weight
    (target / "adapter_config.json").write_text(
        json.dumps(config, indent=2) + "\n", encoding="utf-8"
    )


def write_models(source: Source, folder: Path) -> None:
    """`model/`; where queries and chunks are encoded differently, `query-encoder/` and
    `chunk-encoder/`.

    Those that only semantic search uses have `semantic-` before their names.
    """
    for part in model_parts(source):
        _save(source, part, folder / part.folder)


def write_onnx(source: Source, folder: Path) -> None:
    """`model-onnx/`; where queries and chunks are encoded differently, `query-encoder-onnx/` and
    `chunk-encoder-onnx/`.
    """
    from engine.encoders.graph.onnx_file import save_onnx

    _convert(source, folder, "onnx", save_onnx)


def write_gguf(source: Source, folder: Path) -> None:
    """As `write_onnx`: `model-gguf/`, or `query-encoder-gguf/` and `chunk-encoder-gguf/`."""
    from engine.export.gguf_file import save_gguf

    _convert(source, folder, "gguf", save_gguf)


def _convert(
    source: Source, folder: Path, form: str, save: Callable[[ModelFolder, Path], None]
) -> None:
    """Another form of the encoders, from folders that are removed unless they are exported, too."""
    from engine.encoders.model_folder import resolve_model

    for part in model_parts(source):
        name = part.folder
        if (folder / name).is_dir():
            saved = folder / name
        else:
            saved = folder / f".{name}"
        if saved.name != name:
            _save(source, part, saved)
        save(resolve_model(str(saved)), folder / f"{name}-{form}")
        if saved.name != name:
            shutil.rmtree(saved)


def _save(source: Source, part: ModelPart, folder: Path) -> None:
    from engine.encoders.saving import save_encoder

    in_use = source.encoders[part.mode]
    if part.of_chunks:
        adapter = in_use.chunk_adapter
    else:
        adapter = in_use.adapter
    save_encoder(
        in_use.folder, folder, adapter=adapter, scale=in_use.weight, max_tokens=in_use.max_tokens
    )


def model_parts(source: Source) -> tuple[ModelPart, ...]:
    """The encoders that search uses.

    Where semantic search has its own for queries alone, its chunks are those of hybrid search.
    """
    parts: list[ModelPart] = []
    for mode, encoder in source.encoders.items():
        before = OF_SEMANTIC_SEARCH if mode == "semantic" else ""
        if mode == "semantic" and encoder.chunk_encoder == source.in_use.chunk_encoder:
            parts.append(ModelPart(before + QUERY_FOLDER, mode))
        elif encoder.scope == "both":
            parts.append(ModelPart(before + MODEL_FOLDER, mode))
        else:
            parts.append(ModelPart(before + QUERY_FOLDER, mode))
            parts.append(ModelPart(before + CHUNK_FOLDER, mode, of_chunks=True))
    return tuple(parts)
