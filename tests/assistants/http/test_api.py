"""What programs of this machine get of a project."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.local_api import BEARER, asked, listening
from fixtures.pipeline import engine_here
from fixtures.tiny_cross_encoder import build_cross_encoder

from engine.assistants.http.api import MAX_TEXTS, LocalApi
from engine.assistants.http.listener import Listener, Request
from engine.core.messages.search import MODE_OF_NAME
from engine.encoders.for_project import source_of
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import LexicalInfo, VectorsInfo
from engine.reranking.chosen import reranker_of
from engine.search.encoding import EncodersInUse

TEXTS = [
    "the contract",
    "",
    "Größe ∑ 你好 🙂 \u202e",
    "law " * 500,
    "half \ud800 a pair",
    "the contract",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, finished_built: Path) -> Path:
    return Path(shutil.copytree(finished_built, tmp_path_factory.mktemp("api") / "embedded"))


@pytest.fixture(scope="module")
def server(project: Path) -> Iterator[Listener]:
    with listening(LocalApi([str(project)]).answer) as found:
        yield found


def embedded(server: Listener, **body: Any) -> Any:
    status, data = asked(
        server,
        "POST",
        "/v1/embeddings",
        {"model": "embedded", **body},
    )
    assert status == 200, data
    return data


def matrix(data: Any) -> Any:
    assert [one["index"] for one in data["data"]] == [*range(len(data["data"]))]
    return np.array([one["embedding"] for one in data["data"]])


@pytest.mark.parametrize("side", ["query", "document"])
def test_vectors_are_those_of_the_encoder_in_use(
    server: Listener, project: Path, side: str
) -> None:
    with closing(ProjectFolder(project).store()) as store:
        artifact = store.artifact(VectorsInfo)
    assert artifact
    info = artifact.info
    if side == "query":
        adapter = info.adapter
    else:
        adapter = info.chunk_adapter
    folder, weight = (project / adapter, info.interpolation_weight) if adapter else (None, 1.0)
    encoder = source_of(info, ProjectFolder(project).settings()).load(
        info.max_tokens, folder, weight
    )
    expected = (encoder.encode_queries if side == "query" else encoder.encode_chunks)(TEXTS)
    found = matrix(embedded(server, input=TEXTS, input_type=side))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-6
    assert np.array_equal(matrix(embedded(server, model=f"embedded:{side}", input=TEXTS)), found)


def test_the_default_input_type_is_document(server: Listener) -> None:
    assert (
        embedded(server, input=TEXTS)["data"]
        == embedded(server, input=TEXTS, input_type="document")["data"]
    )


def test_base64_holds_the_same_numbers_and_usage_counts_tokens(server: Listener) -> None:
    numbers = embedded(server, input="the contract")
    text = embedded(
        server,
        input="the contract",
        encoding_format="base64",
        user="me",
    )
    decoded = np.frombuffer(base64.b64decode(text["data"][0]["embedding"]), "<f4")
    assert np.array_equal(decoded, matrix(numbers)[0].astype(np.float32))
    assert (
        numbers["usage"] == text["usage"] == {"prompt_tokens": 4, "total_tokens": 4}
    )  # [CLS] the contract [SEP]
    assert embedded(server, input=["law", "law " * 500])["usage"]["prompt_tokens"] == 3 + 128
    assert (numbers["object"], numbers["model"], text["model"]) == ("list", "embedded", "embedded")


def test_a_query_also_has_its_terms_where_they_are_wanted(server: Listener, project: Path) -> None:
    texts = ["contract law, the law", "PHX-121", "the"]
    plain, data = (
        embedded(server, model="embedded:query", input=texts, **more)
        for more in ({}, {"terms": True})
    )
    assert (matrix(data) == matrix(plain)).all()
    assert [one["terms"] for one in data["data"]][::2] == [{"contract": 1.0, "law": 2.0}, {}]
    assert data["data"][1]["codes"].keys() == {"phx-121"} <= data["data"][1]["terms"].keys()
    with closing(ProjectFolder(project).store()) as store:
        artifacts = store.artifact(VectorsInfo), store.artifact(LexicalInfo)
    assert artifacts[0]
    assert artifacts[1]
    assert data["fingerprints"] == {
        "encoder": artifacts[0].info.encoder,
        "keywords": artifacts[1].fingerprint,
    }


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": "embedded"},
        {"input": "x"},
        {"model": 1, "input": "x"},
        {"model": "embedded", "input": []},
        {"model": "embedded", "input": [1, 2]},
        {"model": "embedded", "input": [["x"]]},
        {"model": "embedded", "input": None},
        {"model": "embedded", "input": ["x"] * (MAX_TEXTS + 1)},
        {"model": "embedded", "input": "x", "input_type": "passage"},
        {"model": "embedded", "input": "x", "encoding_format": "int8"},
        {"model": "embedded", "input": "x", "dimensions": 7},
        {"model": "embedded", "input": "x", "unknown": 1},
        {"model": "embedded", "input": "x", "terms": True},
        {"model": "embedded:query", "input": "x", "terms": 1},
        [],
        "x",
        None,
        7,
        b"",
        b"{",
        b"\xff",
        b"[" * 100_000,
        b'{"model": ' * 50_000,
        b'{"input": NaN, "model": 1e999}',
        b"9" * 10_000,
    ],
)
def test_a_wrong_body_is_refused(server: Listener, body: Any) -> None:
    status, data = asked(
        server,
        "POST",
        "/v1/embeddings",
        body if body is not None else b"null",
    )
    assert (status, data["error"]["code"]) == (400, "arguments-invalid")
    assert data["error"]["type"] == "invalid_request_error"


def test_a_model_that_there_is_not(server: Listener) -> None:
    for model in ("other", "embedded:", "embedded:Query", ":query", ""):
        status, data = asked(
            server,
            "POST",
            "/v1/embeddings",
            {"model": model, "input": "x"},
        )
        assert (status, data["error"]["code"]) == (400, "project-missing")


def test_documents_are_ordered_by_the_projects_reranker(project: Path, tmp_path: Path) -> None:
    folder = ProjectFolder(Path(shutil.copytree(project, tmp_path / "embedded")))
    reranker = folder.change_settings(
        {"search.reranker": str(build_cross_encoder(tmp_path / "reranker"))}
    )
    chosen = reranker_of(folder, reranker)
    assert chosen
    texts = [f"the law of contract {number}" for number in range(40)] + TEXTS
    expected = chosen.scores("who pays", texts)
    api = LocalApi([str(folder.path)])

    def ask(**body: Any) -> Any:
        whole = json.dumps({"model": "embedded", "query": "who pays", **body}).encode()
        answer = api.answer(Request("POST", "/v1/rerank", whole))
        assert answer.status == 200, answer.data
        return answer.data["results"]

    found = ask(documents=[{"text": one} for one in texts])
    assert sorted(one["index"] for one in found) == [*range(len(texts))]
    assert [one["relevance_score"] for one in found] == sorted(
        (one["relevance_score"] for one in found), reverse=True
    )
    assert np.allclose(
        [one["relevance_score"] for one in found],
        expected[[one["index"] for one in found]],
        atol=1e-5,
    )
    assert ask(documents=texts, top_n=2, return_documents=True) == [
        {**one, "document": {"text": texts[one["index"]]}} for one in found[:2]
    ]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"documents": ["a"]}, "reranker-not-chosen"),
        ({"documents": []}, "arguments-invalid"),
        ({}, "arguments-invalid"),
        ({"documents": "a"}, "arguments-invalid"),
        ({"documents": [{"body": "a"}]}, "arguments-invalid"),
        ({"documents": ["a"], "top_n": 0}, "arguments-invalid"),
        ({"documents": ["a"], "model": "other"}, "project-missing"),
    ],
)
def test_what_cannot_be_reranked(
    server: Listener,
    body: dict[str, Any],
    code: str,
) -> None:
    status, data = asked(
        server,
        "POST",
        "/v1/rerank",
        {"model": "embedded", "query": "x", **body},
    )
    assert (status, data["error"]["code"]) == (400, code)


def test_models_are_projects_with_their_sides(server: Listener) -> None:
    status, data = asked(server, "GET", "/v1/models")
    assert (status, data["object"]) == (200, "list")
    assert [one["id"] for one in data["data"]] == [
        "embedded",
        "embedded:query",
        "embedded:document",
    ]


@pytest.mark.parametrize(
    ("params", "options"),
    [
        ({"query": "door pressure"}, []),
        (
            {"query": "door", "mode": "bm25", "top": 2, "facets": True},
            ["--mode", "bm25", "--top", "2", "--facets"],
        ),
        ({"query": "door", "mode": "keywords", "top": 2}, ["--mode", "keywords", "--top", "2"]),
        (
            {"query": "door", "mode": "semantic", "by_document": False},
            ["--mode", "semantic", "--passages"],
        ),
        (
            {"query": "door -valve", "paths": ["incidents/**"], "types": ["md", "txt"]},
            ["--path", "incidents/**", "--type", "md", "--type", "txt"],
        ),
        ({"query": '"née" 你好', "mode": "bm25"}, ["--mode", "bm25"]),
    ],
)
def test_a_search_finds_what_the_command_finds(
    server: Listener, project: Path, params: dict[str, Any], options: list[str]
) -> None:
    expected = json.loads(
        engine_here("search", str(project), params["query"], "--json", *options).stdout
    )
    assert asked(server, "POST", "/search", params) == (200, expected)
    assert asked(server, "POST", "/search?x=y", {**params, "project": "embedded"}) == (
        200,
        expected,
    )
    assert ("你" in params["query"]) or expected["hits"]


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "arguments-invalid"),
        ({"query": 7}, "arguments-invalid"),
        ({"query": "x", "limit": 1}, "arguments-invalid"),
        ({"query": "x", "top": 0}, "arguments-invalid"),
        ({"query": "x", "top": "1"}, "arguments-invalid"),
        ({"query": "x", "mode": "fast"}, "search-mode-unknown"),
        ({"query": "x", "mode": ["bm25"]}, "search-mode-unknown"),
        ({"query": "x", "after": "soon"}, "date-invalid"),
        ({"query": "x", "project": "other"}, "project-missing"),
        ({"query": "x", "project": []}, "project-missing"),
        ({"query": "", "mode": "bm25"}, "query-empty"),
        ({"query": "!!!", "mode": "bm25"}, "query-empty"),
        ({"query": "x", "mode": "bm25", "types": ["pfd"]}, "type-unknown"),
    ],
)
def test_a_wrong_search_is_refused(
    server: Listener,
    params: dict[str, Any],
    code: str,
) -> None:
    status, data = asked(
        server,
        "POST",
        "/search",
        params,
    )
    assert (status, data["error"]["code"]) == (400, code)


def test_a_wrong_mode_names_those_of_the_command(server: Listener) -> None:
    _, data = asked(
        server,
        "POST",
        "/search",
        {"query": "x", "mode": "fast"},
    )
    assert all(mode in data["error"]["message"] for mode in MODE_OF_NAME)
    assert "bm25" not in data["error"]["message"]


def test_other_paths_and_methods(server: Listener) -> None:
    for path in ("/", "/v1/embeddings/", "/v1/../search", "/%2e%2e/search", "/SEARCH"):
        assert asked(server, "GET", path)[0] == 404
    for method, path in (
        ("GET", "/v1/embeddings"),
        ("GET", "/search"),
        ("DELETE", "/search"),
        ("OPTIONS", "/v1/models"),
        ("TRACE", "/search"),
    ):
        status, data = asked(server, method, path)
        assert (status, data["error"]["code"]) == (405, "method-not-allowed")


def test_a_search_may_not_be_as_long_as_texts_to_embed(server: Listener) -> None:
    status, data = asked(
        server,
        "POST",
        "/search",
        {"query": "roof", "paths": ["x" * 40_000]},
    )
    assert (status, data["error"]["code"]) == (413, "request-too-large")


def test_several_projects_are_told_apart_and_one_that_is_not_built_says_so(
    project: Path, handbook: Path
) -> None:
    with listening(LocalApi([str(project), str(handbook)]).answer) as server:
        status, data = asked(
            server,
            "POST",
            "/search",
            {"query": "roof"},
        )
        assert (status, data["error"]["code"]) == (400, "project-missing")
        status, data = asked(
            server, "POST", "/search", {"query": "roof", "project": "handbook", "mode": "bm25"}
        )
        assert (status, len(data["hits"])) == (200, 2)
        status, data = asked(
            server,
            "POST",
            "/v1/embeddings",
            {"model": "handbook", "input": "x"},
        )
        assert (status, data["error"]["code"]) == (409, "not-built")


def test_a_fault_is_answered_without_its_message(
    server: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("private words")

    monkeypatch.setattr(EncodersInUse, "encode", fail)
    status, data = asked(
        server,
        "POST",
        "/v1/embeddings",
        {"model": "embedded", "input": "x"},
    )
    assert (status, data["error"]["code"], data["error"]["type"]) == (
        500,
        "internal-fault",
        "server_error",
    )
    assert "private" not in json.dumps(data)
    assert asked(server, "GET", "/v1/models", headers=BEARER)[0] == 200


def test_a_call_that_takes_too_long_is_given_up(project: Path) -> None:
    api = LocalApi([str(project)], work_seconds=-1.0)
    body = json.dumps({"model": "embedded:query", "input": "x"}).encode()
    answer = api.answer(Request("POST", "/v1/embeddings", body))
    assert (answer.status, answer.data["error"]["code"]) == (503, "request-too-long")
