"""Another pooling than the model's own: sentence-transformers' vectors, whichever side is
padded, also after an export.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.sentence_encoders import Normalize, Pooling, SentenceTransformer
from fixtures.tiny_decoder import build_tiny_decoder
from fixtures.tiny_model import build_tiny_model, write_json

from engine.core.errors import ModelError
from engine.encoders.fingerprint import encoder_fingerprint
from engine.encoders.hardware import Hardware
from engine.encoders.model_folder import ModelFolder, resolve_model
from engine.encoders.pooling import with_pooling
from engine.encoders.saving import save_encoder
from engine.encoders.transformer import TransformerEncoder

CPU32 = Hardware(
    "cpu",
    "float32",
    1,
    (),
)
TEXTS = [
    "the contract party",
    "heat",
    "what is the pressure of the boundary layer at the wing " * 9,
    "news of the court " * 3,
]
MODES = {
    "mean": "mean",
    "cls": "cls",
    "last": "lasttoken",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("pooling")
    return {
        "bert": build_tiny_model(root / "bert"),
        **{
            side: build_tiny_decoder(root / side, "qwen3-embedding", side)
            for side in ("left", "right")
        },
    }


def pooled(folder: Path, setting: str) -> ModelFolder:
    return with_pooling(resolve_model(str(folder)), setting)


def vectors(model: ModelFolder) -> np.ndarray:
    return TransformerEncoder.load(model, hardware=CPU32, max_tokens=100).encode_chunks(TEXTS)


def by_sentence_transformers(folder: Path, mode: str) -> np.ndarray:
    """All texts in one batch, so that the short ones are padded."""
    transformer = SentenceTransformer(str(folder), device="cpu")[0]
    model = SentenceTransformer(modules=[transformer, Pooling(32, mode), Normalize()], device="cpu")
    model.max_seq_length = 100
    found: np.ndarray = model.encode(
        TEXTS,
        batch_size=len(TEXTS),
        show_progress_bar=False,
    )
    return found


@pytest.mark.parametrize("setting", MODES)
@pytest.mark.parametrize("name", ["bert", "left", "right"])
def test_vectors_are_those_of_sentence_transformers(
    folders: dict[str, Path], name: str, setting: str
) -> None:
    expected = by_sentence_transformers(folders[name], MODES[setting])
    np.testing.assert_allclose(
        vectors(pooled(folders[name], setting)),
        expected,
        atol=1e-5,
    )


def test_pooled_vectors_have_the_lengths_of_before_unit_norm(folders: dict[str, Path]) -> None:
    text_model = TransformerEncoder.load(
        resolve_model(str(folders["bert"])), hardware=CPU32, max_tokens=100
    ).text_model
    features = text_model.pad(text_model.token_rows(TEXTS))
    transformer = SentenceTransformer(str(folders["bert"]), device="cpu")[0]
    model = SentenceTransformer(modules=[transformer, Pooling(32, "mean")], device="cpu")
    model.max_seq_length = 100
    with torch.no_grad():
        found = text_model.pool(features, 0)
        unit = text_model.vectors(features, 0)
    np.testing.assert_allclose(
        found, model.encode(TEXTS, batch_size=len(TEXTS), show_progress_bar=False), atol=1e-4
    )
    assert found.norm(dim=1).min() > 2
    np.testing.assert_allclose(
        unit,
        found / found.norm(dim=1, keepdim=True),
        atol=1e-6,
    )


def test_the_three_ways_differ_and_so_do_their_fingerprints(folders: dict[str, Path]) -> None:
    models = [pooled(folders["bert"], setting) for setting in MODES]
    assert len({encoder_fingerprint(model) for model in models}) == 3
    found = [vectors(model) for model in models]
    assert min(np.abs(found[a] - found[b]).max() for a, b in ((0, 1), (0, 2), (1, 2))) > 0.05


@pytest.mark.parametrize(("name", "own"), [("bert", "mean"), ("left", "last")])
def test_the_models_own_pooling_is_no_other_encoder(
    folders: dict[str, Path], name: str, own: str
) -> None:
    model = resolve_model(str(folders[name]))
    assert with_pooling(model, own) == with_pooling(model, "from the model") == model


def test_joined_vectors_become_one(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "model")
    write_json(
        folder / "1_Pooling" / "config.json",
        {"embedding_dimension": 32, "pooling_mode": ["cls", "mean"]},
    )
    assert resolve_model(str(folder)).dimension == 64
    model = pooled(folder, "cls")
    assert model.dimension == 32
    np.testing.assert_allclose(
        vectors(model),
        by_sentence_transformers(folder, "cls"),
        atol=1e-5,
    )


def test_modules_that_fit_the_models_own_pooling_alone_are_refused(tmp_path: Path) -> None:
    folder = build_tiny_model(tmp_path / "model")
    modules = json.loads((folder / "modules.json").read_text())
    write_json(folder / "modules.json", [modules[0], modules[2]])
    with pytest.raises(ModelError) as missing:
        pooled(folder, "cls")
    dense = {
        "idx": 2,
        "name": "2",
        "path": "2_Dense",
        "type": "sentence_transformers.models.Dense",
    }
    write_json(folder / "modules.json", [*modules[:2], dense])
    write_json(
        folder / "1_Pooling" / "config.json",
        {"embedding_dimension": 32, "pooling_mode": ["cls", "mean"]},
    )
    with pytest.raises(ModelError) as wider:
        pooled(folder, "cls")
    assert missing.value.code == wider.value.code == "pooling-unsupported"


def test_an_export_has_the_pooling_in_itself(folders: dict[str, Path], tmp_path: Path) -> None:
    model = pooled(folders["bert"], "cls")
    save_encoder(
        model,
        tmp_path / "saved",
        adapter=None,
        scale=0.0,
        max_tokens=100,
    )
    alone = SentenceTransformer(str(tmp_path / "saved"), device="cpu").encode(
        TEXTS, show_progress_bar=False
    )
    np.testing.assert_allclose(
        alone,
        vectors(model),
        atol=1e-5,
    )
