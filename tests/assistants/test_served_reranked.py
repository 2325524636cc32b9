"""In which thread a search of an assistant is reranked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import inf
from pathlib import Path

import numpy as np
import pytest

from engine.assistants.served import ServedProject
from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import EvaluationInfo, RerankerInfo
from engine.project.store.artifacts import Artifact


class Threads:
    """A reranker that notes who computes with it."""

    name = "threads"
    fingerprint = "f"
    batch_share = 1.0
    first_batch = 4

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def load(self) -> None:
        pass

    def scores(
        self,
        query: str,
        passages: Sequence[str],
        seconds: float = inf,
    ) -> np.ndarray:
        self.seen.add(threading.current_thread().name)
        return np.array([len(text) for text in passages], np.float32)


@pytest.mark.parametrize("decided", ["bm25", "hybrid"])
def test_keyword_searches_are_reranked_in_the_thread_of_models_alone(
    handbook: Path, monkeypatch: pytest.MonkeyPatch, decided: str
) -> None:
    reranker = Threads()
    monkeypatch.setattr("engine.reranking.chosen.reranker_of", lambda *_: reranker)
    folder = ProjectFolder.open(handbook)
    folder.change_settings({"search.mode": "bm25", "search.reranker": "given"})
    store = folder.store()
    store.put_artifact(
        Artifact(
            EvaluationInfo(reranker=RerankerInfo(True, "", "f", decided, 1.0)), "e", "reports/e"
        )
    )
    store.close()
    served = ServedProject(folder, "handbook")
    found = served.search(Search("roof"))
    served.facets("roof")
    served.close()
    assert {hit.path for hit in found.hits} == {"contracts/lease.md", "reports/wing #1.txt"}
    assert (found.reranked is not None) == (decided == "bm25")
    assert len(reranker.seen) == (decided == "bm25")
    assert threading.current_thread().name not in reranker.seen
