"""Cross-encoders in several modules, as the ModernBERT rerankers are: scores of the library."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.tiny_model import build_tiny_model, write_json

from engine.core.errors import ModelError
from engine.encoders.deferred import light_imports
from engine.encoders.hardware import Hardware
from engine.reranking.cross_encoder import CrossEncoder
from engine.reranking.folder import is_modular, resolve_cross_encoder
from engine.service.model_kinds import find_kind

QUERY = "what is the pressure"
PASSAGES = [
    "the contract party",
    "pressure of the boundary layer at the wing " * 4,
    "heat",
]


@pytest.fixture(scope="module")
def modular(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Transformer, pooling of the first token, dense, norm, dense to one number."""
    from safetensors.torch import save_file

    folder = build_tiny_model(tmp_path_factory.mktemp("modular") / "modular")
    torch.manual_seed(3)
    base = "sentence_transformers.base.modules"
    own = "sentence_transformers.sentence_transformer.modules"
    kinds = [
        f"{base}.Transformer",
        f"{own}.Pooling",
        f"{base}.Dense",
        f"{own}.LayerNorm",
        f"{base}.Dense",
    ]
    paths = [
        "",
        "1_Pooling",
        "2_Dense",
        "3_LayerNorm",
        "4_Dense",
    ]
    modules = []
    for place, (kind, path) in enumerate(zip(kinds, paths, strict=True)):
        modules.append({"idx": place, "name": str(place), "path": path, "type": kind})
    write_json(folder / "modules.json", modules)
    pooling = {"word_embedding_dimension": 32, "pooling_mode": "cls"}
    write_json(folder / "1_Pooling" / "config.json", pooling)
    for path, width, out, name in (
        ("2_Dense", 32, 32, "sentence_embedding"),
        ("4_Dense", 32, 1, "scores"),
    ):
        (folder / path).mkdir()
        config = {
            "in_features": width,
            "out_features": out,
            "bias": True,
            "activation_function": "torch.nn.modules.linear.Identity",
            "module_input_name": "sentence_embedding",
            "module_output_name": name,
        }
        write_json(folder / path / "config.json", config)
        weights = {"linear.weight": torch.randn(out, width), "linear.bias": torch.randn(out)}
        save_file(weights, folder / path / "model.safetensors")
    (folder / "3_LayerNorm").mkdir()
    write_json(folder / "3_LayerNorm" / "config.json", {"dimension": 32})
    norm = {"norm.weight": torch.rand(32), "norm.bias": torch.rand(32)}
    save_file(norm, folder / "3_LayerNorm" / "model.safetensors")
    config = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"}
    write_json(folder / "config_sentence_transformers.json", config)
    return folder


def test_its_scores_are_those_of_the_library(modular: Path, tmp_path: Path) -> None:
    with light_imports():
        from sentence_transformers import CrossEncoder as Library

    assert (is_modular(modular), find_kind(modular)) == (True, "reranker")
    found = resolve_cross_encoder(modular, tmp_path)
    scores = CrossEncoder(found.path, Hardware("cpu", "float32", 1, ())).scores(QUERY, PASSAGES)
    library = Library(str(modular), device="cpu")
    expected = library.predict(
        [(QUERY, passage) for passage in PASSAGES], activation_fn=torch.nn.Identity()
    )
    np.testing.assert_allclose(
        scores,
        expected,
        atol=1e-5,
        rtol=0,
    )
    assert len(set(np.round(scores, 3))) == len(PASSAGES)
    rough = CrossEncoder(found.path, Hardware("cpu", "bfloat16", 1, ())).scores(QUERY, PASSAGES)
    np.testing.assert_allclose(
        rough,
        expected,
        atol=0.5,
    )


def test_a_decoder_is_scored_at_the_last_token_of_a_pair(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder as Library
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.cross_encoder.modules.logit_score import LogitScore
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(str(build_tiny_model(tmp_path / "tokenizer")))
    tokenizer.padding_side = "left"
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        initializer_range=0.5,
        pad_token_id=tokenizer.pad_token_id,
    )
    decoder = tmp_path / "decoder"
    Qwen2ForCausalLM(config).save_pretrained(decoder)
    tokenizer.save_pretrained(decoder)
    transformer = Transformer(str(decoder), transformer_task="text-generation")
    library = Library(
        modules=[transformer, LogitScore(10, 11)],
        device="cpu",
        activation_fn=torch.nn.Identity(),
    )
    library.save_pretrained(str(tmp_path / "ranker"))
    expected = library.predict([(QUERY, passage) for passage in PASSAGES])
    folder = resolve_cross_encoder(tmp_path / "ranker", tmp_path / "cache")
    ours = CrossEncoder(folder.path, Hardware("cpu", "float32", 1, ()))
    np.testing.assert_allclose(
        ours.scores(QUERY, PASSAGES),
        expected,
        atol=1e-5,
    )
    assert np.ptp(expected) > 1


def test_weights_of_a_module_are_part_of_its_name(modular: Path, tmp_path: Path) -> None:
    import shutil

    copy = Path(shutil.copytree(modular, tmp_path / "copy"))
    former = resolve_cross_encoder(copy, tmp_path).fingerprint
    assert former == resolve_cross_encoder(modular, tmp_path).fingerprint
    weights = copy / "4_Dense" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert resolve_cross_encoder(copy, tmp_path).fingerprint != former


@pytest.mark.parametrize("fault", ["code", "pickle", "no modules"])
def test_unsafe_and_other_folders_are_refused(
    modular: Path,
    tmp_path: Path,
    fault: str,
) -> None:
    import shutil

    copy = Path(shutil.copytree(modular, tmp_path / "copy"))
    if fault == "code":
        modules = json.loads((copy / "modules.json").read_text())
        modules[2]["type"] = "modeling.Head"
        write_json(copy / "modules.json", modules)
    elif fault == "pickle":
        (copy / "4_Dense" / "model.safetensors").rename(copy / "4_Dense" / "pytorch_model.bin")
    else:
        (copy / "modules.json").unlink()
    with pytest.raises(ModelError) as error:
        resolve_cross_encoder(copy, tmp_path)
    assert error.value.code == "cross-encoder-invalid"
