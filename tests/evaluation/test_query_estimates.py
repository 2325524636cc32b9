"""Estimates of how many queries decide, before the training queries are made."""

from __future__ import annotations

import json
from contextlib import closing
from functools import partialmethod
from pathlib import Path

import pytest
from fixtures.pipeline import copy_documents, stages_in_this_process
from fixtures.project_files import create_project
from fixtures.ranked_project import built, project

from engine.core import events
from engine.core.events import Event
from engine.core.records import JudgedQuery
from engine.datasets.imports import import_queries
from engine.evaluation import query_estimates
from engine.evaluation.query_sets import heldout_queries, rung_of_query
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.chunks import StoredChunk
from engine.project.store.store import Store
from engine.queries.heldout import split_documents
from engine.runs import pipeline
from engine.service.offer import adaptation_offer
from engine.service.queries import by_origin

__all__ = ["built", "project"]


def evidence(project: ProjectFolder, generated: bool = True) -> dict[str, int]:
    with closing(project.store()) as store:
        return {
            **query_estimates.expected_evidence(
                ProjectSnapshot(project, project.settings(), store), generated
            )
        }


def listed_as_evidence(project: ProjectFolder) -> int:
    with closing(project.store()) as store:
        listed = by_origin(ProjectSnapshot(project, project.settings(), store)).queries
    return sum(query.use == "evidence" for query in listed)


@pytest.mark.parametrize("generated", [True, False])
def test_counting_evidence_of_a_large_corpus_reads_no_chunks(
    project: ProjectFolder, generated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evidence(project, generated)
    monkeypatch.setattr(
        Store,
        "chunks",
        partialmethod(Store.chunks, in_memory=5),
    )
    monkeypatch.setattr(
        Store,
        "chunk",
        lambda *_: pytest.fail("a chunk was read"),
    )
    monkeypatch.setattr(
        Store,
        "each_chunk",
        lambda *_: pytest.fail("all chunks were read"),
    )
    assert evidence(project, generated) == whole
    with closing(project.store()) as store:
        assert {type(chunk) for chunk in store.chunks()} == {StoredChunk}


def test_the_estimate_of_titles_is_the_number_that_decides(tmp_path: Path) -> None:
    new_project = create_project(tmp_path, queries={"consistency_top": 0})
    copy_documents(
        tmp_path / "documents",
        ("incidents", "minutes"),
        10,
    )
    with stages_in_this_process():
        pipeline.run(new_project, stages=("ingest", "index"))
        before = evidence(new_project, generated=False)
        assert listed_as_evidence(new_project) == before["document"]
        log: list[Event] = []
        pipeline.run(
            new_project,
            stages=("generate", "rank"),
            on_event=log.append,
        )
    after = evidence(new_project)
    assert before["document"] == after["document"] > 0
    assert (before["judged"], before["model"], after["model"]) == (0, 0, 0)
    assert not [
        event
        for event in log
        if isinstance(event, events.Warned) and event.code == "too-few-questions"
    ], "no training"
    copy_documents(
        tmp_path / "documents",
        ("contracts", "policies"),
        12,
    )
    with stages_in_this_process():
        pipeline.run(new_project, stages=("ingest", "index"))
        offered = adaptation_offer(new_project, timed=False)
        again = evidence(new_project, generated=False)
        as_before = evidence(new_project)
        pipeline.run(new_project, stages=("generate", "rank"))
    count = again["document"]
    assert offered.queries == count
    assert evidence(new_project)["document"] == count
    assert as_before["document"] > count
    assert offered.counted is False
    assert adaptation_offer(new_project, timed=False).counted is True


def test_only_distinct_answered_and_untrained_judged_questions_count(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(project.store()) as store:
        trained = next(query.text for query in store.queries() if query.split == "train")
        answer = (store.chunks()[0].text,)
    judged = [
        JudgedQuery(str(row), text, answer)
        for row, text in enumerate(("Who?", "who", "What?", trained.rstrip("?") + " ?"))
    ]
    judged.append(JudgedQuery("other", "Where?", ("No document says this.",)))
    monkeypatch.setattr(
        Store,
        "judged",
        lambda _: judged,
    )
    assert evidence(project)["judged"] == 2
    project.change_settings({"evaluation.use_judged": False})
    assert evidence(project)["judged"] == 0


def test_imported_queries_are_counted_before_and_after_they_are_attached(tmp_path: Path) -> None:
    texts = [
        f"Berth {row} is {row + 20} feet long and has a lamp of {row + 300} watts."
        for row in range(30)
    ]
    rows = [
        {"query": f"Which lamp has berth {row}?", "evidence": text}
        for row, text in enumerate(texts)
    ]
    twice = [*rows, {**rows[0], "evidence": texts[1]}]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, twice)))
    new_project = create_project(
        tmp_path,
        {f"{row}.txt": text for row, text in enumerate(texts)},
        queries={"backend": "both", "consistency_top": 0},
        evaluation={"heldout_share": 0.5},
    )
    import_queries(new_project, tmp_path / "queries.jsonl")
    with stages_in_this_process():
        pipeline.run(new_project, stages=("ingest", "index"))
        before = evidence(new_project, generated=False)
        assert listed_as_evidence(new_project) == before["document"]
        pipeline.run(new_project, stages=("generate",))
    with closing(new_project.store()) as store:
        held_out = sum(
            query.split == "heldout" and query.kind == "imported" for query in store.queries()
        )
        chunks = store.chunks()
        snapshot = ProjectSnapshot(
            new_project,
            new_project.settings(),
            store,
        )
        rungs = {rung_of_query(query, "both") for query in heldout_queries(snapshot, chunks)}
    after = evidence(new_project)
    assert (before["imported"], before["model"], after["model"]) == (10, 0, 0)  # 30 · 0.5 · 2/3
    assert after["imported"] == held_out > 0
    assert rungs == {"imported"}


@pytest.mark.parametrize(
    ("gate", "most", "warned"),
    [("strict", 70, ["too-few-questions"]), ("strict", 71, []), ("expected", 70, [])],
)
def test_a_run_warns_before_training_that_too_few_queries_can_decide(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, gate: str, most: int, warned: list[str]
) -> None:
    project.change_settings({"evaluation.gate": gate})
    monkeypatch.setattr(
        query_estimates,
        "expected_evidence",
        lambda *_: {"judged": 3, "document": most, "model": 0, "imported": 0},
    )
    monkeypatch.setattr(
        pipeline.Run, "run_stage", lambda _run, stage, forced: order.append((stage, len(log)))
    )
    order: list[tuple[str, int]] = []
    log: list[Event] = []
    pipeline.run(project, on_event=log.append)
    codes = [event.code if isinstance(event, events.Warned) else "" for event in log]
    assert [code for code in codes if code == "too-few-questions"] == warned
    counts = dict(order)
    if warned:
        assert counts["index"] <= codes.index("too-few-questions") < counts["generate"]


def test_a_third_of_the_held_out_documents_is_for_validation() -> None:
    sides = split_documents({number: str(number) for number in range(3000)}, 0.2)
    counts = {side: list(sides.values()).count(side) for side in ("heldout", "validation")}
    assert sum(counts.values()) == pytest.approx(600, abs=60)
    assert counts["validation"] == pytest.approx(sum(counts.values()) / 3, abs=30)
    assert set(split_documents({1: "a", 2: "b"}, 0.1).values()) == {"heldout"}, (
        "a single one decides what is used"
    )
