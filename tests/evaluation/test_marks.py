from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.project_files import mode
from fixtures.records import build_chunks, build_document, store_document

from engine.core.errors import DatasetError
from engine.datasets.imports import (
    MARKS_FILE,
    import_judgments,
    read_judgments,
    restore_marked,
)
from engine.evaluation.judgments import judge_queries
from engine.evaluation.marks import Mark, MarkedQuery, find_marked_chunks, read_marks, write_marks
from engine.project.folder import ProjectFolder
from engine.project.store.store import Store

LONG = [
    f"Paragraph {n} says that the tenant of house number {n} pays the rent on the first day of the"
    f" month, {n} times."
    for n in range(4)
]


def put(
    store: Store,
    path: str,
    parts: list[str],
) -> list[int]:
    """A document whose chunks are its parts; the ids of those."""
    chunks = []
    for chunk in build_chunks(parts):
        chunks.append(replace(chunk, content_hash=f"hash of {chunk.text}"))
    row = store_document(
        store,
        build_document(path, " ".join(parts)),
        chunks,
    )
    return [chunk.id for chunk in store.chunks_of(row)]


def mark(
    path: str,
    text: str,
    relevant: bool = True,
) -> Mark:
    return Mark(
        path,
        text,
        f"hash of {text}",
        relevant,
    )


def relevance_by_chunk(store: Store, query: MarkedQuery) -> dict[int, bool]:
    return {key: marks[-1].relevant for key, marks in find_marked_chunks(store, query).items()}


def answers(store: Store, query: MarkedQuery) -> set[int]:
    """The chunks that the evaluation takes for right."""
    judged = query.to_judged_query()
    assert judged is not None
    (judgment,) = judge_queries(
        [judged],
        store.chunks(),
        store.documents(with_text=True),
    )
    assert judgment.level == "chunk"
    return set(judgment.grades)


@pytest.fixture
def store(project: ProjectFolder) -> Any:
    opened = project.store()
    yield opened
    opened.close()


def test_a_marked_chunk_is_the_one_that_counts(store: Store) -> None:
    ids = put(store, "a.md", LONG)
    query = MarkedQuery("who pays", (mark("a.md", LONG[1]), mark("a.md", LONG[2], relevant=False)))
    assert answers(store, query) == {ids[1]}
    assert relevance_by_chunk(store, query) == {ids[1]: True, ids[2]: False}


def test_a_mark_survives_another_cutting_and_another_name(store: Store) -> None:
    put(store, "a.md", LONG)
    query = MarkedQuery("who pays", (mark("a.md", LONG[1]),))
    larger = put(
        store,
        "a.md",
        [" ".join(LONG[:2]), " ".join(LONG[2:])],
    )
    assert answers(store, query) == {larger[0]}
    assert relevance_by_chunk(store, query) == {larger[0]: True}
    smaller = put(
        store,
        "a.md",
        [LONG[0], "Paragraph 1 says", LONG[1].removeprefix("Paragraph 1 says "), *LONG[2:]],
    )
    assert answers(store, query) == {smaller[2]}  # it holds the larger part
    assert relevance_by_chunk(store, query) == {smaller[2]: True}
    with store.transaction():
        store.forget_file(store.files()["/docs", "a.md"].id)
    renamed = put(store, "b/renamed.md", LONG)
    assert answers(store, query) == {renamed[1]}
    assert relevance_by_chunk(store, query) == {renamed[1]: True}


def test_a_copy_answers_too_but_a_short_text_only_in_its_document(store: Store) -> None:
    first = put(
        store,
        "a.md",
        [*LONG, "Yes."],
    )
    second = put(
        store,
        "copy.md",
        [*LONG, "Yes."],
    )
    assert answers(store, MarkedQuery("q", (mark("a.md", LONG[0]),))) == {first[0], second[0]}
    assert answers(store, MarkedQuery("q", (mark("a.md", "Yes."),))) == {first[4]}
    both = MarkedQuery("q", (mark("a.md", LONG[0]), mark("copy.md", "Yes.")))
    assert answers(store, both) == {
        first[0],
        second[0],
        first[4],
        second[4],
    }  # one path cannot stand for two documents
    assert relevance_by_chunk(store, both) == {first[0]: True, second[4]: True}


def test_without_a_right_chunk_there_is_no_judged_query() -> None:
    query = MarkedQuery("q", (mark("a.md", LONG[0]), mark("a.md", LONG[1], relevant=False)))
    assert query.to_judged_query() is not None
    without = query.with_mark({query.marks[0]}, None)
    assert without.marks == (query.marks[1],)
    assert without.to_judged_query() is None
    again = without.with_mark({without.marks[0]}, mark("a.md", LONG[1]))
    assert again.to_judged_query() is not None
    assert [row.relevant for row in again.marks] == [True]


def test_the_key_is_the_folded_text() -> None:
    assert MarkedQuery("Who  PAYS").key == MarkedQuery("who pays").key
    assert MarkedQuery("who pays").key == "user:7bb2b9fc2f61e2f9"
    assert MarkedQuery("who paid").key != MarkedQuery("who pays").key


def test_marks_are_kept_whole_and_wrong_ones_are_no_judgments(project: ProjectFolder) -> None:
    assert read_marks(project) == {}
    odd = 'line\u2028separator, "quote", 日本語 and\nnew line'
    queries = [
        MarkedQuery("first " + odd, (mark("a\u2028b.md", odd),)),
        MarkedQuery("second", (mark("a", "b", False),)),
    ]
    marks = {query.key: query for query in queries}
    write_marks(project, marks)
    assert read_marks(project) == marks
    path = project.path / "imports" / MARKS_FILE
    assert mode(path) == 0o600
    assert read_judgments(path) == [queries[0].to_judged_query()]


def test_ingest_brings_the_database_in_line(
    project: ProjectFolder, store: Store, tmp_path: Any
) -> None:
    imported = tmp_path / "mine.jsonl"
    imported.write_text('{"query": "imported", "evidence": ["x"]}\n')
    import_judgments(project, imported)
    unchanged, lost, changed = (
        MarkedQuery(text, (mark("a.md", LONG[0]),)) for text in ("kept", "lost", "changed")
    )
    store.put_judged(
        [judged for query in (unchanged, lost, changed) if (judged := query.to_judged_query())]
    )
    restore_marked(project, store)  # without a file, as when the imports folder was lost
    assert store.counts()["judged_queries"] == 4
    changed = changed.with_mark(set(), mark("a.md", LONG[1]))
    new = MarkedQuery("new", (mark("a.md", LONG[2]),))
    wrong = MarkedQuery("wrong", (mark("a.md", LONG[2], relevant=False),))
    write_marks(project, {query.key: query for query in (unchanged, changed, new, wrong)})
    restore_marked(project, store)
    evidence = {query.text: query.evidence for query in store.judged()}
    assert evidence == {
        "imported": ("x",),
        "kept": (LONG[0],),
        "changed": (LONG[0], LONG[1]),
        "new": (LONG[2],),
    }
    write_marks(project, {})
    restore_marked(project, store)
    assert [query.text for query in store.judged()] == ["imported"]


@pytest.mark.parametrize(
    "text",
    ["{", "[]\n", '{"text": "a"}', '{"text": 1, "marks": []}', '{"text": "a", "marks": [3]}'],
)
def test_a_damaged_file_is_reported(project: ProjectFolder, text: str) -> None:
    (project.path / "imports" / MARKS_FILE).write_text(text)
    with fails(DatasetError, "marks-unreadable", MARKS_FILE):
        read_marks(project)
