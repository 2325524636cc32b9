"""Encoders of the catalogue: pooling, prompts and unit norm are those of sentence-transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from fixtures.catalogue_models import OWN_PROMPTS, POOLING, build_catalogue_model
from fixtures.optional import needs
from fixtures.sentence_encoders import SentenceTransformer

from engine.encoders.fingerprint import missing_prompts
from engine.encoders.kinds.chosen import encoder_source
from engine.encoders.model_folder import read_object, resolve_model
from engine.encoders.pooling import read_modes
from engine.export.gguf_file import save_gguf
from engine.models.catalogue import CatalogueModel, read_catalogue
from engine.models.files import hash_part
from engine.models.installed import InstalledModel, install, staged_folder
from engine.settings.schema import EncoderSettings

ENCODERS = [model for model in read_catalogue() if model.kind == "encoder"]
TEXTS = [
    "the contract party",
    "heat",
    "what is the pressure of the boundary layer at the wing " * 4,
    "news of the court " * 3,
]
TOLERANCE = 1e-5
# llama.cpp keeps keys and values in half precision.
BY_LLAMA = 2e-3


def put(entry: CatalogueModel) -> Path:
    """Install a model of random weights as if it had been fetched."""
    with staged_folder(entry.name) as folder:
        build_catalogue_model(
            folder,
            entry.name,
            entry.architecture,
        )
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        parts = [hash_part(path, path.relative_to(folder).as_posix()) for path in files]
        model = InstalledModel(
            entry.name, entry.kind, entry.repository, "0" * 40, entry.licence, tuple(parts)
        )
        return install(folder, model)


def test_every_encoder_of_the_catalogue_is_in_the_table() -> None:
    assert {model.name for model in ENCODERS} == POOLING.keys()


@pytest.mark.parametrize("entry", ENCODERS, ids=lambda entry: entry.name)
def test_vectors_are_those_of_sentence_transformers(entry: CatalogueModel) -> None:
    folder = put(entry)
    chosen = EncoderSettings(
        model=entry.name,
        device="cpu",
        dtype="float32",
    )
    source = encoder_source(chosen)
    own = OWN_PROMPTS.get(entry.name, {})
    query = entry.query_prompt or own.get("query", "")
    document = entry.document_prompt or ""
    assert (source.prompts.query, source.prompts.document) == (query, document)
    assert source.folder is not None
    assert missing_prompts(source.folder) is None
    assert read_modes(read_object(folder / "1_Pooling" / "config.json")) == (POOLING[entry.name],)
    encoder = source.load(chosen.max_tokens)
    oracle = SentenceTransformer(str(folder), device="cpu").float()
    for prompt, encode in ((query, encoder.encode_queries), (document, encoder.encode_chunks)):
        texts = [prompt + text for text in TEXTS]
        expected = oracle.encode(
            texts,
            batch_size=len(texts),
            show_progress_bar=False,
        )
        vectors = encode(TEXTS)
        assert vectors.shape == (len(TEXTS), 32)
        np.testing.assert_allclose(
            vectors,
            expected,
            atol=TOLERANCE,
            rtol=0,
        )
        np.testing.assert_allclose(
            np.linalg.norm(vectors, axis=1),
            1,
            atol=TOLERANCE,
        )
    queries = encoder.encode_queries(TEXTS)
    differ = not np.allclose(queries, encoder.encode_chunks(TEXTS), atol=0.001)
    assert differ == bool(query or document)


@needs("llama_cpp")
@pytest.mark.parametrize("precision", ["f32", "f16"])
@pytest.mark.parametrize(
    "entry",
    [model for model in ENCODERS if model.architecture == "bert"],
    ids=lambda entry: entry.name,
)
def test_llama_cpp_gives_a_berts_vectors(
    entry: CatalogueModel, precision: str, tmp_path: Path
) -> None:
    folder = put(entry)
    save_gguf(resolve_model(entry.name), tmp_path / "gguf")
    file = tmp_path / "gguf" / f"model-{precision}.gguf"
    chosen = EncoderSettings(
        model=str(file),
        device="cpu",
        query_prompt=entry.query_prompt or "",
        document_prompt=entry.document_prompt or "",
    )
    encoder = encoder_source(chosen).load(chosen.max_tokens)
    oracle = SentenceTransformer(str(folder), device="cpu").float()
    for prompt, encode in (
        (entry.query_prompt, encoder.encode_queries),
        (entry.document_prompt, encoder.encode_chunks),
    ):
        texts = [(prompt or "") + text for text in TEXTS]
        expected = oracle.encode(
            texts,
            batch_size=len(texts),
            show_progress_bar=False,
        )
        np.testing.assert_allclose(
            encode(TEXTS),
            expected,
            atol=BY_LLAMA,
            rtol=0,
        )
