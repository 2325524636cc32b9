"""Supervised training: graded judgments as the target's distribution."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.ranked_project import built, project

from engine.core.errors import DatasetError
from engine.core.records import Chunk, DocumentQuery, Query
from engine.datasets.imports import graded_queries, import_queries
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext
from engine.project.store.store import Store
from engine.queries.from_documents import find_untrained
from engine.queries.imported import graded_answers
from engine.training.batches import BatchSampler
from engine.training.config import TrainingConfig
from engine.training.data import TrainingData
from engine.training.dataset import train_rows, training_data
from engine.training.job import never
from engine.training.objectives.losses import plackett_luce
from engine.training.objectives.objective import Objective
from engine.training.stage import STAGE

__all__ = ["built", "project"]


def test_the_loss_of_grades_by_hand() -> None:
    """Grades 2 and 1 weigh 3 and 1: 0.75 and 0.25 of what smoothing leaves."""
    scores = torch.tensor([[0.4, 0.1, 0.0, 0.9]])
    gains = torch.tensor([[3.0, 0, 1, 0]])
    listed = torch.tensor([[True, True, True, False]])
    scaled = np.array([0.8, 0.2, 0])  # the listed scores / temperature
    log_p = np.log(np.exp(scaled) / np.exp(scaled).sum())
    wanted = -(0.7 * (0.75 * log_p[0] + 0.25 * log_p[2]) + 0.1 * log_p.sum())
    found = plackett_luce(
        scores,
        torch.tensor([0]),
        temperature=0.5,
        candidates=listed,
        label_smoothing=0.3,
        gains=gains,
    )
    assert found.item() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("in_batch", [True, False])
def test_graded_chunks_are_in_the_batch_with_their_gains(
    data: TrainingData, in_batch: bool
) -> None:
    config = replace(
        TrainingConfig(),
        **{"objective": "plackett_luce", "in_batch": in_batch, "queries_per_step": 4},
    )
    grades: list[dict[int, int]] = [{} for _ in data.queries]
    batch = BatchSampler(data, config).batch(0)
    query, other = batch.queries[:2]
    own = int(data.positives[query])
    far = next(chunk for chunk in range(200) if chunk not in batch.chunks)
    grades[query] = {own: 3, far: 1}
    graded = replace(data, grades=grades)
    found = BatchSampler(graded, config).batch(0)
    assert found.gains is not None
    columns = {int(chunk): column for column, chunk in enumerate(found.chunks)}
    row = np.zeros(len(found.chunks))
    row[columns[own]] = 7
    row[columns[far]] = 1
    assert found.gains[0].tolist() == row.tolist()
    assert found.gains[1].sum() == found.gains[1, columns[int(data.positives[other])]] == 1
    if not in_batch:
        assert found.candidates is not None
        assert found.candidates[0, columns[far]]
        assert not found.candidates[1, columns[far]]
    vectors = torch.eye(len(found.queries) + len(found.chunks), 8)
    assert torch.isfinite(Objective(config, None, "cpu").build_loss(found)[0](vectors))
    assert graded.digest() != data.digest()


@dataclass(frozen=True)
class GradedProject:
    """A project with three graded chunks of a training query, and what was true before them.

    Of the chunks `asked` is the one that the query was made from, `trainable` lies in another
    document, and `held_out_place` is a held-out query's. All are places in `chunks`.
    """

    project: ProjectFolder
    store: Store
    snapshot: ProjectSnapshot
    chunks: Sequence[Chunk]
    queries: Sequence[Query]
    query: Query
    asked: int
    trainable: int
    held_out_place: int
    inputs_before: dict[str, Any]


@pytest.fixture
def graded(project: ProjectFolder, tmp_path: Path) -> Iterator[GradedProject]:
    project.change_settings({"training.objective": "plackett_luce"})
    with closing(project.store()) as store:
        chunks = store.chunks()
        queries = store.queries()
        snapshot = ProjectSnapshot(
            project,
            project.settings(),
            store,
        )
        before = STAGE.inputs(snapshot)
        query = queries[train_rows(snapshot.settings, queries, chunks)[0]]
        asked = next(place for place, chunk in enumerate(chunks) if chunk.id == query.chunk_id)
        held_out = {other.chunk_id for other in queries if other.split != "train"}
        far = [
            place for place, chunk in enumerate(chunks) if chunk.document_id != query.document_id
        ]
        trainable = next(place for place in far if chunks[place].id not in held_out)
        held_out_place = next(place for place in far if chunks[place].id in held_out)
        lines = [
            {"query": query.text, "evidence": chunks[place].text, "grade": grade}
            for place, grade in ((asked, 1), (trainable, 2), (held_out_place, 3))
        ]
        lines.append({"query": "another", "evidence": "x"})
        file = tmp_path / "graded.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        import_queries(project, file)
        yield GradedProject(
            project,
            store,
            snapshot,
            chunks,
            queries,
            query,
            asked,
            trainable,
            held_out_place,
            before,
        )


def test_grades_of_imported_queries_are_learnt_from(graded: GradedProject) -> None:
    config = TrainingConfig(objective="plackett_luce")
    assert [query.grade for query in graded_queries(graded.project)] == [1, 2, 3, None]
    context = StageContext(
        graded.project, graded.snapshot.settings, graded.store, "train", "", "", [].append, never
    )
    grades = training_data(context, config).grades
    assert grades[0] == {graded.asked: 1, graded.trainable: 2}
    assert not any(grades[1:])
    assert not training_data(context, replace(config, objective="infonce")).grades


def test_grades_are_an_input_of_the_training(graded: GradedProject) -> None:
    assert STAGE.inputs(graded.snapshot)["grades"]
    assert "grades" not in graded.inputs_before


def test_graded_answers_leave_held_out_chunks_out(graded: GradedProject) -> None:
    chunks = graded.chunks
    answers = graded_answers(
        graded.snapshot,
        graded.queries,
        chunks,
    )
    assert answers == {
        graded.query.text: {chunks[graded.asked].id: 1, chunks[graded.trainable].id: 2}
    }


def test_documents_with_graded_answers_or_their_titles_are_not_untrained(
    graded: GradedProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = graded.store
    query = graded.query
    documents = store.documents()
    titles = [
        DocumentQuery(f"t{document.id}", "title", None, document.id, written_in=document.id)
        for document in documents
    ]
    monkeypatch.setattr(
        type(store),
        "queries",
        lambda _store: [query],
    )
    untrained = find_untrained(
        graded.snapshot,
        graded.chunks,
        titles,
    )
    found = {title.document_id for title in untrained}
    answering = {query.document_id, graded.chunks[graded.trainable].document_id}
    assert found == {document.id for document in documents} - answering, (
        "what answers is not untrained"
    )
    free = min(found)
    threads = {free: "Re: berths", query.document_id: "Berths"}
    titled = [
        replace(document, title=threads.get(document.id, f"{document.id}"))
        for document in documents
    ]
    monkeypatch.setattr(
        type(store),
        "documents",
        lambda _store: titled,
    )
    with closing(graded.project.store()) as opened:
        snapshot = replace(graded.snapshot, store=opened)
        untrained = find_untrained(
            snapshot,
            graded.chunks,
            titles,
        )
    left = {title.document_id for title in untrained}
    assert left == found - {free}, "nor what shares its title with what was trained on"


@pytest.mark.parametrize("grade", [0, 21, 1.5, True, "2"])
def test_an_invalid_grade_is_refused(
    project: ProjectFolder,
    tmp_path: Path,
    grade: object,
) -> None:
    file = tmp_path / "graded.jsonl"
    file.write_text(json.dumps({"query": "q", "evidence": "e", "grade": grade}))
    with fails(DatasetError, "dataset-invalid"):
        import_queries(project, file)
