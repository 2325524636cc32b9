"""Questions that show no difference although nobody knows a right answer."""

from __future__ import annotations

from engine.core.records import JudgedQuery, Query
from engine.evaluation.lists.asked import asked_questions, focused_questions
from engine.evaluation.marks import read_marks, record_asked
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.artifacts import Artifact
from engine.queries.rules.tokens import question_key


def test_what_was_asked_without_a_right_answer_is_kept(project: ProjectFolder) -> None:
    store = project.store()
    snapshot = ProjectSnapshot(
        project,
        project.settings(),
        store,
    )
    generated = [
        Query("learnt", "question", 1, 1, "", "train", 1),
        Query("made", "question", 1, 1, "", "heldout", 2),
    ]
    store.replace_queries(generated, Artifact(QueriesInfo(), "f"))
    record_asked(
        project,
        store,
        ["one", "two", "learnt", "made"],
        focused=True,
    )
    assert asked_questions(snapshot) == ["one", "two"]
    store.put_judged([JudgedQuery("imported", "Two?", ("evidence",))])
    assert asked_questions(snapshot) == ["one"]
    assert focused_questions(snapshot) == {question_key(text) for text in ("one", "learnt", "made")}
    record_asked(
        project,
        store,
        ["one", "never seen"],
        focused=False,
    )
    assert asked_questions(snapshot) == []
    assert "never seen" not in {query.text for query in read_marks(project).values()}
    record_asked(
        project,
        store,
        ["one"],
        focused=True,
    )
    assert asked_questions(snapshot) == [], "all hits of it were judged before"
    store.close()
