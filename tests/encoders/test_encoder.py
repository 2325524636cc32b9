from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.sentence_encoders import SentenceTransformer

from engine.core.errors import EngineError, ModelError, ResourceError
from engine.encoders.fingerprint import encoder_fingerprint
from engine.encoders.hardware import Hardware
from engine.encoders.loading import load_sentence_transformer
from engine.encoders.model_folder import resolve_model
from engine.encoders.transformer import TransformerEncoder

Edit = Callable[..., None]
CPU32 = Hardware(
    "cpu",
    "float32",
    1,
    (),
)
CPU16, CPU32 = (Hardware("cpu", dtype, 1, ()) for dtype in ("bfloat16", "float32"))
TEXTS = [
    "the contract party",
    "heat",
    "",
    "what is the pressure of the boundary layer at the wing " * 40,
    "agreement notice term court " * 6,
    "Zürich 東京 \ud800 x",
    "flow; speed, sound!",
]
ENCODABLE = [text.encode("utf-8", "replace").decode() for text in TEXTS]


def encoder(folder: Path, **options: Any) -> TransformerEncoder:
    return TransformerEncoder.load(
        resolve_model(str(folder)), **{"hardware": CPU32, "max_tokens": 128, **options}
    )


def oracle(folder: Path, **options: Any) -> np.ndarray:
    vectors: np.ndarray = SentenceTransformer(str(folder), device="cpu").encode(
        ENCODABLE, normalize_embeddings=True, show_progress_bar=False, **options
    )
    return vectors


def test_equals_sentence_transformers(tiny_model: Path) -> None:
    made = encoder(tiny_model).encode_chunks(TEXTS)
    assert made.dtype == np.float32
    assert made.shape == (7, 32)
    np.testing.assert_allclose(
        made,
        oracle(tiny_model),
        atol=2e-6,
    )
    np.testing.assert_allclose(
        np.linalg.norm(made, axis=1),
        1.0,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    "mode", ["cls_token", "max_tokens", "lasttoken", "weightedmean_tokens", "mean_sqrt_len_tokens"]
)
def test_other_poolings(
    model_copy: Path,
    edit_json: Edit,
    mode: str,
) -> None:
    edit_json(
        model_copy / "1_Pooling" / "config.json",
        pooling_mode_mean_tokens=False,
        **{f"pooling_mode_{mode}": True},
    )
    np.testing.assert_allclose(
        encoder(model_copy).encode_chunks(TEXTS), oracle(model_copy), atol=2e-6
    )


def test_a_decoder_that_asks_for_left_padding_is_padded_on_the_right(
    model_copy: Path, edit_json: Edit
) -> None:
    from transformers import Qwen2Config, Qwen2Model

    edit_json(model_copy / "tokenizer_config.json", padding_side="left")
    edit_json(
        model_copy / "1_Pooling" / "config.json",
        pooling_mode_mean_tokens=False,
        pooling_mode_lasttoken=True,
    )
    torch.manual_seed(2)
    size = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    Qwen2Model(Qwen2Config(vocab_size=200, max_position_embeddings=128, **size)).save_pretrained(
        model_copy
    )
    loaded = encoder(model_copy)
    np.testing.assert_allclose(
        loaded.encode_chunks(TEXTS), oracle(model_copy, batch_size=1), atol=1e-5
    )
    rows = [np.array([2, 9, 3], dtype=np.int32), np.array([2, 3], dtype=np.int32)]
    assert loaded.text_model.pad(rows)["attention_mask"].tolist() == [[1, 1, 1], [1, 1, 0]]


def test_dense_module_stays_float32(model_copy: Path) -> None:
    from safetensors.torch import save_file

    modules = json.loads((model_copy / "modules.json").read_text())
    modules.insert(
        2, {"idx": 2, "name": "2d", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}
    )
    (model_copy / "modules.json").write_text(json.dumps(modules))
    (model_copy / "2_Dense").mkdir()
    config = {
        "in_features": 32,
        "out_features": 8,
        "activation_function": "torch.nn.modules.activation.Tanh",
    }
    (model_copy / "2_Dense" / "config.json").write_text(json.dumps(config))
    torch.manual_seed(1)
    save_file(
        {"linear.weight": torch.randn(8, 32), "linear.bias": torch.randn(8)},
        model_copy / "2_Dense/model.safetensors",
    )
    assert resolve_model(str(model_copy)).dimension == encoder(model_copy).dimension == 8
    np.testing.assert_allclose(
        encoder(model_copy).encode_chunks(TEXTS), oracle(model_copy), atol=2e-6
    )
    loaded = load_sentence_transformer(
        resolve_model(str(model_copy)),
        "cpu",
        torch.bfloat16,
    )
    assert next(loaded[0].parameters()).dtype == torch.bfloat16
    assert next(loaded[2].parameters()).dtype == torch.float32
    half = encoder(model_copy, hardware=CPU16).encode_chunks(TEXTS)
    assert np.sum(half * oracle(model_copy), axis=1).min() > 0.99


