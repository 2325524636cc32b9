"""A reranker on a server: its scores, what it gets to read, and what happens when it fails."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fixtures.chat_models import chat_model
from fixtures.errors import fails
from fixtures.fake_endpoint import Raw
from fixtures.fault_proxy import CUT, DELAY, DROP, ERROR, HALF_OPEN, spoiling
from fixtures.rerank_server import RerankServer, reranking

from engine.core.errors import EngineError, ModelError, SettingsError, StageError
from engine.endpoint import model_server
from engine.endpoint.servers import known_servers, note_server
from engine.llm.prompts import Message
from engine.llm.requests import Request
from engine.llm.shapes import PAIRS
from engine.project.folder import ProjectFolder
from engine.reranking.chosen import reranker_of
from engine.reranking.reranker import Reranker
from engine.settings.load import validate

PASSAGES = ["b" * length for length in (3, 1, 2)]


def reranker_at(
    project: ProjectFolder,
    url: str,
    **search: Any,
) -> Reranker:
    found = reranker_of(project, validate({"search": {"reranker": url, **search}}))
    assert found is not None
    return found


def test_scores_come_in_the_order_of_the_passages(
    rerank_server: RerankServer, project: ProjectFolder
) -> None:
    reranker = reranker_at(
        project,
        rerank_server.url,
        reranker_model="m",
    )
    assert reranker.scores("who", PASSAGES).tolist() == [3.0, 1.0, 2.0]
    assert rerank_server.requests == [
        {"query": "who", "documents": PASSAGES, "top_n": 3, "model": "m"}
    ]
    assert known_servers(project.path) == [rerank_server.url]
    assert reranker.scores("who", []).shape == (0,)
    many = ["x" * length for length in range(70)]
    assert reranker_at(project, rerank_server.url + "/rerank").scores("who", many).tolist() == list(
        range(70)
    )
    assert [len(request["documents"]) for request in rerank_server.requests[1:]] == [32, 32, 6]
    assert "model" not in rerank_server.requests[1]


def test_another_model_or_address_is_another_reranker(project: ProjectFolder) -> None:
    url = "http://127.0.0.1:9/v1"
    names = [
        reranker_at(project, url),
        reranker_at(project, url, reranker_model="m"),
        reranker_at(project, "http://127.0.0.1:8/v1"),
    ]
    assert len({reranker.fingerprint for reranker in names}) == 3
    assert reranker_of(project, validate({})) is None


def test_requests_lost_on_the_way_are_sent_again(
    rerank_server: RerankServer, project: ProjectFolder
) -> None:
    with spoiling(rerank_server.url, [DROP, ERROR, CUT, DELAY]) as proxy:
        assert reranker_at(project, proxy.url).scores("who", PASSAGES).tolist() == [3.0, 1.0, 2.0]
    assert proxy.met == [DROP, ERROR, CUT, DELAY]


@pytest.mark.parametrize(
    ("results", "code"),
    [
        ([(0, 1.0), (1, 2.0)], "endpoint-count"),
        ([(0, 1.0), (1, 2.0), (2, 3.0), (2, 3.0)], "endpoint-count"),
        ([(0, 1.0), (1, 2.0), (3, 3.0)], "endpoint-index"),
        ([(0, 1.0), (1, 2.0), (1, 3.0)], "endpoint-index"),
        ([(0, 1.0), (1, float("nan")), (2, 3.0)], "scores-not-finite"),
        ([(0, 1.0), (1, 1e300), (2, 3.0)], "scores-not-finite"),
    ],
)
def test_scores_that_cannot_be_used(
    rerank_server: RerankServer, project: ProjectFolder, results: list[tuple[int, float]], code: str
) -> None:
    rerank_server.script = lambda *_: results
    with fails(EngineError, code):
        reranker_at(project, rerank_server.url).scores("who", PASSAGES)
    assert len(rerank_server.requests) == 1, "another try would bring the same"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"results": 3}',
        b'{"results": [{"index": 0}]}',
        b'{"data": []}',
        b'{"results": [{"index": 0.5, "relevance_score": 1}]}',
    ],
)
def test_what_is_no_answer_is_asked_for_again(
    rerank_server: RerankServer, project: ProjectFolder, body: bytes
) -> None:
    rerank_server.script = lambda *_: Raw(body=body)
    with fails(StageError, "endpoint-no-answer"):
        reranker_at(project, rerank_server.url).scores("who", PASSAGES)
    assert len(rerank_server.requests) == model_server.TRIES


def test_a_refusal_is_not_repeated(rerank_server: RerankServer, project: ProjectFolder) -> None:
    rerank_server.script = lambda *_: Raw(404, b"who and bbb are secret")
    with fails(ModelError, "endpoint-refused") as caught:
        reranker_at(project, rerank_server.url).scores("who", PASSAGES)
    assert "secret" not in str(caught.value)
    assert len(rerank_server.requests) == 1


@pytest.mark.parametrize("fault", [HALF_OPEN, "silent"])
def test_a_silent_server_is_waited_for_no_longer_than_the_time(
    rerank_server: RerankServer, project: ProjectFolder, fault: str
) -> None:
    never = threading.Event()
    if fault == "silent":
        rerank_server.script = lambda *_: Raw(wait=never)
    with (
        spoiling(rerank_server.url, [fault] * 5 if fault == HALF_OPEN else []) as proxy,
        fails(StageError, "endpoint-no-answer"),
    ):
        reranker_at(project, proxy.url).scores("who", PASSAGES, 0.2)
    assert len(proxy.met) == 1, "there is no time for another try"
    never.set()


@pytest.mark.parametrize(("took", "requests"), [(0.2, 4), (0.6, 2), (1.0, 1)])
def test_requests_share_the_time(
    rerank_server: RerankServer,
    project: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    took: float,
    requests: int,
) -> None:
    clock = [100.0]
    given = list[float]()
    ask = model_server.ModelServer.ask

    def timed(*arguments: Any, within: float) -> Any:
        given.append(within)
        found = ask(*arguments, within=60.0)
        clock[0] += took
        return found

    monkeypatch.setattr("engine.reranking.server.monotonic", lambda: clock[0])
    monkeypatch.setattr(
        model_server.ModelServer,
        "ask",
        timed,
    )
    passages = ["x" * length for length in range(100)]
    if requests == 4:
        assert reranker_at(project, rerank_server.url).scores(
            "who", passages, 1.0
        ).tolist() == list(range(100))
    else:
        with fails(EngineError, "reranker-slow"):
            reranker_at(project, rerank_server.url).scores("who", passages, 1.0)
    assert len(rerank_server.requests) == requests
    assert given == pytest.approx([1.0 - took * number for number in range(requests)])


def test_a_dead_server(project: ProjectFolder, rerank_server: RerankServer) -> None:
    with fails(StageError, "endpoint-no-answer"):
        reranker_at(project, "http://127.0.0.1:9/v1").scores("who", PASSAGES)


def test_a_public_address_is_refused_unless_it_is_allowed(project: ProjectFolder) -> None:
    with fails(SettingsError, "endpoint-public"):
        reranker_at(project, "http://8.8.8.8/v1")
    assert (
        reranker_at(project, "http://8.8.8.8/v1", reranker_allow_public=True).name
        == "http://8.8.8.8:80/v1"
    )


@contextmanager
def reading_only(folder: Path) -> Iterator[None]:
    """As a user who may not write into a folder: root becomes another one."""
    folder.chmod(0o555)
    former = os.geteuid()
    if former == 0:
        os.seteuid(64_001)
    try:
        yield
    finally:
        os.seteuid(former)
        folder.chmod(0o700)


@pytest.mark.posix(reason="modes of files")
def test_who_may_only_read_sends_nothing_to_a_server_that_its_owner_has_not_used(
    rerank_server: RerankServer,
) -> None:
    with tempfile.TemporaryDirectory() as name, reranking() as other:
        Path(name).chmod(0o755)
        project = ProjectFolder.create(Path(name) / "project", {})
        used = reranker_at(project, rerank_server.url)
        unused = reranker_at(project, other.url)
        used.scores("who", PASSAGES)
        (project.path / "servers.json").chmod(0o644)
        model = chat_model(
            other.url,
            "m",
            note=lambda: note_server(project.path, other.url),
        )
        with reading_only(project.path):
            assert used.scores("who", PASSAGES).tolist() == [3.0, 1.0, 2.0]
            with fails(EngineError, "server-not-noted"):
                unused.scores("who", PASSAGES)
            with fails(EngineError, "server-not-noted"):
                model.complete(Request(Message("system", "user"), PAIRS, 2, 100, 5))
        assert other.requests == []
        assert known_servers(project.path) == [rerank_server.url]
        assert unused.scores("who", PASSAGES).tolist() == [3.0, 1.0, 2.0]
