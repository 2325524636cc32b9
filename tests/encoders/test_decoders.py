"""Decoder embedding models: their vectors are those of the models' own recipe, whichever side is
padded.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fixtures.sentence_encoders  # noqa: F401 - imports the library below lightly
import numpy as np
import pytest
from fixtures.tiny_decoder import KINDS, TASK, Kind, build_tiny_decoder, oracle_options
from sentence_transformers import SentenceTransformer

from engine.encoders.fingerprint import encoder_fingerprint, read_prompts
from engine.encoders.hardware import Hardware
from engine.encoders.loading import load_sentence_transformer
from engine.encoders.model_folder import resolve_model
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
    "what is the pressure of the boundary layer at the wing " * 40,
    "agreement notice term court " * 6,
    "Zürich 東京 x",
    "flow; speed, sound!",
]
ENDS = {
    "qwen3-embedding": "<|endoftext|>",
    "gte-qwen2": "<|endoftext|>",
    "e5-mistral": "</s>",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    root = tmp_path_factory.mktemp("decoders")
    return {
        (kind, side): build_tiny_decoder(root / f"{kind}-{side}", kind, side)
        for kind in KINDS
        for side in ("left", "right")
    }


def encoder(folder: Path, **options: Any) -> TransformerEncoder:
    return TransformerEncoder.load(
        resolve_model(str(folder)), **{"hardware": CPU32, "max_tokens": 100, **options}
    )


def oracle(
    folder: Path,
    kind: Kind,
    prompt: str | None = None,
) -> np.ndarray:
    """One text at a time, so that nothing is padded."""
    model = SentenceTransformer(
        str(folder),
        device="cpu",
        **oracle_options(kind),
    )
    model.max_seq_length = 100
    vectors: np.ndarray = model.encode(
        TEXTS, prompt=prompt, batch_size=1, normalize_embeddings=True, show_progress_bar=False
    )
    return vectors


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", KINDS)
def test_equals_sentence_transformers(
    folders: dict[tuple[str, str], Path], kind: Kind, side: str
) -> None:
    loaded = encoder(folders[kind, side])
    folder = folders[kind, side]
    assert loaded.text_model.tokenizer.padding_side == side
    np.testing.assert_allclose(
        loaded.encode_chunks(TEXTS),
        oracle(folder, kind),
        atol=1e-5,
    )
    queries = loaded.encode_queries(TEXTS)
    np.testing.assert_allclose(
        queries,
        oracle(folder, kind, TASK),
        atol=1e-5,
    )
    assert np.abs(queries - loaded.encode_chunks(TEXTS)).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_the_padding_side_makes_no_difference(
    folders: dict[tuple[str, str], Path], kind: Kind
) -> None:
    left, right = (encoder(folders[kind, side]) for side in ("left", "right"))
    rows = left.text_model.token_rows(TEXTS)
    models = left.text_model, right.text_model
    together = [model.vectors(model.pad(rows), 0).detach().numpy() for model in models]
    np.testing.assert_allclose(*together, atol=1e-5)
    assert np.abs(together[0][0] - together[0][1]).max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_ends_with_the_end_token(
    folders: dict[tuple[str, str], Path], kind: Kind
) -> None:
    loaded = encoder(folders[kind, "left"], max_tokens=16)
    end = loaded.text_model.tokenizer.convert_tokens_to_ids(ENDS[kind])
    rows = loaded.text_model.token_rows(["", *TEXTS])
    assert max(map(len, rows)) == 16
    assert [row[-1] for row in rows] == [end] * len(rows)
    assert [row.count(end) for row in rows] == [1] * len(rows)
    if kind == "e5-mistral":
        assert {row[0] for row in rows} == {loaded.text_model.tokenizer.bos_token_id}


@pytest.mark.parametrize("kind", KINDS)
def test_what_counts_as_the_prompt(folders: dict[tuple[str, str], Path], kind: Kind) -> None:
    loaded = encoder(folders[kind, "left"])
    assert read_prompts(resolve_model(str(folders[kind, "left"]))).query == TASK
    plain = SentenceTransformer(
        str(folders[kind, "left"]),
        device="cpu",
        **oracle_options(kind),
    )
    assert loaded.text_model.prompt_length(TASK) == plain[0]._get_prompt_length(TASK)
    # The end token is no part of the prompt.
    assert loaded.text_model.prompt_length(TASK) == len(loaded.text_model.token_rows([TASK])[0]) - 1
    assert loaded.text_model.prompt_length("") == 0


def test_tokens_that_the_configuration_asks_for_are_part_of_the_fingerprint(tmp_path: Path) -> None:
    folder = build_tiny_decoder(tmp_path / "model", "e5-mistral")
    model = resolve_model(str(folder))
    former = encoder_fingerprint(model, max_tokens=100)
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"add_eos_token": False}))
    assert encoder_fingerprint(model, max_tokens=100) != former
    file.write_text(json.dumps(config))
    assert encoder_fingerprint(model, max_tokens=100) == former


def test_loading_for_training_keeps_no_cache(folders: dict[tuple[str, str], Path]) -> None:
    loaded = load_sentence_transformer(
        resolve_model(str(folders["gte-qwen2", "left"])), "cpu", "float32"
    )
    assert loaded[0].auto_model.config.use_cache is False


def test_a_start_token_that_is_missing_is_added_too(tmp_path: Path) -> None:
    folder = build_tiny_decoder(tmp_path / "model", "e5-mistral")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer | {"post_processor": None}))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"add_bos_token": True}))
    loaded = encoder(folder)
    ids = loaded.text_model.token_rows(["heat"])[0]
    assert (ids[0], ids[-1]) == (
        loaded.text_model.tokenizer.bos_token_id,
        loaded.text_model.tokenizer.eos_token_id,
    )
    assert ids.count(ids[0]) == ids.count(ids[-1]) == 1
    np.testing.assert_allclose(
        loaded.encode_chunks(TEXTS),
        oracle(folder, "e5-mistral"),
        atol=1e-5,
    )
