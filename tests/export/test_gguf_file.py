"""Encoders as GGUF: llama.cpp gives the vectors of the model."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.llama_server import embedding_server

from engine.core.errors import UsageError
from engine.encoders.hardware import Hardware
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import DEFAULT_MODEL, resolve_model
from engine.encoders.transformer import TransformerEncoder
from engine.export.gguf_file import check_bert, save_gguf
from engine.gguf.header import read_header
from engine.settings.schema import EncoderSettings

NEAR = 0.9999
TEXTS = [
    "the contract party",
    "a",
    ".",
    "WHO pays? 12:30 -- heat!",
    "Ünïcödé naïve ǅ ﬁ İstanbul Straße",
    "你好, 世界 東京 ガラス ไทย العربية Ёлка ΐ",
    "e\u0301 zero\u200bwidth \u00a0space\ttab\nline",
    "🙂 a\ufffd\x07b ∑ € ½",
    "law " * 500,
    "pressure of the boundary layer " * 60,
]


@pytest.fixture(scope="module")
def tiny(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gguf") / "model-gguf"
    save_gguf(resolve_model(str(tiny_model)), folder)
    return folder


def by_llama(
    file: Path,
    texts: list[str],
    tokens: int,
) -> Any:
    return (
        encoder_source(EncoderSettings(model=str(file), device="cpu"))
        .load(tokens)
        .encode_chunks(texts)
    )


def by_torch(
    model: str,
    texts: list[str],
    tokens: int,
) -> Any:
    cpu = Hardware(
        "cpu",
        "float32",
        1,
        (),
    )
    return TransformerEncoder.load(
        resolve_model(model), hardware=cpu, max_tokens=tokens
    ).encode_chunks(texts)


@pytest.mark.parametrize("precision", ["f32", "f16"])
def test_a_tiny_model_keeps_its_vectors(
    tiny: Path,
    tiny_model: Path,
    precision: str,
) -> None:
    expected = by_torch(
        str(tiny_model),
        TEXTS,
        128,
    )
    found = by_llama(
        tiny / f"model-{precision}.gguf",
        TEXTS,
        128,
    )
    assert (found * expected).sum(axis=1).min() >= NEAR
    assert (expected @ expected.T).min() < 0.99  # texts are told apart


def test_the_bundled_model_keeps_its_vectors(tmp_path: Path) -> None:
    save_gguf(resolve_model(DEFAULT_MODEL), tmp_path / "gguf")
    tokens = resolve_model(DEFAULT_MODEL).max_tokens
    expected = by_torch(DEFAULT_MODEL, TEXTS, tokens)
    for precision in ("f32", "f16"):
        found = by_llama(
            tmp_path / "gguf" / f"model-{precision}.gguf",
            TEXTS,
            tokens,
        )
        assert (found * expected).sum(axis=1).min() >= NEAR


def test_a_server_of_llama_cpp_gives_them_as_well(tiny: Path, tiny_model: Path) -> None:
    with embedding_server(tiny / "model-f16.gguf") as url:
        client = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        client.request(
            "POST",
            "/v1/embeddings",
            json.dumps({"input": TEXTS[:8]}),
            {"Content-Type": "application/json"},
        )
        data = json.loads(client.getresponse().read())["data"]
    found = np.array([one["embedding"] for one in data])
    found /= np.linalg.norm(
        found,
        axis=1,
        keepdims=True,
    )
    assert (found * by_torch(str(tiny_model), TEXTS[:8], 128)).sum(axis=1).min() >= NEAR


def test_the_header_says_what_it_is(tiny: Path) -> None:
    header = read_header(tiny / "model-f16.gguf")
    assert (header.architecture, header.quantisation, header.embeds) == ("bert", "F16", True)
    assert (header.context, header.dimension, header.layers) == (128, 32, 2)
    assert read_header(tiny / "model-f32.gguf").quantisation == "F32"
    assert sorted(path.name for path in tiny.iterdir()) == ["model-f16.gguf", "model-f32.gguf"]


def change(file: str, **values: Any) -> Callable[[Path], None]:
    def do(folder: Path) -> None:
        data = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps({**data, **values}))

    return do


@pytest.mark.parametrize(
    "spoil",
    [
        change("config.json", model_type="roberta"),
        change("config.json", hidden_act="relu"),
        change("config.json", position_embedding_type="relative_key"),
        change("tokenizer.json", normalizer=None),
        change("tokenizer.json", model={"type": "Unigram"}),
        change("tokenizer.json", pre_tokenizer={"type": "Whitespace"}),
        change("1_Pooling/config.json", pooling_mode_mean_tokens=True, pooling_mode_cls_token=True),
        change(
            "1_Pooling/config.json", pooling_mode_mean_tokens=False, pooling_mode_max_tokens=True
        ),
    ],
)
def test_another_kind_of_model_is_refused(
    tiny_model: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    check_bert(resolve_model(str(folder)))
    spoil(folder)
    with fails(UsageError, "gguf-unsupported", "WordPiece", command="export"):
        check_bert(resolve_model(str(folder)))
