"""Where semantic search encodes otherwise than hybrid search: a second index, or a second
encoder of queries on the first.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import numpy as np
import pytest
from fixtures.errors import fails
from fixtures.pipeline import WAIT_SECONDS, engine_here, environment, import_path, stage_here
from fixtures.shown_numbers import numbers
from fixtures.two_encoders import (
    BASE,
    ON_BOTH,
    ON_QUERIES,
    OTHER,
    QUERY,
    Embedded,
    artifact_of,
    choose,
    embed,
    embedded,
    similarities,
    two_encoders,
    two_encoders_built,
    vector_folders,
)

from engine.core.errors import DamagedError, ResourceError
from engine.core.messages.search import Search
from engine.core.text import approximate_duration
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import InUseInfo, SemanticVectorsInfo, VectorsInfo
from engine.project.store.artifacts import INCOMPLETE
from engine.runs import pipeline
from engine.runs.pipeline import load_stage, stage_status
from engine.search.loaded import LoadedProject
from engine.search.searcher import Searcher

__all__ = ["embedded", "two_encoders", "two_encoders_built"]


def scores_of(project: ProjectFolder, mode: Any) -> dict[int, float]:
    """What an index of a mode gives for a query, by chunk."""
    with closing(LoadedProject(project)) as loaded:
        _, index, vector = loaded.query_vector(QUERY, mode)
        ids, scores = index.search(vector, 100)
    return dict(zip(ids.tolist(), scores.tolist(), strict=True))


def state_of(project: ProjectFolder) -> str:
    with closing(project.store()) as store:
        return stage_status(ProjectSnapshot(project, project.settings(), store), "embed").state


def check(project: ProjectFolder) -> None:
    """Look into the files of the stage. Raises DamagedError."""
    with closing(project.store()) as store:
        load_stage("embed").verify(ProjectSnapshot(project, project.settings(), store))


def sweep(project: ProjectFolder) -> None:
    with closing(project.store()) as store:
        project.sweep(pipeline.find_folders_in_use(store))


@contextmanager
def second_fails(monkeypatch: pytest.MonkeyPatch, error: Exception) -> Iterator[None]:
    """Whatever writes the second index fails."""
    building = ProjectFolder.building

    def refuse(self: ProjectFolder, root: str, name: str) -> Any:
        if name.endswith("-semantic"):
            raise error
        return building(self, root, name)

    with monkeypatch.context() as patch:
        patch.setattr(ProjectFolder, "building", refuse)
        yield


@pytest.mark.parametrize(
    ("semantic", "hybrid", "shared"),
    [
        (ON_BOTH, BASE, False),
        (ON_QUERIES, BASE, True),
        (BASE, ON_QUERIES, True),
        (OTHER, ON_BOTH, False),
    ],
    ids=["both sides", "queries", "base for semantic search", "two adapters"],
)
def test_each_mode_compares_by_its_own_encoder(
    two_encoders: ProjectFolder, semantic: InUseInfo, hybrid: InUseInfo, shared: bool
) -> None:
    choose(two_encoders, semantic, hybrid)
    summary = embed(two_encoders)
    second = artifact_of(two_encoders, SemanticVectorsInfo)
    assert second is not None
    assert second.info.shared == shared
    assert summary["embedded"] == 4 if shared else 8
    for mode, chosen in (("semantic", semantic), ("hybrid", hybrid)):
        scores = scores_of(two_encoders, mode)
        expected = similarities(two_encoders, chosen, QUERY)
        assert scores.keys() == expected.keys()
        np.testing.assert_allclose(
            [scores[key] for key in expected], [*expected.values()], atol=2e-3
        )
    assert scores_of(two_encoders, "semantic") != scores_of(two_encoders, "hybrid")
    check(two_encoders)
    assert state_of(two_encoders) == "done"


@pytest.mark.parametrize(("semantic", "announced"), [(ON_BOTH, 1), (ON_QUERIES, 0)])
def test_disk_and_time_of_a_second_index_are_said_before_it_is_made(
    two_encoders: ProjectFolder, semantic: InUseInfo, announced: int
) -> None:
    choose(two_encoders, semantic, BASE)
    completed = engine_here(
        "embed",
        str(two_encoders.path),
        "--force",
        "--json",
    )
    events = [json.loads(line) for line in completed.stdout.splitlines()]
    reasons = [
        event["reason"]
        for event in events
        if event["event"] == "choice" and event["setting"] == "index"
    ]
    assert len(reasons) == announced
    for reason in reasons:
        assert numbers(reason) == [4, 1], "chunks and megabytes"
        assert approximate_duration(1) in reason


def test_one_encoder_has_one_index(two_encoders: ProjectFolder) -> None:
    choose(two_encoders, ON_BOTH, ON_BOTH)
    embed(two_encoders)
    assert artifact_of(two_encoders, SemanticVectorsInfo) is None
    assert len(vector_folders(two_encoders)) == 1
    assert scores_of(two_encoders, "semantic") == scores_of(two_encoders, "hybrid")


@pytest.mark.warm
@pytest.mark.parametrize("moment", ["building", "publishing"])
@pytest.mark.posix(reason="SIGKILL")
def test_a_kill_between_the_two_leaves_the_first_to_search_with(
    two_encoders: ProjectFolder, moment: str
) -> None:
    choose(two_encoders, ON_BOTH, BASE)
    completed = subprocess.run(
        [sys.executable, "-c", KILLED[moment], str(two_encoders.path)],
        env={**environment(), "PYTHONPATH": import_path()},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert completed.returncode == -signal.SIGKILL, completed.stderr
    first = artifact_of(two_encoders, VectorsInfo)
    assert first is not None
    assert (first.fingerprint, first.info.chunks) == (INCOMPLETE, 4)
    assert state_of(two_encoders) == "stale"
    expected = similarities(two_encoders, BASE, QUERY)
    for mode in ("semantic", "hybrid"):
        np.testing.assert_allclose(
            sorted(scores_of(two_encoders, mode).values()), sorted(expected.values()), atol=2e-3
        )
    with closing(Searcher(two_encoders)) as searcher:
        assert len(searcher.search(Search(QUERY, "semantic")).hits) == 4
    assert embed(two_encoders)["embedded"] == (4 if moment == "building" else 0), (
        "the first is not embedded again"
    )
    sweep(two_encoders)
    assert state_of(two_encoders) == "done"
    assert len(vector_folders(two_encoders)) == 2
    adapted = similarities(two_encoders, ON_BOTH, QUERY)
    np.testing.assert_allclose(
        sorted(scores_of(two_encoders, "semantic").values()), sorted(adapted.values()), atol=2e-3
    )


_KILL = """
import os, signal, sys
from pathlib import Path
from fixtures.pipeline import stage_here
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import SemanticVectorsInfo
from engine.project.store.store import Store
def kill(): os.kill(os.getpid(), signal.SIGKILL)
"""
KILLED = {
    "building": _KILL
    + """
