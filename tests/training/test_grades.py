"""Supervised training: graded judgments as the target's distribution."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fixtures.errors import fails
from fixtures.ranked_project import built, project

from engine.core.errors import DatasetError
from engine.core.records import DocumentQuery
from engine.datasets.imports import graded_queries, import_queries
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, StageContext
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
    log_p = np.log(np.exp(np.array([0.8, 0.2, 0])) / np.exp(np.array([0.8, 0.2, 0])).sum())
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
    assert torch.isfinite(Objective(config, None, "cpu").of(found)[0](vectors))
    assert graded.digest() != data.digest()


def test_grades_of_imported_queries_are_learnt_from(
    project: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "graded.jsonl"
    config = TrainingConfig(objective="plackett_luce")
    project.change_settings({"training.objective": "plackett_luce"})
    with closing(project.store()) as store:
        chunks = store.chunks()
        queries = store.queries()
        snapshot = ProjectSnapshot(project, project.settings(), store)
        before = STAGE.inputs(snapshot)
        query = queries[train_rows(snapshot.settings, queries, chunks)[0]]
        own = next(place for place, chunk in enumerate(chunks) if chunk.id == query.chunk_id)
        held_out = {one.chunk_id for one in queries if one.split != "train"}
        far = [
            place for place, chunk in enumerate(chunks) if chunk.document_id != query.document_id
        ]
        other = next(place for place in far if chunks[place].id not in held_out)
        aside = next(place for place in far if chunks[place].id in held_out)
        lines = [
            {"query": query.text, "evidence": chunks[place].text, "grade": grade}
            for place, grade in ((own, 1), (other, 2), (aside, 3))
        ]
        file.write_text(
            "".join(
                json.dumps(line) + "\n" for line in [*lines, {"query": "another", "evidence": "x"}]
            )
        )
        import_queries(project, file)
        assert [one.grade for one in graded_queries(project)] == [1, 2, 3, None]
        context = StageContext(project, snapshot.settings, store, "train", "", "", [].append, never)
        grades = training_data(context, config).grades
        assert grades[0] == {own: 1, other: 2}
        assert not any(grades[1:])
        assert not training_data(context, replace(config, objective="infonce")).grades
        assert STAGE.inputs(snapshot)["grades"]
        assert "grades" not in before
        answers = graded_answers(project, queries, chunks, store.documents())
        assert answers == {query.text: {chunks[own].id: 1, chunks[other].id: 2}}
        documents = store.documents()
        titles = [
            DocumentQuery(f"t{one.id}", "title", None, one.id, written_in=one.id)
            for one in documents
        ]
        monkeypatch.setattr(type(store), "queries", lambda _store: [query])
        found = {one.document_id for one in find_untrained(snapshot, chunks, titles)}
        answering = {query.document_id, chunks[other].document_id}
        assert found == {one.id for one in documents} - answering, "what answers is not untrained"
        free = min(found)
        threads = {free: "Re: berths", query.document_id: "Berths"}
        titled = [replace(one, title=threads.get(one.id, f"{one.id}")) for one in documents]
        monkeypatch.setattr(type(store), "documents", lambda _store: titled)
        left = {one.document_id for one in find_untrained(snapshot, chunks, titles)}
        assert left == found - {free}, "nor what shares its title with what was trained on"


@pytest.mark.parametrize("grade", [0, 21, 1.5, True, "2"])
def test_a_grade_that_is_none(project: ProjectFolder, tmp_path: Path, grade: object) -> None:
    file = tmp_path / "graded.jsonl"
    file.write_text(json.dumps({"query": "q", "evidence": "e", "grade": grade}))
    with fails(DatasetError, "dataset-invalid"):
        import_queries(project, file)