@pytest.mark.parametrize("include", [True, False])
def test_prompts_by_side(
    model_copy: Path,
    edit_json: Edit,
    include: bool,
) -> None:
    prompts = {"query": "what about the law: ", "document": "news report: "}
    edit_json(model_copy / "config_sentence_transformers.json", prompts=prompts)
    edit_json(model_copy / "1_Pooling" / "config.json", include_prompt=include)
    loaded = encoder(model_copy)
    queries = loaded.encode_queries(TEXTS)
    chunks = loaded.encode_chunks(TEXTS)
    np.testing.assert_allclose(
        queries,
        oracle(model_copy, prompt=prompts["query"]),
        atol=2e-6,
    )
    np.testing.assert_allclose(
        chunks,
        oracle(model_copy, prompt=prompts["document"]),
        atol=2e-6,
    )
    assert np.abs(queries - chunks).max() > 0.01


def test_texts_are_cut_at_max_tokens(tiny_model: Path) -> None:
    loaded = encoder(tiny_model, max_tokens=16)
    # [CLS] + 14 words + [SEP]
    np.testing.assert_allclose(
        loaded.encode_chunks(["heat " * 14]), loaded.encode_chunks(["heat " * 99]), atol=1e-6
    )
    assert (
        np.abs(loaded.encode_chunks(["heat " * 13]) - loaded.encode_chunks(["heat " * 14])).max()
        > 1e-4
    )
    assert encoder(tiny_model, max_tokens=10**6).max_tokens == 128


def test_order_does_not_matter(tiny_model: Path) -> None:
    loaded = encoder(tiny_model)
    order = [
        4,
        0,
        6,
        3,
        2,
        5,
        1,
    ]
    shuffled = loaded.encode_chunks([TEXTS[i] for i in order])
    np.testing.assert_allclose(
        shuffled,
        loaded.encode_chunks(TEXTS)[order],
        atol=2e-6,
    )


def test_nothing_to_encode(tiny_model: Path) -> None:
    made = encoder(tiny_model).encode_chunks([])
    assert made.shape == (0, 32)
    assert made.dtype == np.float32


def test_progress_reaches_the_end(tiny_model: Path) -> None:
    seen: list[int] = []
    encoder(tiny_model).encode_chunks(["heat " * (1 + i % 100) for i in range(300)], seen.append)
    assert seen == sorted(set(seen))
    assert len(seen) > 3
    assert seen[-1] == 300


def test_bfloat16_stays_close_to_float32() -> None:
    model = resolve_model()
    texts = [
        (
            "The receiving party shall keep all confidential information secret for five years"
            " after termination."
        ),
        "Who reported that the company missed its quarterly revenue target?",
        (
            "Supersonic flow past a slender wing separates at the leading edge and forms a vortex"
            " sheet."
        ),
        "apples",
    ]
    exact = TransformerEncoder.load(model, hardware=CPU32).encode_chunks(texts)
    half = TransformerEncoder.load(model, hardware=CPU16).encode_chunks(texts)
    cosine = np.sum(exact * half, axis=1)
    assert cosine.mean() >= 0.999
    assert np.abs(exact - half).max() > 0.0


def test_numbers_that_are_not_finite(tiny_model: Path) -> None:
    loaded = encoder(tiny_model)
    with torch.no_grad():
        loaded.text_model.modules[0].auto_model.embeddings.word_embeddings.weight[:] = float("inf")
    with fails(EngineError, "vectors-not-finite", "2 of 2"):
        loaded.encode_chunks(["heat", "flow"])


