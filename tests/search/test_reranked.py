"""Hits that a reranker has put in order: how many, by whose decision, and what happens where it
fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.fake_endpoint import Raw
from fixtures.found import ids
from fixtures.rerank_server import RerankServer
from fixtures.tiny_cross_encoder import build_cross_encoder

from engine.core.disk import write_text
from engine.core.errors import UsageError
from engine.core.messages.search import Found, Search
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo, RerankerInfo
from engine.project.store.artifacts import Artifact
from engine.search.searcher import Searcher

QUERY = "who repairs the roof"


@dataclass
class Lengths:
    """A reranker that puts long passages first. `wait`: what loading waits for."""

    name: str = "lengths"
    fingerprint: str = "lengths"
    batch_share: float = 1.0
    first_batch: int = 4
    wait: threading.Event | None = None
    queries: list[str] = field(default_factory=list)
    loads: int = 0

    def load(self) -> None:
        self.loads += 1
        if self.wait:
            self.wait.wait(60)

    def scores(
        self,
        query: str,
        passages: Sequence[str],
        seconds: float = inf,
    ) -> np.ndarray:
        self.queries.append(query)
        return np.array([len(text) for text in passages], np.float32)


def configure(project: ProjectFolder, **search: Any) -> None:
    lines = "".join(f"{name} = {value!r}\n" for name, value in search.items())
    write_text(project.path / "project.toml", f'[encoder]\ndevice = "cpu"\n[search]\n{lines}')


def decide(
    project: ProjectFolder,
    *,
    in_use: bool = True,
    fingerprint: str = "lengths",
    mode: str = "hybrid",
    seconds: float = 1.0,
) -> None:
    """What an evaluation leaves behind."""
    store = project.store()
    info = EvaluationInfo(reranker=RerankerInfo(in_use, "", fingerprint, mode, seconds))
    store.put_artifact(Artifact(info, "e", "reports/e"))
    store.close()


@pytest.fixture
def lengths(monkeypatch: pytest.MonkeyPatch) -> Lengths:
    made = Lengths()
    monkeypatch.setattr("engine.reranking.chosen.reranker_of", lambda *_: made)
    return made


def passages(found: Found) -> int:
    assert found.reranked is not None
    return found.reranked.passages


def test_without_a_reranker_nothing_is_reranked(searcher: Searcher) -> None:
    found = searcher.search(Search(QUERY))
    assert (found.reranked, found.can_rerank) == (None, False)
    assert all(hit.rerank_score is None for hit in found.hits)
    with fails(UsageError, "reranker-not-chosen"):
        searcher.search(Search(QUERY, rerank=True))


def test_all_passages_are_put_in_order(
    searcher: Searcher, project: ProjectFolder, lengths: Lengths
) -> None:
    before = searcher.search(Search(QUERY))
    configure(project, reranker="given")
    found = searcher.search(Search(QUERY, rerank=True))
    scores = [hit.rerank_score or 0.0 for hit in found.hits]
    assert scores == sorted((len(hit.snippet) for hit in before.hits), reverse=True)
    assert passages(found) == len(before.hits) == 6
    assert sorted(ids(found)) == sorted(ids(before)) != ids(found)
    assert [hit.rank for hit in found.hits] == [1, 2, 3, 4, 5, 6]
    assert {hit.chunk_id: hit.score for hit in found.hits} == {
        hit.chunk_id: hit.score for hit in before.hits
    }
    assert set(lengths.queries) == {QUERY}


def test_passages_that_are_not_reached_follow_in_their_order(
    searcher: Searcher, project: ProjectFolder, lengths: Lengths
) -> None:
    before = ids(searcher.search(Search(QUERY)))
    configure(project, reranker="given")
    found = searcher.search(Search(QUERY, rerank=True), stop=lambda: len(lengths.queries) == 1)
    assert passages(found) == 4
    assert ids(found)[4:] == before[4:]
    assert sorted(ids(found)[:4]) == sorted(before[:4])
    assert [hit.rerank_score is None for hit in found.hits] == [False] * 4 + [True] * 2


@pytest.mark.parametrize(
    ("chosen", "mode", "used"),
    [
        ({}, "hybrid", True),
        ({}, "bm25", False),
        ({"mode": "semantic"}, "semantic", True),
        ({"mode": "semantic"}, "hybrid", False),
        ({"in_use": False}, "hybrid", False),
        ({"fingerprint": "another"}, "hybrid", False),
        ({"seconds": 2.0}, "hybrid", False),
        ({"seconds": 0.0}, "hybrid", False),
    ],
)
def test_evaluation_puts_it_into_use(
    searcher: Searcher,
    project: ProjectFolder,
    lengths: Lengths,
    chosen: dict[str, Any],
    mode: Any,
    used: bool,
) -> None:
    configure(project, reranker="given")
    decide(project, **chosen)
    found = searcher.search(Search(QUERY, mode))
    assert (found.reranked is not None) == used
    assert not found.can_rerank
    first = searcher.search(Search(QUERY, mode, rerank=False))
    assert (first.reranked, first.can_rerank) == (None, used or "fingerprint" in chosen)
    assert searcher.search(Search(QUERY, mode, rerank=True)).reranked is not None
    assert searcher.search(Search(QUERY, mode, by_date=True)).reranked is None


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "bm25"])
@pytest.mark.parametrize(("rerank", "used"), [("on", True), ("off", False)])
def test_the_setting_stands_above_the_evaluation(
    searcher: Searcher,
    project: ProjectFolder,
    lengths: Lengths,
    rerank: str,
    used: bool,
    mode: Any,
) -> None:
    configure(
        project,
        reranker="given",
        rerank=rerank,
    )
    decide(project, in_use=not used)
    assert (searcher.search(Search(QUERY, mode)).reranked is not None) == used
    first = searcher.search(Search(QUERY, mode, rerank=False))
    assert (first.reranked, first.can_rerank) == (None, used)
    assert searcher.search(Search(QUERY, mode, rerank=True)).reranked is not None
    assert searcher.may_rerank(mode) == used


def test_on_without_a_reranker_changes_nothing(searcher: Searcher, project: ProjectFolder) -> None:
    configure(project, rerank="on")
    found = searcher.search(Search(QUERY))
    assert (found.reranked, searcher.may_rerank("hybrid")) == (None, False)


def test_its_speed_is_measured_on_passages_of_the_project(
    searcher: Searcher, project: ProjectFolder, lengths: Lengths
) -> None:
    with fails(UsageError, "reranker-not-chosen"):
        searcher.reranking.measure_speed()
    configure(
        project,
        reranker="given",
        rerank_seconds=2.0,
    )
    speed = searcher.reranking.measure_speed()
    assert (speed.name, speed.passages) == ("lengths", 100)
    assert speed.seconds == pytest.approx(100 / speed.passages_per_second)
    assert len(lengths.queries) == 1


def test_first_hits_do_not_wait_for_a_look_at_the_model(
    searcher: Searcher, project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks: list[Path] = []

    def look(path: Path) -> str:
        looks.append(path)
        return "0"

    monkeypatch.setattr("engine.reranking.folder.remembered_sha256", look)
    configure(project, reranker=str(build_cross_encoder(tmp_path / "reranker")))
    decide(project, fingerprint="another")
    assert searcher.search(Search(QUERY, rerank=False)).can_rerank
    assert looks == []
    assert searcher.search(Search(QUERY)).reranked is None
    assert looks


def test_before_an_evaluation_it_is_not_in_use(
    searcher: Searcher, project: ProjectFolder, lengths: Lengths
) -> None:
    configure(project, reranker="given")
    assert searcher.search(Search(QUERY)).reranked is None


def test_a_model_is_loaded_once_and_not_waited_for_by_whom_another_search_waits(
    searcher: Searcher, project: ProjectFolder, lengths: Lengths
) -> None:
    configure(project, reranker="given")
    lengths.wait = threading.Event()
    found = searcher.search(Search(QUERY, rerank=True), stop=lambda: True)
    assert (passages(found), len(found.hits)) == (0, 6)
    lengths.wait.set()
    assert passages(searcher.search(Search(QUERY, rerank=True))) == 6


def test_each_reranker_is_loaded_before_its_time_runs(
    searcher: Searcher, project: ProjectFolder, lengths: Lengths
) -> None:
    for count in range(1, 11):
        configure(
            project,
            reranker="given",
            rerank_seconds=float(count),
        )
        assert passages(searcher.search(Search(QUERY, rerank=True))) == 6
        assert passages(searcher.search(Search(QUERY, rerank=True))) == 6
        assert lengths.loads == count


def test_other_settings_of_search_do_not_load_it_again(
    searcher: Searcher, project: ProjectFolder, lengths: Lengths
) -> None:
    for top in (3, 4):
        configure(
            project,
            reranker="given",
            top=top,
        )
        assert len(searcher.search(Search(QUERY, rerank=True)).hits) == top
    assert lengths.loads == 1


def test_a_real_cross_encoder_orders_the_hits(
    searcher: Searcher, project: ProjectFolder, tmp_path: Path
) -> None:
    from sentence_transformers import CrossEncoder

    folder = build_cross_encoder(tmp_path / "reranker")
    configure(
        project,
        reranker=str(folder),
        rerank_seconds=60.0,
    )
    found = searcher.search(Search(QUERY, rerank=True))
    oracle = CrossEncoder(
        str(folder),
        device="cpu",
        local_files_only=True,
    )
    wanted = oracle.predict([(QUERY, hit.snippet) for hit in found.hits])
    assert passages(found) == 6
    assert np.argsort(-wanted).tolist() == list(range(6))


def test_a_server_orders_the_hits(
    searcher: Searcher, project: ProjectFolder, rerank_server: RerankServer
) -> None:
    configure(
        project,
        reranker=rerank_server.url,
        rerank_seconds=60.0,
    )
    found = searcher.search(Search(QUERY, rerank=True))
    assert passages(found) == 6
    assert [hit.rerank_score for hit in found.hits] == sorted(
        (len(hit.snippet) for hit in found.hits), reverse=True
    )


def broken(rerank_server: RerankServer, fault: str) -> None:
    never = threading.Event()
    scripts: dict[str, Callable[[int, list[str]], Any]] = {
        "count": lambda _, texts: [(0, 1.0)],
        "nan": lambda _, texts: [(place, float("nan")) for place in range(len(texts))],
        "delay": lambda *_: Raw(wait=never),
        "death": lambda *_: Raw(500),
        "refusal": lambda *_: Raw(401),
    }
    rerank_server.script = scripts[fault]


@pytest.mark.parametrize(
    ("fault", "seconds", "code"),
    [
        ("count", 60.0, "endpoint-count"),
        ("nan", 60.0, "scores-not-finite"),
        ("delay", 0.3, "endpoint-no-answer"),
        ("death", 0.3, "endpoint-no-answer"),
        ("refusal", 60.0, "endpoint-refused"),
    ],
)
def test_a_failing_reranker_leaves_the_former_hits_and_says_why(
    searcher: Searcher,
    project: ProjectFolder,
    rerank_server: RerankServer,
    fault: str,
    seconds: float,
    code: str,
) -> None:
    before = searcher.search(Search(QUERY))
    broken(rerank_server, fault)
    configure(
        project,
        reranker=rerank_server.url,
        rerank_seconds=seconds,
    )
    found = searcher.search(Search(QUERY, rerank=True))
    assert ids(found) == ids(before)
    assert passages(found) == 0
    assert found.reranked is not None
    assert found.reranked.problem is not None
    assert found.reranked.problem.code == code
    assert len(found.notes) == 1


def test_a_server_that_dies_in_between_leaves_what_it_has_scored(
    searcher: Searcher, project: ProjectFolder, rerank_server: RerankServer
) -> None:
    before = ids(searcher.search(Search(QUERY)))
    good = rerank_server.script
    rerank_server.script = lambda number, texts: good(number, texts) if number == 0 else Raw(500)
    configure(
        project,
        reranker=rerank_server.url,
        rerank_seconds=5.0,
    )
    found = searcher.search(Search(QUERY, rerank=True))
    assert passages(found) == 4
    assert ids(found)[4:] == before[4:]
    assert len(found.notes) == 1


@pytest.mark.parametrize("named", ["nowhere", "http://8.8.8.8/v1"])
def test_one_that_cannot_be_used_is_a_note(
    searcher: Searcher, project: ProjectFolder, named: str
) -> None:
    configure(project, reranker=named)
    decide(project, fingerprint="x")
    found = searcher.search(Search(QUERY))
    assert len(found.hits) == 6
    assert found.reranked is not None
    assert found.reranked.problem is not None
    assert found.reranked.problem.code in ("cross-encoder-invalid", "endpoint-public")
    assert searcher.search(Search(QUERY, rerank=False)).notes == ()
