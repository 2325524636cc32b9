"""A served project whose encoder cannot be loaded."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest

from engine.assistants.served import LOADING, ServedProject
from engine.core.errors import EngineError
from engine.core.messages.search import Search
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import VectorsInfo
from engine.project.store.artifacts import Artifact
from engine.search.searcher import Searcher


def test_two_threads_load_an_encoder_once(handbook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer that loads it ahead, and a first search."""
    loads: list[object] = []

    def begin(_pool: ThreadPoolExecutor, load: object) -> Future[None]:
        loads.append(load)
        time.sleep(0.2)
        return Future()

    with closing(ServedProject(ProjectFolder(handbook), "handbook")) as served:
        monkeypatch.setattr(ThreadPoolExecutor, "submit", begin)
        threads = [Thread(target=served.load) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(loads) == 1


def test_an_encoder_that_cannot_be_loaded_is_named_with_what_to_do(handbook: Path) -> None:
    """Of a project that is searched by meaning alone: hybrid search says so itself."""
    project = ProjectFolder(handbook)
    project.change_settings({"search.mode": "semantic"})
    with closing(project.store()) as store:
        store.put_artifact(Artifact(VectorsInfo(model="/gone", dimension=4), "v", "vectors/v"))
    (handbook / "vectors" / "v").mkdir(parents=True)
    with closing(Searcher(project)) as searcher, pytest.raises(EngineError) as caught:
        searcher.search(Search("roof", "semantic"))
    with closing(ServedProject(project, "handbook")) as served:
        assert served.search(Search("roof")).notes[-1] == LOADING
        deadline = time.monotonic() + 120
        while (found := served.search(Search("roof"))).notes[-1] == LOADING:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert found.hits
    assert caught.value.what in found.notes[-1]
    assert caught.value.to_do in found.notes[-1]
