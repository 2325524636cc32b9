"""GGUF embedding models: llama.cpp's own vectors, from a process that may die."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from fixtures.errors import fails
from fixtures.pipeline import SAMPLE, engine_here
from fixtures.tiny_gguf import build_tiny_gguf

from engine.core.errors import CancelledError, EngineError, ModelError
from engine.encoders.encoder import Encoder
from engine.encoders.fingerprint import Prompts, known_prompts
from engine.encoders.kinds import gguf
from engine.encoders.kinds.chosen import encoder_source
from engine.project.folder import ProjectFolder
from engine.settings.schema import EncoderSettings

TEXTS = [
    "the contract party",
    "heat",
    "pressure of the boundary layer at the wing",
    "",
    "Zürich <|im_end|> 東京",
    "<s> x",
]
INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query"
# llama.cpp keeps keys and values in half precision, and computes with them in the way that suits
# its settings
NEAR = 2e-3


def build(path: Path, pooling: int | None = 1) -> Path:
    pooled: dict[str, Any] = {} if pooling is None else {"llama__pooling_type": pooling}
    return build_tiny_gguf(
        path,
        template=None,
        context=512,
        **pooled,
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("gguf") / "tiny-f32.gguf")


def encoder(model: Path, **chosen: Any) -> Encoder:
    tokens = chosen.pop("tokens", 256)
    return encoder_source(EncoderSettings(model=str(model), device="cpu", **chosen)).load(tokens)


def by_library(
    model: Path,
    texts: list[str],
    pooling: int,
) -> np.ndarray:
    """As llama_cpp's own class computes it, marks in the text read as characters."""
    import llama_cpp

    made = llama_cpp.Llama(
        str(model), embedding=True, pooling_type=pooling, n_ctx=512, n_gpu_layers=0, verbose=False
    )
    rows = []
    for text in texts:
        tokens = made.tokenize(
            text.encode(),
            add_bos=True,
            special=False,
        )
        data = (llama_cpp.llama_token * len(tokens))(*tokens)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(made.ctx), True)
        assert (
            llama_cpp.llama_decode(made.ctx, llama_cpp.llama_batch_get_one(data, len(tokens))) == 0
        )
        rows.append(np.array(llama_cpp.llama_get_embeddings_seq(made.ctx, 0)[: made.n_embd()]))
    made.close()
    return np.array([row / np.linalg.norm(row) for row in rows])


@pytest.mark.parametrize(
    ("setting", "number"), [("from the model", 1), ("mean", 1), ("cls", 2), ("last", 3)]
)
def test_vectors_are_those_of_llama_cpp_whatever_is_pooled(
    model: Path, setting: str, number: int
) -> None:
    made = encoder(model, pooling=setting)
    assert made.dimension == 64
    np.testing.assert_allclose(
        made.encode_chunks(TEXTS), by_library(model, TEXTS, number), atol=NEAR
    )


def test_queries_and_chunks_have_prompts_of_their_own(model: Path) -> None:
    made = encoder(
        model,
        query_prompt="q: ",
        document_prompt="d: ",
    )
    plain = encoder(model)
    np.testing.assert_allclose(
        made.encode_queries(TEXTS), plain.encode_chunks(["q: " + text for text in TEXTS]), atol=1e-6
    )
    np.testing.assert_allclose(
        made.encode_chunks(TEXTS), plain.encode_queries(["d: " + text for text in TEXTS]), atol=1e-6
    )
    assert made.fingerprint != plain.fingerprint


def test_a_long_text_is_cut_where_the_settings_say(model: Path) -> None:
    long = "x" * 1000
    cut = encoder(model, tokens=16).encode_chunks([long, "x" * 15])
    np.testing.assert_allclose(
        cut[0],
        cut[1],
        atol=1e-6,
    )
    sources = [
        encoder_source(EncoderSettings(model=str(model))).vectors_fingerprint(tokens)
        for tokens in (16, 17, 512, 9999)
    ]
    assert len(set(sources)) == 3, "the model reads 512 at most"


def test_a_copy_is_the_same_encoder_and_other_weights_are_not(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.gguf"
    other = tmp_path / "other.gguf"
    data = model.read_bytes()
    copy.write_bytes(data)
    other.write_bytes(data[:-4] + b"\0\0\0\0")
    named = [
        encoder_source(EncoderSettings(model=str(path))).fingerprint
        for path in (model, copy, other)
    ]
    assert named[0] == named[1] != named[2]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("nomic-embed-text-v1.5.Q8_0", Prompts("search_query: ", "search_document: ")),
        (
            "embeddinggemma-300M-qat-Q4_0",
            Prompts("task: search result | query: ", "title: none | text: "),
        ),
        ("multilingual-e5-small-f16", Prompts("query: ", "passage: ")),
        ("e5-base-v2.Q4_K_M", Prompts("query: ", "passage: ")),
        ("Qwen3-Embedding-0.6B.i1-Q4_K_M", Prompts(f"{INSTRUCTION}\nQuery:", "")),
        (
            "embeddinggemma-300M-UD-Q4_K_XL",
            Prompts("task: search result | query: ", "title: none | text: "),
        ),
        ("nomic-embed-text-v1.5-fp16", Prompts("search_query: ", "search_document: ")),
        ("multilingual-e5-large-instruct-q8_0", Prompts(f"{INSTRUCTION}\nQuery: ", "")),
        ("tiny-f32", None),
    ],
)
def test_prompts_are_known_by_the_name(name: str, known: Prompts | None) -> None:
    assert known_prompts(name) == known


