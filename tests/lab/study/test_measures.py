"""Figures of all queries next to those of bootstrap samples, and of which queries they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.core.arrays import Ids
from engine.encoders.geometry.similarity import COSINE
from engine.evaluation.judgments import Judgment
from engine.evaluation.lists import focused
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankers import AllowedChunks
from engine.lab.checks.diagnostics import Similarities
from engine.lab.checks.options import LabOptions
from engine.lab.study import measures
from engine.lab.study.measures import measure_all_queries, measure_transformed, measured_sets
from engine.lexical.filenames import DocumentNames, FilenameMatch
from engine.queries.rules.tokens import question_key
from engine.settings.load import validate


def test_accuracy_and_ndcg_of_all_queries_by_hand() -> None:
    """Query 2 finds its answer in the second place, 1/log2(3); query 0 does not find it."""
    judgments = [
        Judgment("a", "a", "chunk", {8: 1}),
        Judgment("unanswered", "unanswered", "chunk", {}),
        Judgment("b", "b", "chunk", {7: 1}),
    ]
    similarities = Similarities(
        rows=[2, 0],
        answers=[],
        correct=[],
        top=np.zeros((2, 3), np.float32),
        best=np.array([[5, 7, 9], [1, 2, 3]]),
        random=np.zeros((2, 1), np.float32),
    )
    assert measure_all_queries(similarities, judgments) == pytest.approx(
        {"accuracy@3, all queries": 50, "nDCG@3, all queries": 50 / np.log2(3)}
    )


class FakeRankers:
    """Ten chunks on a half circle, each a document; a query is asked of those that it names."""

    adapter = None
    weights = (0.0,)

    def __init__(self, *_: object) -> None:
        angles = np.linspace(
            0,
            np.pi,
            10,
        )
        self.ids = np.arange(10)
        self.vectors = np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)

    def document_of(self, ids: Ids) -> Ids:
        return ids

    def find_allowed(self, queries: QuerySet) -> AllowedChunks:
        return [np.array(sorted(match.documents)) for match in queries.matches]

    def candidate(self, _weight: float) -> SimpleNamespace:
        return SimpleNamespace(
            name="base",
            similarity=COSINE,
            query_vectors=lambda texts: self.vectors[: len(texts)],
            chunk_vectors=lambda _: self.vectors,
        )


def test_figures_of_all_queries_are_among_the_documents_that_a_query_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first query names its answer among the chunks, the second has it left out."""
    names = [frozenset(range(5)), frozenset(range(4, 10))]
    judgments = [Judgment(text, text, "chunk", {chunk: 1}) for chunk, text in enumerate("ab")]
    matches = [FilenameMatch(text, documents) for text, documents in zip("ab", names, strict=True)]
    asked = QuerySet(
        "judged questions",
        "judged",
        judgments,
        matches,
    )
    monkeypatch.setattr(measures, "Rankers", FakeRankers)
    monkeypatch.setattr(
        measures,
        "measured_sets",
        lambda *_: [asked],
    )
    store = SimpleNamespace(chunks=list)
    context: Any = SimpleNamespace(store=store, settings=validate({}))
    systems = measure_transformed(context, LabOptions())
    assert systems["base"]["accuracy@5, all queries"] == 50
    bootstrapped = systems["base, standardised"]["accuracy@5, percent"]["value"]
    assert bootstrapped == pytest.approx(50, abs=5)


def test_questions_that_were_judged_where_two_lists_differ_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judgments = [Judgment(text, text, "chunk", {1: 1}) for text in ("first one", "second one")]
    matches = [FilenameMatch(judgment.text) for judgment in judgments]
    asked = QuerySet(
        "judged questions",
        "judged",
        judgments,
        matches,
    )
    monkeypatch.setattr(
        measures,
        "build_query_sets",
        lambda *_: [asked],
    )
    monkeypatch.setattr(
        focused,
        "focused_questions",
        lambda _: {question_key("first one")},
    )
    monkeypatch.setattr(
        focused,
        "asked_questions",
        lambda _: (),
    )
    monkeypatch.setattr(
        focused,
        "read_marks",
        lambda _: {},
    )
    monkeypatch.setattr(
        focused,
        "document_names",
        lambda _: DocumentNames([]),
    )
    context: Any = SimpleNamespace(project=None)
    (rest,) = measured_sets(context, [])
    assert [judgment.text for judgment in rest.judgments] == ["second one"]