building = ProjectFolder.building
def killed(self, root, name): return kill() if name.endswith("-semantic") else building(self, root, name)
ProjectFolder.building = killed
stage_here(Path(sys.argv[1]), "embed")
""",  # noqa: E501
    "publishing": _KILL
    + """
put = Store.put_artifact
def killed(self, artifact, **named):
    return kill() if isinstance(artifact.info, SemanticVectorsInfo) else put(self, artifact, **named)
Store.put_artifact = killed
stage_here(Path(sys.argv[1]), "embed")
""",  # noqa: E501
}


def searcher_scores(result: Any) -> dict[int, float]:
    return {hit.chunk_id: hit.rankers["semantic"].score for hit in result.hits}


@pytest.mark.parametrize("gone", ["cut", "missing"])
def test_a_damaged_second_index_is_built_again_and_search_answers_meanwhile(
    embedded: Embedded, gone: str
) -> None:
    project = embedded(ON_BOTH, BASE)
    second = artifact_of(project, SemanticVectorsInfo)
    first = artifact_of(project, VectorsInfo)
    assert second is not None
    assert first is not None
    folder = project.path / second.folder
    if gone == "cut":
        next(folder.glob("part-*.vec")).write_bytes(b"")
    else:
        folder.rename(folder.with_name(".tmp-moved"))
    with pytest.raises(DamagedError):
        check(project)
    expected = similarities(project, BASE, QUERY)
    for mode in ("semantic", "hybrid"):
        np.testing.assert_allclose(
            sorted(scores_of(project, mode).values()), sorted(expected.values()), atol=2e-3
        )
    with closing(Searcher(project)) as searcher:
        result = searcher.search(Search(QUERY, "semantic"))
        assert len(result.hits) == 4
        assert result.commands == ("embed",)
        assert embed(project)["embedded"] == 0
        repaired = searcher.search(Search(QUERY, "semantic"))
    assert repaired.commands == ()
    assert searcher_scores(repaired) != searcher_scores(result), (
        "the repaired index is used without a new start"
    )
    check(project)
    adapted = similarities(project, ON_BOTH, QUERY)
    np.testing.assert_allclose(
        sorted(scores_of(project, "semantic").values()), sorted(adapted.values()), atol=2e-3
    )


def test_back_to_one_encoder_the_second_index_goes(embedded: Embedded) -> None:
    project = embedded(ON_BOTH, BASE)
    sweep(project)
    assert len(vector_folders(project)) == 2
    choose(project, ON_BOTH, ON_BOTH)
    assert state_of(project) == "stale"
    assert embed(project)["embedded"] == 0, "what the second index holds is not embedded again"
    sweep(project)
    assert artifact_of(project, SemanticVectorsInfo) is None
    assert len(vector_folders(project)) == 1
    expected = similarities(project, ON_BOTH, QUERY)
    for mode in ("semantic", "hybrid"):
        np.testing.assert_allclose(
            sorted(scores_of(project, mode).values()), sorted(expected.values()), atol=2e-3
        )


@pytest.mark.parametrize(
    ("former", "semantic", "hybrid"),
    [(ON_BOTH, ON_BOTH, BASE), (BASE, OTHER, ON_BOTH)],
    ids=["it stays as it was", "it has its own later"],
)
def test_semantic_search_keeps_its_encoder_while_another_index_becomes_the_first(
    two_encoders: ProjectFolder,
    monkeypatch: pytest.MonkeyPatch,
    former: InUseInfo,
    semantic: InUseInfo,
    hybrid: InUseInfo,
) -> None:
    choose(two_encoders, former, former)
    embed(two_encoders)
    choose(two_encoders, semantic, hybrid)
    error = ResourceError("The disk is full.", code="disk-full")
    with second_fails(monkeypatch, error), fails(ResourceError, "disk-full"):
        embed(two_encoders)
    sweep(two_encoders)
    check_scores(two_encoders, former, hybrid)
    assert state_of(two_encoders) == "stale"
    assert embed(two_encoders)["embedded"] == (0 if semantic == former else 4)
    assert state_of(two_encoders) == "done"
    check_scores(two_encoders, semantic, hybrid)


def check_scores(
    project: ProjectFolder,
    semantic: InUseInfo,
    hybrid: InUseInfo,
) -> None:
    """Each mode finds what these encoders, loaded by hand, find."""
    for mode, chosen in (("semantic", semantic), ("hybrid", hybrid)):
        expected = similarities(project, chosen, QUERY)
        scores = scores_of(project, mode)
        np.testing.assert_allclose(
            [scores[key] for key in expected], [*expected.values()], atol=2e-3
        )


def test_an_adapter_on_queries_alone_copies_no_vectors(two_encoders: ProjectFolder) -> None:
    choose(two_encoders, ON_QUERIES, BASE)
    embed(two_encoders)
    second = artifact_of(two_encoders, SemanticVectorsInfo)
    assert second is not None
    assert {path.name for path in (two_encoders.path / second.folder).iterdir()} == {
        "query-encoder"
    }


def chunk_rows(project: ProjectFolder) -> set[int]:
    """The ids of all chunks in the database, superseded ones included."""
    with closing(sqlite3.connect(project.path / "project.db")) as database:
        return {row for (row,) in database.execute("SELECT id FROM chunks")}


def change_documents(project: ProjectFolder) -> None:
    """One document changes, one goes, one comes."""
    documents = project.path / "documents"
    (documents / "lease.md").write_text(
        "# Lease\n\nThe tenant repairs the roof of the hall and pays no rent.\n"
    )
    (documents / "loan.md").unlink()
    (documents / "pump.md").write_text("# Pump\n\nThe pump of the hall failed on Monday.\n")
    for stage in ("ingest", "index"):
        stage_here(project.path, stage)


def test_changed_documents_are_added_to_both_indexes(embedded: Embedded) -> None:
    project = embedded(ON_BOTH, BASE)
    change_documents(project)
    assert embed(project)["embedded"] == 4, "two new chunks by each encoder"
    for mode, chosen in (("semantic", ON_BOTH), ("hybrid", BASE)):
        scores = scores_of(project, mode)
        expected = similarities(project, chosen, QUERY)
        assert scores.keys() == expected.keys()
        np.testing.assert_allclose(
            [scores[key] for key in expected], [*expected.values()], atol=2e-3
        )


def test_chunks_that_the_second_index_still_names_are_kept_until_it_is_made(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = embedded(ON_BOTH, BASE)
    change_documents(project)
    error = ResourceError("The disk is full.", code="disk-full")
    with second_fails(monkeypatch, error), fails(ResourceError, "disk-full"):
        embed(project)
    with closing(project.store()) as store:
        live = {key[0] for key in store.chunk_keys()}
    former = {*scores_of(project, "semantic")}
    assert len(former - live) == 2
    assert former <= chunk_rows(project)
    embed(project)
    assert chunk_rows(project) == live


def test_a_full_disk_while_the_second_is_made_leaves_both_modes(
    two_encoders: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose(two_encoders, ON_BOTH, BASE)
    error = ResourceError("The disk is full.", code="disk-full")
    with second_fails(monkeypatch, error), fails(ResourceError, "disk-full"):
        embed(two_encoders)
    with closing(Searcher(two_encoders)) as searcher:
        for mode in ("semantic", "hybrid"):
            assert searcher.search(Search(QUERY, mode)).hits
    assert not [
        path for path in (two_encoders.path / "vectors").iterdir() if path.name.startswith(".tmp")
    ]
    assert embed(two_encoders)["embedded"] == 4


def test_an_adapter_of_the_second_index_is_not_swept(embedded: Embedded) -> None:
    project = embedded(ON_BOTH, BASE)
    choose(project, OTHER, BASE)  # evaluated, not embedded yet
    sweep(project)
    assert (project.path / "adapters" / "first").is_dir()
    assert (project.path / "adapters" / "second").is_dir()
    np.testing.assert_allclose(
        sorted(scores_of(project, "semantic").values()),
        sorted(similarities(project, ON_BOTH, QUERY).values()),
        atol=2e-3,
    )
