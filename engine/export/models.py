"""The adapter as a peft folder, and the encoders as sentence-transformers folders."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from engine.encoders.for_project import CHUNKS
from engine.encoders.model_folder import ModelFolder
from engine.export.source import Source

QUERY_FOLDER, CHUNK_FOLDER, MODEL_FOLDER = "query-encoder", "chunk-encoder", "model"


def write_adapter(source: Source, folder: Path) -> None:
    """`adapter/`: loading it with peft gives what search uses, its weight taken into `lora_alpha`.

    It is the queries' where chunks have another, which is then `adapter/chunks/`.
    """
    adapter, weight = source.adapter()
    for part in ("", CHUNKS):
        if (adapter / part).is_dir():
            _copy_adapter(adapter / part, folder / "adapter" / part, weight or 1.0)


def _copy_adapter(adapter: Path, target: Path, weight: float) -> None:
    target.mkdir()
    shutil.copyfile(adapter / "adapter_model.safetensors", target / "adapter_model.safetensors")
    config = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    config["lora_alpha"] = config["lora_alpha"] * weight
    (target / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def write_models(source: Source, folder: Path) -> None:
    """`model/`; where queries and chunks are encoded differently, `query-encoder/` and `chunk-encoder/`."""
    for name in model_folders(source):
        _save(source, name, folder / name)


def write_onnx(source: Source, folder: Path) -> None:
    """`model-onnx/`; where queries and chunks are encoded differently, `query-encoder-onnx/` and `chunk-encoder-onnx/`."""
    from engine.encoders.graph.onnx_file import save_onnx

    _convert(source, folder, "onnx", save_onnx)


def write_gguf(source: Source, folder: Path) -> None:
    """As `write_onnx`: `model-gguf/`, or `query-encoder-gguf/` and `chunk-encoder-gguf/`."""
    from engine.export.gguf_file import save_gguf

    _convert(source, folder, "gguf", save_gguf)


def _convert(source: Source, folder: Path, form: str, save: Callable[[ModelFolder, Path], None]) -> None:
    """Another form of the encoders, from folders that are removed unless they are exported, too."""
    from engine.encoders.model_folder import resolve_model

    for name in model_folders(source):
        saved = folder / name if (folder / name).is_dir() else folder / f".{name}"
        if saved.name != name:
            _save(source, name, saved)
        save(resolve_model(str(saved)), folder / f"{name}-{form}")
        if saved.name != name:
            shutil.rmtree(saved)


def _save(source: Source, name: str, folder: Path) -> None:
    from engine.encoders.saving import save_encoder

    in_use = source.in_use
    adapter = in_use.chunk_adapter if name == CHUNK_FOLDER else in_use.adapter
    save_encoder(in_use.folder, folder, adapter=adapter, scale=in_use.weight, max_tokens=in_use.max_tokens)


def model_folders(source: Source) -> tuple[str, ...]:
    """The folders of the encoders that search uses."""
    return (MODEL_FOLDER,) if source.in_use.scope == "both" else (QUERY_FOLDER, CHUNK_FOLDER)
