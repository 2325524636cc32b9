"""A BERT encoder as GGUF, for llama.cpp: weights, tokenizer, pooling and length limit in one file.

The package gguf, by the authors of llama.cpp, writes the file and knows the names of the weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.core.disk import disk_errors
from engine.core.errors import UsageError
from engine.encoders.fingerprint import read_prompts
from engine.encoders.model_folder import ModelFolder, read_modules, read_object
from engine.encoders.pooling import read_modes

if TYPE_CHECKING:
    from gguf import GGUFWriter

    from engine.core.arrays import Floats

_POOLING = {"mean": 1, "cls": 2, "lasttoken": 3}  # Numbers of llama.cpp.
_UNUSED = ("pooler.", "embeddings.position_ids")  # Weights that encoding does not need.
_ALWAYS_FLOAT32 = ("position_embd.weight", "token_types.weight")
# Types of tokens in llama.cpp.
_NORMAL = 1
_UNKNOWN = 2
_CONTROL = 3
_NO_TOKEN = 5
# Marks the start of words in llama.cpp's vocabulary, as ## marks their continuation in BERT's.
_SPACE = "▁"


class _Bert(NamedTuple):
    """What GGUF holds of a BERT encoder."""

    config: dict[str, Any]  # Its config.json.
    tokenizer: dict[str, Any]  # Its tokenizer.json.
    pooling: int  # llama.cpp's number of its pooling.


def check_bert(model: ModelFolder) -> _Bert:
    """Return what GGUF can hold of a model's files.

    Raises UsageError for any other architecture, tokenizer or pooling.
    """
    modules = read_modules(model.path)
    config = read_object(model.transformer_path / "config.json")
    tokenizer = read_object(model.tokenizer_file)
    pooler: dict[str, Any] = {}
    for module in modules:
        if module.kind == "Pooling":
            pooler = read_object(module.folder / "config.json")
            break
    modes = (model.pooling,) if model.pooling else read_modes(pooler)
    prompts = read_prompts(model)
    tokenizer_types = [
        (tokenizer.get(part) or {}).get("type") for part in ("model", "normalizer", "pre_tokenizer")
    ]
    module_kinds = [module.kind for module in modules if module.kind != "Normalize"]
    wrong = {
        "architecture": config.get("model_type") != "bert",
        "position embeddings": config.get("position_embedding_type", "absolute") != "absolute",
        "activation": config.get("hidden_act") != "gelu",
        "tokenizer": tokenizer_types != ["WordPiece", "BertNormalizer", "BertPreTokenizer"],
        "modules": module_kinds != ["Transformer", "Pooling"],
        "pooling": len(modes) != 1 or modes[0] not in _POOLING,
        "prompts": (
            pooler.get("include_prompt") is False and bool(prompts.query or prompts.document)
        ),
    }
    reasons = [name for name, is_wrong in wrong.items() if is_wrong]
    if reasons:
        raise UsageError(
            f"The model {model.name} cannot be written as GGUF.",
            f"Its {reasons[0]} is not of the kind that is supported: BERT with a WordPiece"
            " tokenizer, pooled by mean, first or last token, such as MiniLM, bge and e5.",
            "Export it as ONNX: --only onnx.",
            code="gguf-unsupported",
            command="export",
        )
    return _Bert(
        config,
        tokenizer,
        _POOLING[modes[0]],
    )


def save_gguf(model: ModelFolder, folder: Path) -> None:
    """Write `model-f32.gguf` and `model-f16.gguf` of a saved encoder into the new folder `folder`.

    The context is as long as the model's limit. Raises UsageError for a model that is no BERT,
    ResourceError if the disk is full.
    """
    from gguf import MODEL_ARCH, get_tensor_name_map
    from safetensors.numpy import load_file

    bert = check_bert(model)
    weights: dict[str, Floats] = {}
    names = get_tensor_name_map(MODEL_ARCH.BERT, bert.config["num_hidden_layers"])
    for name, values in load_file(model.transformer_path / "model.safetensors").items():
        if name.startswith(_UNUSED):
            continue
        gguf_name = names.get_name(name, (".weight", ".bias"))
        if gguf_name is None:
            raise UsageError(
                f"The model {model.name} cannot be written as GGUF.",
                f"BERT has no weights named {name}.",
                "Export it as ONNX: --only onnx.",
                code="gguf-unsupported",
                command="export",
            )
        weights[gguf_name] = values
    weights["position_embd.weight"] = weights["position_embd.weight"][: model.max_tokens]
    with disk_errors(f"{folder} could not be written."):
        folder.mkdir()
        for precision in ("f32", "f16"):
            path = folder / f"model-{precision}.gguf"
            _write(
                path,
                model,
                bert,
                weights,
                half=precision == "f16",
            )


def _write(
    path: Path,
    model: ModelFolder,
    bert: _Bert,
    weights: dict[str, Floats],
    *,
    half: bool,
) -> None:
    """Write one GGUF file. `half`: matrices in float16, except `_ALWAYS_FLOAT32`."""
    import numpy as np
    from gguf import GGUFWriter, LlamaFileType, PoolingType

    config = bert.config
    writer = GGUFWriter(path, "bert")
    writer.add_file_type(LlamaFileType.MOSTLY_F16 if half else LlamaFileType.ALL_F32)
    writer.add_context_length(model.max_tokens)
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType(bert.pooling))
    _add_tokenizer(
        writer,
        bert,
        len(weights["token_embd.weight"]),
    )
    for name, values in weights.items():
        is_half = half and values.ndim == 2 and name not in _ALWAYS_FLOAT32
        writer.add_tensor(name, values.astype(np.float16 if is_half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(
    writer: GGUFWriter,
    bert: _Bert,
    size: int,
) -> None:
    """Write the vocabulary and what else llama.cpp knows of a tokenizer.

    `size`: the number of rows of the token embeddings, some of which may stand for no token.
    """
    rules = bert.tokenizer["model"]
    normalizer = bert.tokenizer["normalizer"]
    added = bert.tokenizer["added_tokens"]
    ids: dict[str, int] = dict(rules["vocab"])
    ids |= {token["content"]: token["id"] for token in added}
    control = {token["id"] for token in added if token["special"]}
    tokens = [f"[PAD{row}]" for row in range(size)]
    kinds = [_NO_TOKEN] * size
    for token, row in ids.items():
        kinds[row] = _NORMAL
        if row in control:
            kinds[row] = _CONTROL
        if token == rules["unk_token"]:
            kinds[row] = _UNKNOWN
        if token.startswith("##"):
            tokens[row] = token.removeprefix("##")
        elif row in control:
            tokens[row] = token
        else:
            tokens[row] = f"{_SPACE}{token}"
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_type_count(bert.config.get("type_vocab_size", 1))
    first, last = _find_end_tokens(bert.tokenizer["post_processor"])
    special_tokens = {
        "unk": rules["unk_token"],
        "bos": first,
        "sep": last,
        "pad": "[PAD]",
        "mask": "[MASK]",
    }
    for name, token in special_tokens.items():
        if token in ids:
            getattr(writer, f"add_{name}_token_id")(ids[token])
    writer.add_uint32("tokenizer.ggml.cls_token_id", ids[first])
    lowercase = bool(normalizer["lowercase"])
    strip_accents = normalizer["strip_accents"]
    # BERT's normalizer strips accents by default if it lowercases.
    if strip_accents is None:
        strip_accents = lowercase
    writer.add_bool("tokenizer.ggml.normalizer.lowercase", lowercase)
    writer.add_bool("tokenizer.ggml.normalizer.strip_accents", bool(strip_accents))


def _find_end_tokens(processor: dict[str, Any]) -> tuple[str, str]:
    """Return the tokens that a tokenizer puts before and after a text, such as [CLS] and [SEP]."""
    if processor["type"] == "BertProcessing":
        return processor["cls"][0], processor["sep"][0]
    tokens = [part["SpecialToken"]["id"] for part in processor["single"] if "SpecialToken" in part]
    return tokens[0], tokens[-1]