def test_out_of_memory_halves_the_batch(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = encoder(tiny_model)
    texts = ["heat flow", *["flow"] * 40]
    whole = loaded.encode_chunks(texts)
    forward = loaded.forward
    sizes: list[int] = []

    def cramped(rows: list[np.ndarray], prompt_length: int) -> np.ndarray:
        sizes.append(len(rows))
        if len(rows) > 7:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return forward(rows, prompt_length)

    monkeypatch.setattr(loaded, "forward", cramped)
    np.testing.assert_allclose(
        loaded.encode_chunks(texts),
        whole,
        atol=2e-6,
    )
    assert sizes[:4] == [41, 20, 10, 5]
    assert "41 texts" in loaded.notices[0]
    sizes.clear()
    loaded.encode_chunks(texts)
    assert max(sizes) <= 7


def test_out_of_memory_with_one_text(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = encoder(tiny_model)

    def none_left(rows: list[np.ndarray], prompt_length: int) -> np.ndarray:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(loaded, "forward", none_left)
    with pytest.raises(ResourceError):
        loaded.encode_chunks(["heat", "flow"])


def test_cpu_allocator_failure_counts_as_out_of_memory(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = encoder(tiny_model)

    def none_left(rows: list[np.ndarray], prompt_length: int) -> np.ndarray:
        raise RuntimeError(
            "[enforce fail at alloc_cpu.cpp:127] DefaultCPUAllocator: can't allocate memory"
        )

    monkeypatch.setattr(loaded, "forward", none_left)
    with pytest.raises(ResourceError):
        loaded.encode_chunks(["heat"])


def test_weights_of_another_model_are_refused(model_copy: Path) -> None:
    from safetensors.torch import save_file

    save_file({"foreign.weight": torch.zeros(3)}, model_copy / "model.safetensors")
    with fails(ModelError, "model-incomplete"):
        encoder(model_copy)


def test_weights_of_another_shape_are_refused(model_copy: Path, edit_json: Edit) -> None:
    edit_json(model_copy / "config.json", intermediate_size=99)
    with pytest.raises(ModelError):
        encoder(model_copy)


def test_chat_template_alone_changes_nothing(
    tiny_model: Path, model_copy: Path, edit_json: Edit
) -> None:
    edit_json(
        model_copy / "tokenizer_config.json",
        chat_template="{% for m in messages %}<{{ m['content'] }}>{% endfor %}",
    )
    np.testing.assert_array_equal(
        encoder(model_copy).encode_chunks(TEXTS), encoder(tiny_model).encode_chunks(TEXTS)
    )


def test_chat_models_are_refused(model_copy: Path) -> None:
    way = {"method": "forward", "method_output_name": "last_hidden_state"}
    settings = {
        "modality_config": {"text": way, "message": way | {"format": "flat"}},
        "module_output_name": "token_embeddings",
    }
    (model_copy / "sentence_bert_config.json").write_text(json.dumps(settings))
    with fails(ModelError, "model-unsupported"):
        encoder(model_copy)


# --- adapters
# ---------------------------------------------------------------------------------------------------------  # noqa: E501


@pytest.mark.parametrize("scale", [1.0, 0.5, -0.25])
def test_adapter_is_merged_by_formula(
    tiny_model: Path,
    adapter: Path,
    scale: float,
) -> None:
    from safetensors.torch import load_file

    tensors = load_file(adapter / "adapter_model.safetensors")
    plain = SentenceTransformer(str(tiny_model), device="cpu")
    weights = dict(plain[0].auto_model.named_parameters())
    layers = {name.removeprefix("base_model.model.").rsplit(".lora_", 1)[0] for name in tensors}
    assert len(layers) == 4
    with torch.no_grad():
        for layer in layers:
            a, b = (tensors[f"base_model.model.{layer}.lora_{part}.weight"] for part in "AB")
            weights[f"{layer}.weight"] += scale * (8 / 4) * (b @ a)
    expected = plain.encode(
        ENCODABLE,
        normalize_embeddings=True,
        show_progress_bar=False,
    )
    made = encoder(tiny_model, adapter=adapter, adapter_scale=scale).encode_chunks(TEXTS)
    np.testing.assert_allclose(
        made,
        expected,
        atol=5e-6,
    )
    assert np.abs(made - oracle(tiny_model)).max() > 0.01


def test_adapter_scaled_by_zero_is_the_base(tiny_model: Path, adapter: Path) -> None:
    zero = encoder(
        tiny_model,
        adapter=adapter,
        adapter_scale=0.0,
    )
    base = encoder(tiny_model)
    assert zero.fingerprint == base.fingerprint
    np.testing.assert_array_equal(zero.encode_chunks(TEXTS), base.encode_chunks(TEXTS))


def test_adapter_is_cast_after_merging(tiny_model: Path, adapter: Path) -> None:
    half = encoder(
        tiny_model,
        adapter=adapter,
        hardware=CPU16,
    )
    assert {parameter.dtype for parameter in half.text_model.modules[0].parameters()} == {
        torch.bfloat16
    }
    exact = encoder(
        tiny_model,
        adapter=adapter,
        hardware=CPU32,
    )
    assert np.sum(half.encode_chunks(TEXTS) * exact.encode_chunks(TEXTS), axis=1).min() > 0.99


def test_an_adapter_is_merged_before_the_model_goes_to_a_gpu(
    tiny_model: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In float32 its weights may not fit there; "meta" stands for the GPU, where nothing can be
    computed.
    """
    places: list[tuple[object, ...]] = []

    def loaded(model: object, *where: object) -> object:
        places.append(where)
        return load_sentence_transformer(model, *where)  # type: ignore[arg-type]

    monkeypatch.setattr("engine.encoders.transformer.load_sentence_transformer", loaded)
    monkeypatch.setattr(
        TransformerEncoder,
        "forward",
        lambda *_: np.zeros((1, 32), np.float32),
    )
    monkeypatch.setattr(
        torch.cuda, "is_available", lambda: True
    )  # peft would read the adapter into it
    found = encoder(
        tiny_model,
        adapter=adapter,
        hardware=Hardware("meta", "bfloat16", 1, ()),
    )
    assert places == [("cpu", torch.float32)]
    assert {(p.device.type, p.dtype) for p in found.text_model.modules[0].parameters()} == {
        ("meta", torch.bfloat16)
    }


def test_fingerprint_parts(
    tiny_model: Path,
    adapter: Path,
    tmp_path: Path,
) -> None:
    model = resolve_model(str(tiny_model))
    copy = Path(shutil.copytree(adapter, tmp_path / "again"))
    config = json.loads((copy / "adapter_config.json").read_text())
    (copy / "adapter_config.json").write_text(
        json.dumps(config | {"base_model_name_or_path": "/elsewhere"})
    )
    assert encoder_fingerprint(model, copy) == encoder_fingerprint(model, adapter)
    (copy / "adapter_config.json").write_text(json.dumps(config | {"lora_alpha": 9}))
    different = {
        encoder_fingerprint(model),
        encoder_fingerprint(model, adapter),
        encoder_fingerprint(model, adapter, 0.5),
        encoder_fingerprint(model, copy),
        encoder_fingerprint(model, max_tokens=64),
    }
    assert len(different) == 5
    assert encoder(tiny_model, adapter=adapter, max_tokens=256).fingerprint == encoder_fingerprint(
        model, adapter
    )
    assert encoder(tiny_model, max_tokens=256, hardware=CPU16).fingerprint == encoder_fingerprint(
        model
    )


def test_adapter_of_another_model_is_refused(
    tiny_model: Path, adapter: Path, tmp_path: Path
) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(adapter / "adapter_model.safetensors")
    of_more_layers = Path(shutil.copytree(adapter, tmp_path / "layers"))
    save_file(
        {name.replace("layer.1", "layer.7"): value for name, value in tensors.items()},
        of_more_layers / "adapter_model.safetensors",
    )
    of_another_shape = Path(shutil.copytree(adapter, tmp_path / "shape"))
    save_file(
        {name: value[:2].contiguous() for name, value in tensors.items()},
        of_another_shape / "adapter_model.safetensors",
    )
    for copy in (of_more_layers, of_another_shape):
        with fails(ModelError, "adapter-mismatch"):
            encoder(tiny_model, adapter=copy)


@pytest.mark.parametrize("name", ["adapter_config.json", "adapter_model.safetensors"])
def test_incomplete_adapter_is_refused(
    tiny_model: Path, adapter: Path, tmp_path: Path, name: str
) -> None:
    copy = Path(shutil.copytree(adapter, tmp_path / "part"))
    (copy / name).unlink()
    with fails(ModelError, "adapter-invalid"):
        encoder(tiny_model, adapter=copy)


def test_adapter_of_another_kind_is_refused(
    tiny_model: Path, adapter: Path, tmp_path: Path, edit_json: Edit
) -> None:
    copy = Path(shutil.copytree(adapter, tmp_path / "kind"))
    edit_json(copy / "adapter_config.json", peft_type="IA3")
    with fails(ModelError, "adapter-invalid"):
        encoder(tiny_model, adapter=copy)
