from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.pipeline import ingest_here

from engine.core.errors import (
    DatasetError,
    NotBuiltError,
    ProjectBusyError,
    ResourceError,
    UsageError,
)
from engine.core.messages.report import SEARCH_MODES, QuerySetReport, SearchMode
from engine.core.records import Chunk
from engine.evaluation import marks
from engine.evaluation.comparison import Comparison, compare
from engine.evaluation.gate.decision import Decision
from engine.evaluation.judgments import judge_queries, judgments_fingerprint
from engine.evaluation.selection import ModeSelection
from engine.evaluation.stage import STAGE
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import EvaluationInfo, InUseInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.store import Store
from engine.service import methods

QUERY = "what went wrong at night"


def chunks(project: ProjectFolder) -> list[Chunk]:
    store = project.store()
    try:
        return store.chunks()
    finally:
        store.close()


def right_chunks(project: ProjectFolder) -> list[set[int]]:
    """What the evaluation takes for right, for every judged query."""
    store = project.store()
    try:
        judgments = judge_queries(
            store.judged(),
            store.chunks(),
            store.documents(with_text=True),
        )
    finally:
        store.close()
    return [set(judgment.grades) for judgment in judgments]


def test_marks_and_what_the_evaluation_makes_of_them(project: ProjectFolder, call: Any) -> None:
    first, second, third = chunks(project)[:3]
    assert call("judge", query=QUERY, chunk_id=first.id, relevant=False) == {"judged_queries": 0}
    assert right_chunks(project) == []
    assert call("judge", query=QUERY.upper() + " ", chunk_id=second.id, relevant=True) == {
        "judged_queries": 1
    }
    assert call("judge", query=QUERY, chunk_id=third.id, relevant=True) == {"judged_queries": 1}
    assert right_chunks(project) == [{second.id, third.id}]
    relevance = {
        str(first.id): False,
        str(second.id): True,
        str(third.id): True,
    }
    assert call("judgments", query=QUERY) == {"chunks": relevance, "judged_queries": 1}
    assert call("judgments", query="another one") == {"chunks": {}, "judged_queries": 1}
    call(
        "judge",
        query=QUERY,
        chunk_id=second.id,
        relevant=False,
    )
    assert right_chunks(project) == [{third.id}]
    call(
        "judge",
        query=QUERY,
        chunk_id=first.id,
        relevant=None,
    )
    assert call("judge", query=QUERY, chunk_id=third.id, relevant=None) == {"judged_queries": 0}
    assert call("judgments", query=QUERY) == {
        "chunks": {str(second.id): False},
        "judged_queries": 0,
    }
    assert call("judge", query=QUERY, chunk_id=second.id, relevant=None) == {"judged_queries": 0}
    assert call("judgments", query=QUERY)["chunks"] == {}


@pytest.mark.parametrize("relevant", [True, None])
def test_a_stale_evaluation_says_that_judgments_changed(
    project: ProjectFolder, call: Any, relevant: bool | None
) -> None:
    store = project.store()
    store.put_artifact(Artifact(EvaluationInfo(judgments=judgments_fingerprint(store)), "f", ""))
    call(
        "judge",
        query=QUERY,
        chunk_id=chunks(project)[0].id,
        relevant=relevant,
    )
    note = STAGE.stale_note(ProjectSnapshot(project, project.settings(), store))
    store.close()
    assert bool(note) == bool(relevant)


def test_an_answer_parses_and_formats_only_the_query_that_it_is_about(
    project: ProjectFolder, call: Any
) -> None:
    first, second = chunks(project)[:2]
    for number in range(20):
        call(
            "judge",
            query=f"question {number}",
            chunk_id=first.id,
            relevant=True,
        )
    caches = (marks.parse_line, marks.format_line)
    before = [cache.cache_info().misses for cache in caches]
    call(
        "judge",
        query="question 7",
        chunk_id=second.id,
        relevant=True,
    )
    call(
        "judge",
        query="question 8",
        chunk_id=second.id,
        relevant=True,
    )
    after = [cache.cache_info().misses for cache in caches]
    # Each reads the line that the answer before it has written, and writes its own.
    assert [late - early for early, late in zip(before, after, strict=True)] == [2, 2]
    assert [len(query.marks) for query in marks.read_marks(project).values()].count(2) == 2