def test_prompts_of_the_family_are_used_unless_settings_name_others(tmp_path: Path) -> None:
    file = build(tmp_path / "Qwen3-Embedding-0.6B-Q8_0.gguf", 3)
    own = encoder_source(EncoderSettings(model=str(file))).prompts
    assert (own.query.startswith("Instruct: "), own.document) == (True, "")
    assert encoder_source(EncoderSettings(model=str(file), query_prompt="")).prompts == Prompts(
        "", ""
    )
    renamed = build_tiny_gguf(
        tmp_path / "mine.gguf", name="Qwen3 Embedding 0.6B", llama__pooling_type=3
    )
    assert encoder_source(EncoderSettings(model=str(renamed))).prompts == own


def test_a_model_that_names_no_pooling_wants_one_to_be_chosen(tmp_path: Path) -> None:
    file = build(tmp_path / "writer.gguf", None)
    with pytest.raises(ModelError) as error:
        encoder(file)
    assert error.value.code == "pooling-unsupported"
    np.testing.assert_allclose(
        encoder(file, pooling="last").encode_chunks(TEXTS), by_library(file, TEXTS, 3), atol=NEAR
    )


@pytest.mark.parametrize("data", [b"", b"not a model", None])
def test_files_that_are_no_models(
    model: Path,
    tmp_path: Path,
    data: bytes | None,
) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(model.read_bytes()[:2000] if data is None else data)
    with pytest.raises(ModelError) as error:
        encoder(file)
    assert error.value.code == "model-invalid"


def test_a_context_that_llama_cpp_refuses_names_the_setting_that_shortens_it(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import llama_cpp

    from engine.llm.served_model import EmbeddingModel

    def refuse(self: llama_cpp.Llama, **_options: Any) -> None:
        # The model was loaded, and its context was not made.
        vars(self).update(_stack=ExitStack(), _model=None)
        raise ValueError("Failed to create llama_context")

    with monkeypatch.context() as patched:
        patched.setattr(
            llama_cpp.Llama,
            "__init__",
            refuse,
        )
        with fails(ModelError, "context-too-large") as caught:
            EmbeddingModel(model_path=str(model), n_ctx=512)
    assert "encoder.max_tokens" in caught.value.to_do

    def fail(*_: object) -> None:
        raise caught.value

    monkeypatch.setattr(gguf, "ModelProcess", fail)
    with fails(ModelError, "context-too-large"):
        encoder(model)


def test_its_death_is_an_error(model: Path) -> None:
    made = encoder(model)
    assert isinstance(made, gguf.GgufEncoder)

    def crash(done: int) -> None:
        psutil.Process(made.pid).kill()

    with pytest.raises(EngineError) as error:
        made.encode_chunks(TEXTS, crash)
    assert error.value.code == "model-crashed"
    np.testing.assert_allclose(
        made.encode_chunks(TEXTS), encoder(model).encode_chunks(TEXTS), atol=NEAR
    )


def test_a_vector_does_not_depend_on_the_other_texts_of_its_batch(model: Path) -> None:
    made = encoder(model)
    together = made.encode_chunks(TEXTS)
    alone = np.concatenate([made.encode_chunks([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)


def test_numbers_that_are_not_finite_are_an_error(model: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    data = model.read_bytes()
    broken.write_bytes(data[:-4096] + b"\xff" * 4096)
    with pytest.raises(EngineError) as error:
        encoder(broken).encode_chunks(TEXTS)
    assert error.value.code == "vectors-not-finite"


def test_stopping_waits_for_a_few_texts_at_most(model: Path) -> None:
    done: list[int] = []

    def stop(count: int) -> None:
        done.append(count)
        raise CancelledError("stopped")

    made = encoder(model)
    with pytest.raises(CancelledError):
        made.encode_chunks(["heat"] * 100, stop)
    assert done == [gguf.TEXTS_AT_ONCE]
    assert made.encode_chunks(["heat"]).shape == (1, 64)


def test_a_project_is_searched_with_one(model: Path, tmp_path: Path) -> None:
    documents = [str(file) for file in sorted((SAMPLE / "documents" / "incidents").iterdir())[:4]]
    settings = {
        "corpus": {"paths": documents, "chunk_tokens": 96},
        "encoder": {"model": str(model), "device": "cpu", "max_tokens": 512},
    }
    project = ProjectFolder.create(tmp_path / "project", settings)
    engine_here(
        "run",
        str(project.path),
        "--only",
        "ingest,index,embed",
    )
    store = project.store()
    wanted = store.chunks()[3]
    store.close()
    found = json.loads(
        engine_here(
            "search", str(project.path), wanted.embedded_text, "--mode", "semantic", "--json"
        ).stdout
    )["hits"]
    assert found[0]["chunk_id"] == wanted.id
    assert found[0]["score"] == pytest.approx(1.0, abs=1e-3)
