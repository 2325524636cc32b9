"""Questions that show no difference although nobody knows a right answer."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.records import Chunk, JudgedQuery, Query
from engine.evaluation.lists.settled import AskedQuestion, asked_questions, focused_questions, settled_rows
from engine.evaluation.marks import note_asked, read_marks
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.artifacts import Artifact
from engine.queries.rules.tokens import question_key

CHUNKS = [
    Chunk(1, number, 0, 1, f"text {min(number, 4)}", (), 1, "", f"hash {number}", number) for number in range(1, 6)
]


@pytest.mark.parametrize(
    ("first", "second", "wrong", "settled"),
    [
        ([1, 2, 3], [1, 2, 3], [], True),
        ([1, 2, 3], [1, 3, 2], [], False),
        ([1, 2, 3], [1, 3, 2], [2, 3], True),
        ([1, 2, 3], [1, 3, 2], [2], False),
        ([1, 4, -1], [1, 5, -1], [], True),  # chunks 4 and 5 are copies
        ([1, 2, 4], [1, 2, 3], [5, 3], True),
    ],
)
def test_lists_that_differ_in_wrong_passages_alone_are_as_good(
    first: list[int], second: list[int], wrong: list[int], settled: bool
) -> None:
    question = AskedQuestion("q", frozenset(wrong))
    rankings = [np.array([first]), np.array([second])]
    assert settled_rows([question], rankings, CHUNKS) == [0] * settled


def test_all_systems_must_agree_with_the_reference() -> None:
    questions = [AskedQuestion("a"), AskedQuestion("b")]
    base = np.array([[1, 2], [1, 2]])
    half = np.array([[1, 2], [1, 2]])
    whole = np.array([[1, 2], [2, 1]])
    assert settled_rows(questions, [base, half], CHUNKS) == [0, 1]
    assert settled_rows(questions, [base, half, whole], CHUNKS) == [0]
    assert settled_rows(questions, [], CHUNKS) == []


def test_what_was_asked_without_a_right_answer_is_kept(project: ProjectFolder) -> None:
    store = project.store()
    snapshot = ProjectSnapshot(project, project.settings(), store)
    made = [Query("learnt", "question", 1, 1, "", "train", 1), Query("made", "question", 1, 1, "", "heldout", 2)]
    store.replace_queries(made, Artifact(QueriesInfo(), "f"))
    note_asked(project, store, ["one", "two", "learnt", "made"], focused=True)
    assert [one.text for one in asked_questions(snapshot, [])] == ["one", "two"]
    store.put_judged([JudgedQuery("imported", "Two?", ("evidence",))])
    assert [one.text for one in asked_questions(snapshot, [])] == ["one"]
    assert focused_questions(snapshot) == {question_key(text) for text in ("one", "learnt", "made")}
    note_asked(project, store, ["one", "never seen"], focused=False)
    assert asked_questions(snapshot, []) == []
    assert "never seen" not in {query.text for query in read_marks(project).values()}
    note_asked(project, store, ["one"], focused=True)
    assert asked_questions(snapshot, []) == [], "all hits of it were judged before"
    store.close()