def test_marks_outlive_the_database_and_what_was_taken_back_does_not(
    project: ProjectFolder, call: Any
) -> None:
    first, second = chunks(project)[:2]
    call(
        "judge",
        query=QUERY,
        chunk_id=first.id,
        relevant=True,
    )
    call(
        "judge",
        query="taken back",
        chunk_id=second.id,
        relevant=True,
    )
    store = project.store()
    store.backup(project.path / "project.db.bak")
    store.close()
    call(
        "judge",
        query="taken back",
        chunk_id=second.id,
        relevant=None,
    )
    call(
        "judge",
        query="since then",
        chunk_id=second.id,
        relevant=True,
    )
    for path in project.path.glob("project.db*"):
        if path.suffix != ".bak":
            path.unlink()
    assert "restored" in str(project.repair())
    summary, _ = ingest_here(project.path)
    assert summary["judged_queries"] == 2
    store = project.store()
    assert {query.text for query in store.judged()} == {QUERY, "since then"}
    store.close()
    assert call("judgments", query=QUERY)["chunks"] == {str(first.id): True}


def test_marks_outlive_another_cutting(project: ProjectFolder, call: Any) -> None:
    middle = chunks(project)[3]
    call(
        "judge",
        query=QUERY,
        chunk_id=middle.id,
        relevant=True,
    )
    for size in (64, 512):
        project.change_settings({"corpus.chunk_tokens": size})
        ingest_here(project.path)
        ((now, *_),) = right_chunks(project)
        assert middle.id not in {chunk.id for chunk in chunks(project)}
        assert call("judgments", query=QUERY)["chunks"] == {str(now): True}
    assert call("judge", query=QUERY, chunk_id=now, relevant=None) == {"judged_queries": 0}
    assert call("judgments", query=QUERY)["chunks"] == {}


def test_marks_outlive_a_new_name(project: ProjectFolder, call: Any) -> None:
    chunk = max(chunks(project), key=lambda chunk: len(chunk.text))
    call(
        "judge",
        query=QUERY,
        chunk_id=chunk.id,
        relevant=True,
    )
    shutil.move(project.path / "documents", project.path / "moved")
    (project.path / "documents").mkdir()
    shutil.move(project.path / "moved", project.path / "documents" / "sub")
    ingest_here(project.path)
    ((now, *more),) = right_chunks(project)
    assert not more
    assert call("judgments", query=QUERY)["chunks"] == {str(now): True}


def test_hits_are_judged_while_a_run_goes_on(project: ProjectFolder, call: Any) -> None:
    first = chunks(project)[0]
    with project.locked():
        assert call("judge", query=QUERY, chunk_id=first.id, relevant=True)["judged_queries"] == 1
    assert call("judgments", query=QUERY)["chunks"] == {str(first.id): True}


