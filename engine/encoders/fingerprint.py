"""Fingerprints and prompts of encoders, read from files alone, without loading a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.core.disk import json_sha256, remembered_sha256
from engine.core.errors import ModelError
from engine.encoders.end_token import wanted_tokens
from engine.encoders.model_folder import ModelFolder, read_object
from engine.encoders.weights_file import tensor_names

ENCODING_VERSION = 1
"""Increase when the vectors of an unchanged model change."""
ALL_WEIGHTS = "ALL_WEIGHTS"
"""Type, in place of "LORA", of an adapter that holds all weights of a model, trained."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """The text a model was trained to see before a query and before a document, or ""."""

    query: str
    document: str


def read_prompts(model: ModelFolder) -> Prompts:
    """Return the prompts set by the user, else those of `config_sentence_transformers.json`.

    Models such as e5-mistral call the prompt of queries `web_search_query`. A prompt without a name
    of that kind is the default prompt, if there is one.
    """
    path = model.path / "config_sentence_transformers.json"
    config: dict[str, Any] = read_object(path) if path.is_file() else {}
    prompts = config.get("prompts") or {}
    default = prompts.get(config.get("default_prompt_name") or "", "")

    query = model.query_prompt
    if query is None:
        query = _choose_prompt(
            prompts,
            ("query", "web_search_query"),
            default,
        )
    document = model.document_prompt
    if document is None:
        document = _choose_prompt(
            prompts,
            ("document", "passage", "corpus"),
            default,
        )
    return Prompts(query, document)


def _choose_prompt(
    prompts: dict[str, Any],
    names: Sequence[str],
    default: Any,
) -> str:
    """Return the first of the named prompts that a model has, else the default one."""
    for name in names:
        if prompts.get(name) is not None:
            return str(prompts[name])
    return str(default)


_KNOWN: tuple[tuple[str, Prompts], ...] = (
    (r"(multilingual-)?e5-(small|base|large)(-v2)?", Prompts("query: ", "passage: ")),
    (
        r"(multilingual-)?e5-(large|mistral-7b)-instruct",
        Prompts(
            "Instruct: Given a web search query, retrieve relevant passages that answer the"
            " query\nQuery: ",
            "",
        ),
    ),
    (
        r"bge-(small|base|large)-en(-v1\.5)?",
        Prompts("Represent this sentence for searching relevant passages: ", ""),
    ),
    (r"nomic-embed-text(-v\d(\.\d)?)?(-moe)?", Prompts("search_query: ", "search_document: ")),
    (
        r"embedding-?gemma(-300m)?(-qat)?",
        Prompts("task: search result | query: ", "title: none | text: "),
    ),
    (
        r"qwen3-embedding(-[\d.]+b)?",
        Prompts(
            "Instruct: Given a web search query, retrieve relevant passages that answer the"
            " query\nQuery:",
            "",
        ),
    ),
)
"""Prompts from the model cards of models whose folders contain none."""
# The ends of names such as nomic-embed-text-v1.5.Q4_K_M, .f16, -bf16, -i1-GGUF, -imat-iq3_xs.
_QUANTISATION = re.compile(r"([-_.]([it]?q\d\w*|b?f\d\d|fp\d\d|mxfp\d\w*|i1|ud|imat|gguf))+$")


def missing_prompts(model: ModelFolder) -> Prompts | None:
    """Return the prompts of the model's card if neither its folder nor a setting has any."""
    is_set = model.query_prompt is not None or model.document_prompt is not None
    if is_set or read_prompts(model) != Prompts("", ""):
        return None
    return known_prompts(model.name)


def known_prompts(name: str) -> Prompts | None:
    """Return the prompts from the model card of a named model.

    A quantisation or tag at the end of the name is ignored.
    """
    name = name.removesuffix(":latest").replace(":", "-").lower()
    name = _QUANTISATION.sub("", name)
    for pattern, prompts in _KNOWN:
        if re.search(rf"(^|[-_/]){pattern}$", name):
            return prompts
    return None


def named_prompts(
    query: str | None,
    document: str | None,
    *names: str,
) -> Prompts:
    """Return the prompts of the settings; if one is None, that of the first known model name.

    Empty if none of the `names` is known.
    """
    known = filter(None, map(known_prompts, names))
    default = next(known, Prompts("", ""))
    return Prompts(
        default.query if query is None else query,
        default.document if document is None else document,
    )


def adapter_digest(folder: Path) -> str:
    """Return the hex sha256 of an adapter's weights and settings.

    Raises ModelError for an invalid adapter folder.
    """
    config = check_adapter(folder)
    config.pop("base_model_name_or_path", None)  # a folder, which differs between machines
    return json_sha256([remembered_sha256(folder / "adapter_model.safetensors"), config])


def check_adapter(folder: Path) -> dict[str, Any]:
    """Check an adapter's files and return its settings. Raises ModelError."""
    if not (folder / "adapter_config.json").is_file():
        raise _adapter_error(
            f"{folder} is not an adapter folder.", "It has no adapter_config.json."
        )
    if not (folder / "adapter_model.safetensors").is_file():
        raise _adapter_error(
            f"The adapter {folder} has no adapter_model.safetensors.", "Only safetensors is loaded."
        )
    config = read_object(folder / "adapter_config.json")
    if config.get("peft_type") not in ("LORA", ALL_WEIGHTS):
        raise _adapter_error(
            f"The adapter {folder} cannot be used.",
            "Only LoRA adapters and all weights of a model can be merged and scaled.",
        )
    tensor_names(folder / "adapter_model.safetensors")
    return config


def _adapter_error(what: str, why: str) -> ModelError:
    to_do = "Train the adapter again, or copy its folder again, completely."
    return ModelError(
        what,
        why,
        to_do,
        code="adapter-invalid",
    )


def effective_max_tokens(model: ModelFolder, max_tokens: int) -> int:
    """Return the wanted length, or the model's own limit if that is shorter."""
    return min(max_tokens, model.max_tokens)


def encoder_fingerprint(
    model: ModelFolder,
    adapter: Path | None = None,
    adapter_scale: float = 1.0,
    max_tokens: int = 256,
) -> str:
    """Return the identifier of an encoder's vectors, independent of device and precision.

    An adapter scaled by 0 has the fingerprint of the base model. Raises ModelError for an invalid
    adapter.
    """
    prompts = read_prompts(model)
    parts: dict[str, object] = {
        "version": ENCODING_VERSION,
        "model": model.fingerprint,
        "adapter": None,
        "scale": None,
        "max_tokens": effective_max_tokens(model, max_tokens),
        "prompts": [prompts.query, prompts.document],
    }
    if adapter is not None and adapter_scale != 0.0:
        parts["adapter"] = adapter_digest(adapter)
        parts["scale"] = float(adapter_scale)
    tokens = wanted_tokens(model)
    if tokens:
        parts["added tokens"] = tokens
    return json_sha256(parts)
