"""An embedding model on a server: its vectors, what it gets to read, and what happens when it
fails.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import error_of, fails
from fixtures.fake_endpoint import Raw, serving
from fixtures.fault_proxy import CUT, DELAY, DROP, ERROR, HALF_OPEN, spoiling
from fixtures.llama_server import embedding_server
from fixtures.pipeline import SAMPLE, engine_here
from fixtures.project_files import mode
from fixtures.tiny_gguf import build_tiny_gguf
from fixtures.tiny_model import build_tiny_model

from engine.core.errors import CancelledError, EngineError, ModelError, SettingsError
from engine.encoders import for_project
from engine.encoders.embedding_cache import EmbeddingCache, encode_cached
from engine.encoders.encoder import Encoder
from engine.encoders.for_project import add_query_cache, source_of
from engine.encoders.kinds import endpoint
from engine.encoders.kinds.chosen import encoder_source
from engine.endpoint import model_server
from engine.endpoint.servers import known_servers
from engine.export.purge import purge
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import AdapterInfo, VectorsInfo
from engine.settings.schema import EncoderSettings, Settings
from engine.vectors.index import VectorIndex

TEXTS = [f"passage number {number}" for number in range(7)]
WIDTH = 16


def vector(text: str) -> list[float]:
    """Pseudo-random, not of unit length."""
    return [byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()[:WIDTH]]


def unit(texts: list[str]) -> np.ndarray:
    rows = np.array([vector(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def answer(rows: list[Any]) -> Raw:
    data = [{"index": place, "embedding": row} for place, row in enumerate(rows)]
    return Raw(body=json.dumps({"data": data[::-1]}).encode())


@dataclass
class Server:
    """Answers as `script(number of the request from 0, texts)` wants it."""

    url: str
    keys: list[str | None] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    script: Callable[[int, list[str]], Raw] = lambda _number, texts: answer(
        [vector(text) for text in texts]
    )

    @property
    def texts(self) -> list[list[str]]:
        return [request["input"] for request in self.requests]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(model_server, "PAUSE_SECONDS", 0.01)

    def embeddings(path: str, request: dict[str, Any]) -> Raw:
        if path != "/v1/embeddings":
            return Raw(404)
        found.requests.append(request)
        return found.script(len(found.requests) - 1, request["input"])

    with serving(lambda *_: "", embeddings) as chat:
        found = Server(chat.url, chat.aside_keys)
        yield found


def encoder(url: str, **chosen: Any) -> Encoder:
    return encoder_source(EncoderSettings(endpoint=url, **chosen)).load(256)


def test_texts_go_in_batches_with_their_prompts_and_come_back_in_order_at_unit_length(
    server: Server,
) -> None:
    made = encoder(
        server.url,
        endpoint_model="m",
        endpoint_batch=3,
        document_prompt="passage: ",
    )
    done: list[int] = []
    found = made.encode_chunks(TEXTS, done.append)
    np.testing.assert_allclose(
        found,
        unit(["passage: " + text for text in TEXTS]),
        atol=1e-6,
    )
    assert found.dtype == np.float32
    assert [len(batch) for batch in server.texts] == [3, 3, 1]
    assert {request["model"] for request in server.requests} == {"m"}
    assert (sorted(done), done[-1]) == (done, 7)
    assert made.dimension == WIDTH
    assert len(server.requests) == 3


def test_a_query_is_sent_once_also_by_another_process(server: Server, tmp_path: Path) -> None:
    project = ProjectFolder.create(tmp_path / "kept", {})

    def made(max_files: int = 1000) -> Encoder:
        return add_query_cache(
            project,
            encoder(server.url, query_prompt="query: "),
            max_files,
        )

    first = made()
    assert first.dimension == WIDTH
    server.requests.clear()
    found = first.encode_queries(["a", "b", "a"])
    np.testing.assert_allclose(
        found,
        unit(["query: a", "query: b", "query: a"]),
        atol=1e-3,
    )
    assert sorted(server.texts[0]) == ["query: a", "query: b"]
    server.requests.clear()
    np.testing.assert_allclose(
        made().encode_queries(["c", "b"]), unit(["query: c", "query: b"]), atol=1e-3
    )
    beside = ["query: a"], list(endpoint.PROBES)
    assert [texts for texts in server.texts if texts not in beside] == [["query: c"]], (
        "apart from the width and the model"
    )
    assert first.encode_queries([]).shape == (0, WIDTH)
    first.encode_chunks(["a"])
    kept = [path for path in (project.path / "cache").rglob("*") if path.is_file()]
    assert len(kept) == 3, "of two calls, and of the model"
    assert {mode(path) for path in kept} == {0o600}
    del first  # Windows removes no file that is mapped
    made(max_files=2)
    assert [path.name for path in (project.path / "cache").rglob("*") if path.is_file()] == [
        for_project.PROBES
    ]


def test_the_width_is_asked_for_where_nothing_was_encoded_yet(server: Server) -> None:
    assert encoder(server.url).dimension == WIDTH


def test_requests_lost_on_the_way_are_sent_again(server: Server) -> None:
    with spoiling(server.url, [DROP, ERROR, CUT, DELAY, HALF_OPEN]) as proxy:
        made = encoder(
            proxy.url,
            endpoint_batch=7,
            endpoint_seconds=2,
        )
        np.testing.assert_allclose(
            made.encode_chunks(TEXTS),
            unit(TEXTS),
            atol=1e-6,
        )
        np.testing.assert_allclose(
            made.encode_queries(["q"]),
            unit(["q"]),
            atol=1e-6,
        )
    assert proxy.met == [DROP, ERROR, CUT, DELAY, HALF_OPEN, "pass"]


def test_llama_cpps_own_server_gives_the_vectors_of_its_model_whatever_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_server, "PAUSE_SECONDS", 0.01)
    model = build_tiny_gguf(
        tmp_path / "tiny.gguf", template=None, context=512, llama__pooling_type=1
    )
    with (
        embedding_server(model) as url,
        spoiling(url, [DROP, CUT, "pass", DELAY, ERROR, "pass"]) as proxy,
    ):
        found = encoder(proxy.url, endpoint_batch=3).encode_chunks(TEXTS)
        assert not proxy.faults
    own = encoder_source(EncoderSettings(model=str(model), device="cpu")).load(256)
    np.testing.assert_allclose(
        found,
        own.encode_chunks(TEXTS),
        atol=2e-3,
    )


def test_a_server_that_never_answers_is_given_up_after_so_many_tries(server: Server) -> None:
    server.script = lambda *_: Raw(503)
    with pytest.raises(EngineError) as error:
        encoder(server.url).encode_chunks(TEXTS)
    assert error.value.code == "endpoint-no-answer"
    assert len(server.requests) == model_server.TRIES


def test_what_came_before_a_failure_is_kept(server: Server, tmp_path: Path) -> None:
    def script(number: int, texts: list[str]) -> Raw:
        if number == 2:
            return Raw(400)
        return answer([vector(text) for text in texts])

    server.script = script
    made = encoder(server.url, endpoint_batch=2)
    cache = EmbeddingCache(tmp_path)
    hashes = [hashlib.sha256(text.encode()).hexdigest() for text in TEXTS]
    assert made.dimension == WIDTH
    with fails(ModelError, "endpoint-refused"):
        encode_cached(made, hashes, TEXTS, cache)
    found = encode_cached(made, hashes, TEXTS, cache)[:]
    np.testing.assert_allclose(
        found,
        unit(TEXTS),
        atol=1e-3,
    )
    sent = [
        text
        for number in (1, 3, 4, 5)
        if number < len(server.texts)
        for text in server.texts[number]
    ]
    assert sorted(sent) == sorted(TEXTS), "none twice"


def test_a_server_is_left_alone_as_long_as_it_asks_within_the_time_limit(server: Server) -> None:
    times: list[float] = []

    def script(number: int, texts: list[str]) -> Raw:
        times.append(time.monotonic())
        if number == 0:
            return Raw(429, headers={"Retry-After": "3600"})
        return answer([vector(text) for text in texts])

    server.script = script
    assert encoder(server.url, endpoint_seconds=1).encode_chunks(TEXTS[:1]).shape == (1, WIDTH)
    assert times[1] - times[0] >= 1.0


@pytest.mark.parametrize(
    ("model", "changes", "prompts"),
    [
        ("nomic-embed-text:latest", {}, ("search_query: ", "search_document: ")),
        ("text-embedding-nomic-embed-text-v1.5", {"document_prompt": ""}, ("search_query: ", "")),
        ("multilingual-e5-small", {"query_prompt": "q"}, ("q", "passage: ")),
        ("m", {}, ("", "")),
    ],
)
def test_a_model_known_by_name_gets_its_prompts(
    model: str, changes: dict[str, str], prompts: tuple[str, str]
) -> None:
    found = encoder_source(
        EncoderSettings(endpoint="http://127.0.0.1:1/v1", endpoint_model=model, **changes)
    ).prompts
    assert (found.query, found.document) == prompts


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (answer([[1.0] * 4] * 6), "endpoint-count"),
        (answer([[1.0] * 4] * 8), "endpoint-count"),
        (answer([[1.0] * 5] * 7), "endpoint-dimension"),
        (answer([*[[1.0] * 4] * 6, [1.0] * 5]), "endpoint-dimension"),
        (
            Raw(body=json.dumps({"data": [{"index": 0, "embedding": [1.0] * 4}] * 7}).encode()),
            "endpoint-index",
        ),
        (answer([[0.0] * 4] * 7), "vectors-not-finite"),
        (answer([[math.nan] * 4] * 7), "vectors-not-finite"),
        (Raw(body=b"[]"), "endpoint-no-answer"),
        (Raw(body=b'{"data": [{"embedding": "AAAA"}]}'), "endpoint-no-answer"),
        (Raw(401), "endpoint-refused"),
        (Raw(302, headers={"Location": "http://127.0.0.1:1/v1/embeddings"}), "endpoint-refused"),
    ],
)
def test_answers_that_cannot_be_used(
    server: Server,
    body: Raw,
    code: str,
) -> None:
    made = encoder(server.url)
    server.script = lambda number, _: body if number else answer([[1.0] * 4])
    made.encode_queries(["q"])
    with pytest.raises(EngineError) as error:
        made.encode_chunks(TEXTS)
    assert error.value.code == code


def test_stopping_does_not_wait_for_the_answer(server: Server) -> None:
    def stop(_done: int) -> None:
        raise CancelledError("stopped")

    with spoiling(server.url, [HALF_OPEN]) as proxy, pytest.raises(CancelledError):
        encoder(proxy.url, endpoint_seconds=3600).encode_chunks(TEXTS, stop)


def test_a_public_address_is_refused_unless_it_is_allowed() -> None:
    with pytest.raises(SettingsError) as error:
        encoder_source(EncoderSettings(endpoint="http://8.8.8.8/v1"))
    assert error.value.code == "endpoint-public"
    allowed = EncoderSettings(endpoint="http://8.8.8.8/v1", endpoint_allow_public=True)
    assert encoder_source(allowed).server == "http://8.8.8.8:80/v1"


def test_a_server_that_project_toml_no_longer_names_gets_no_key(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BMEMBED_ENDPOINT_KEY", "secret")
    info = VectorsInfo(endpoint=server.url, dimension=WIDTH)
    for named in (server.url, "http://127.0.0.1:1/v1", ""):
        settings = Settings(encoder=EncoderSettings(endpoint=named))
        source_of(info, settings).load(256).encode_queries(["a"])
    assert server.keys == ["Bearer secret", None, None]


def test_address_model_and_prompts_name_the_vectors() -> None:
    chosen = EncoderSettings(endpoint="http://127.0.0.1:1/v1")
    changes = [
        {},
        {"endpoint_model": "m"},
        {"query_prompt": "q"},
        {"document_prompt": "d"},
        {"endpoint": "http://127.0.0.1:2/v1"},
    ]
    made = [
        encoder_source(chosen.model_copy(update=change)).vectors_fingerprint(256)
        for change in changes
    ]
    assert len(set(made)) == 5
    slower = chosen.model_copy(
        update={"endpoint_seconds": 1, "endpoint_batch": 1, "max_tokens": 64}
    )
    assert encoder_source(slower).vectors_fingerprint(64) == made[0]


@pytest.fixture
def project(server: Server, tmp_path: Path) -> ProjectFolder:
    documents = [str(file) for file in sorted((SAMPLE / "documents" / "incidents").iterdir())[:6]]
    settings = {
        "corpus": {"paths": documents, "chunk_tokens": 96},
        "encoder": {"endpoint": server.url, "endpoint_model": "m", "document_prompt": "passage: "},
        "evaluation": {"bootstrap_samples": 100},
    }
    return ProjectFolder.create(tmp_path / "project", settings)


def test_a_project_is_searched_and_evaluated_but_neither_trained_nor_exported(
    server: Server, project: ProjectFolder
) -> None:
    path = str(project.path)
    engine_here("run", path, "--all")
    store = project.store()
    adapter = store.artifact(AdapterInfo)
    vectors = store.artifact(VectorsInfo)
    assert adapter is not None
    assert vectors is not None
    assert adapter.info.adapter is None
    assert adapter.info.reason
    assert (vectors.info.dimension, vectors.info.endpoint) == (WIDTH, server.url)
    assert known_servers(project.path) == [server.url]
    sent = [text for batch in server.texts for text in batch]
    chunks = store.chunks()
    assert {"passage: " + chunk.embedded_text for chunk in chunks} <= set(sent)
    wanted = chunks[3].embedded_text
    found = json.loads(
        engine_here("search", path, "passage: " + wanted, "--mode", "semantic", "--json").stdout
    )["hits"]
    assert found[0]["chunk_id"] == chunks[3].id
    assert found[0]["score"] == pytest.approx(1.0, abs=1e-3)
    assert (
        engine_here(
            "export", path, str(project.path.parent / "out"), "--only", "model", check=False
        ).returncode
        == 2
    )
    engine_here(
        "export",
        path,
        str(project.path.parent / "vectors"),
        "--only",
        "vectors",
    )
    server.requests.clear()
    engine_here("embed", path, "--force")
    assert not any("passage: " in text for batch in server.texts for text in batch), (
        "vectors are kept by content"
    )
    store.close()


def test_another_model_under_the_same_name_is_noticed(
    server: Server, project: ProjectFolder
) -> None:
    path = str(project.path)
    search = (
        "search",
        path,
        "alarm",
        "--mode",
        "semantic",
    )
    engine_here("run", path, "--only", "ingest,index,embed")
    server.requests.clear()
    engine_here("embed", path, "--force")
    assert server.texts == [list(endpoint.PROBES)], "all vectors are kept, and so is their width"
    server.script = lambda _, texts: answer([vector(text)[:8] for text in texts])
    assert error_of(*search)[1]["code"] == "endpoint-dimension"
    noise = np.random.default_rng(0).normal(0, 0.5, WIDTH)
    server.script = lambda _, texts: answer([list(vector(text) + noise) for text in texts])
    engine_here(*search)  # a little else, as on other hardware
    server.script = lambda _, texts: answer([vector(f"other {text}") for text in texts])
    assert (
        error_of("search", path, "roof", "--mode", "semantic")[1]["code"]
        == "endpoint-model-changed"
    )
    engine_here("embed", path, "--force")
    _, rows, texts = indexed(project)
    np.testing.assert_allclose(
        rows,
        unit([f"other passage: {text}" for text in texts]),
        atol=2e-3,
    )
    engine_here(
        "search",
        path,
        "roof",
        "--mode",
        "semantic",
    )


def indexed(project: ProjectFolder) -> tuple[AdapterInfo | None, np.ndarray, list[str]]:
    """The adapter, and the index's rows in the order of the chunks' texts, with these."""
    with closing(project.store()) as store:
        adapter = store.artifact(AdapterInfo)
        vectors = store.artifact(VectorsInfo)
        texts = {chunk.id: chunk.embedded_text for chunk in store.chunks()}
    assert vectors is not None
    keys, rows = VectorIndex.open(project.folder_of(vectors)).stored()
    order = sorted(range(len(keys)), key=lambda place: texts[keys[place]])
    return adapter and adapter.info, rows[order], [texts[keys[place]] for place in order]


def test_a_small_model_trains_with_a_failing_server_and_nothing_is_lost(
    server: Server, project: ProjectFolder, tmp_path: Path
) -> None:
    project.change_settings(
        {
            "encoder.small_model": str(build_tiny_model(tmp_path / "small")),
            "training.preset": "mafin",
            "training.epochs": 1,
            "training.heldout_pool": 50,
            "queries.consistency_top": 0,
            "queries.max_queries": 60,
            "ranking.k": 20,
        }
    )
    engine_here(
        "run",
        str(project.path),
        "--only",
        "ingest,index,generate,rank",
    )
    unbroken = ProjectFolder(Path(shutil.copytree(project.path, tmp_path / "unbroken")))
    engine_here(
        "run",
        str(unbroken.path),
        "--all",
    )
    whole = sum(map(len, server.texts))
    server.requests.clear()
    with spoiling(server.url, [CUT, DELAY, ERROR, "pass", *[DROP] * 5]) as proxy:
        project.change_settings({"encoder.endpoint": proxy.url})
        assert error_of("run", str(project.path), "--all")[1]["code"] == "endpoint-no-answer"
        engine_here(
            "run",
            str(project.path),
            "--all",
        )
        assert known_servers(project.path) == [proxy.url]
        found = json.loads(
            engine_here("search", str(project.path), "a ladle that tipped over", "--json").stdout
        )["hits"]
    assert not proxy.faults
    adapter, rows, _ = indexed(project)
    wanted, index, _ = indexed(unbroken)
    assert adapter
    assert wanted
    assert adapter.digest == wanted.digest
    np.testing.assert_array_equal(rows, index)
    assert sum(map(len, server.texts)) <= whole + 128, (
        "at most what was kept together is asked for again"
    )
    done = purge(project)
    assert proxy.url in {one.path for one in done.elsewhere}
    assert found
    assert not (project.path / "cache").exists()