def test_what_cannot_be_judged(
    project: ProjectFolder, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = chunks(project)[0]
    with fails(UsageError, "chunk-missing", 999999):
        call(
            "judge",
            query=QUERY,
            chunk_id=999999,
            relevant=True,
        )
    for relevant in (True, False):
        with fails(UsageError, "judge-like"):
            call(
                "judge",
                query="like:05ed260ef1",
                chunk_id=first.id,
                relevant=relevant,
            )
    assert call("judge", query="like:05ed260ef1", chunk_id=first.id, relevant=None) == {
        "judged_queries": 0
    }
    monkeypatch.setattr("engine.service.judging.JUDGING_SECONDS", 0.1)
    with project.locked("judging"), fails(ProjectBusyError, "project-busy"):
        call(
            "judge",
            query=QUERY,
            chunk_id=first.id,
            relevant=True,
        )

    def full(_path: Path, _text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.datasets.imports.write_text", full)
    with fails(ResourceError, "disk-full"):
        call(
            "judge",
            query=QUERY,
            chunk_id=first.id,
            relevant=True,
        )
    assert call("judgments", query=QUERY) == {"chunks": {}, "judged_queries": 0}


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        ({"query": 1, "chunk_id": 1, "relevant": True}, TypeError),
        ({"query": " \0\n", "chunk_id": 1, "relevant": True}, ValueError),
        ({"query": "q", "chunk_id": "1", "relevant": True}, TypeError),
        ({"query": "q", "chunk_id": 1, "relevant": 1}, TypeError),
        ({"query": "q", "relevant": True}, TypeError),
    ],
)
def test_wrong_params(
    project: ProjectFolder, params: dict[str, Any], kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        methods(project)["judge"](**params)


def test_a_mark_that_the_database_cannot_keep_is_not_kept_elsewhere(
    project: ProjectFolder, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = chunks(project)[:2]
    call(
        "judge",
        query=QUERY,
        chunk_id=first.id,
        relevant=True,
    )

    def full(*_: object) -> int:
        raise ResourceError("The disk is full.")

    monkeypatch.setattr(Store, "put_judged", full)
    with pytest.raises(ResourceError):
        call(
            "judge",
            query=QUERY,
            chunk_id=second.id,
            relevant=True,
        )
    assert call("judgments", query=QUERY) == {"chunks": {str(first.id): True}, "judged_queries": 1}


def test_a_damaged_marks_file_is_named_by_the_next_ingest(project: ProjectFolder) -> None:
    path = project.path / "imports" / "judgments-app.jsonl"
    for content in ('{"torn', "[1]", '{"key": "user:1"}'):
        path.write_text(content + "\n")
        with fails(DatasetError, "dataset-unreadable", "judgments-app.jsonl"):
            ingest_here(project.path)


def compared(project: ProjectFolder) -> Comparison:
    """Two queries; `served` answers the first better than base, and the second worse."""
    import numpy as np

    from engine.evaluation.judgments import Judgment

    judgments = [Judgment(str(n), f"query {n}", "chunk", {10 + n: 1}) for n in range(2)]
    rankings = {
        "base": np.array([[20, 10, 21], [11, 22, 23]]),
        "in_use": np.array([[10, 20, 21], [22, 11, 23]]),
    }
    return compare(
        rankings,
        judgments,
        lambda ids: ids,
        samples=100,
        seed=0,
    )


def nothing_chosen() -> dict[SearchMode, ModeSelection]:
    return {
        mode: ModeSelection(
            "base",
            0.0,
            "base",
            f"{mode} because",
            Decision(mode, "base", "base", "base", None, 0),
            system="base",
        )
        for mode in SEARCH_MODES
    }


def test_the_report_with_its_changes(project: ProjectFolder, call: Any) -> None:
    from engine.evaluation.reporting.changes import find_changes
    from engine.evaluation.reporting.report import ReportData, write_report

    with fails(NotBuiltError, "not-built", stage="evaluate"):
        call("report")
    comparison = compared(project)
    query_set = QuerySetReport(
        "mine", "judged", comparison.table, find_changes(comparison, "in_use"), "in_use"
    )
    with project.building("reports", "r") as building:
        write_report(
            building.folder, ReportData("p", "2031-01-01", "0", nothing_chosen(), [query_set])
        )
    info = EvaluationInfo(InUseInfo("adapted", 1.0, "adapters/a", standing="proved"))
    store = project.store()
    store.put_artifact(Artifact(info, "f", building.name))
    store.close()
    (project.path / "project.toml").write_text("[serch]\n")
    answer = call("report")
    assert [mode["sentence"] for mode in answer["verdict"]["modes"]] == [
        "hybrid because",
        "semantic because",
    ]
    assert answer["folder"] == str(project.path / building.name)
    assert (answer["semantic"], answer["hybrid"]) == ("adapted", "base")
    assert answer["own_systems"] == ["base", "rrf_base", "weighted_base"]
    (queries,) = answer["query_sets"]
    assert queries["kind"] == "judged"
    changes = queries["changes"]
    assert [row["text"] for row in changes["better"]] == ["query 0"]
    assert [row["text"] for row in changes["worse"]] == ["query 1"]
    assert (changes["better"][0]["before"], changes["better"][0]["after"]) == (
        pytest.approx(63.09, abs=0.01),
        100,
    )
