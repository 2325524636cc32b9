"""Which queries a person is asked to judge, and the blind order of their hits."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fixtures.errors import fails
from fixtures.pipeline import stage_here
from fixtures.records import build_document

from engine.core.errors import DatasetError, InputError, UsageError
from engine.core.records import JudgedQuery
from engine.evaluation.marks import Mark, MarkedQuery, write_marks
from engine.evaluation.query_sets import build_query_sets
from engine.lexical.index import LexicalIndex
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import LexicalInfo
from engine.service.judging_queue import (
    KnownAnswers,
    ToJudge,
    judged_queries,
    name_queries,
    read_queries,
    trained_on,
    worth_judging,
)
from engine.service.pooling import PooledHit, Pooler, find_unmarked

QUERY = "what did the night shift do with the freezer door and the batch"


def pool(
    project: ProjectFolder,
    query: str = QUERY,
    depth: int = 5,
) -> tuple[PooledHit, ...]:
    pooler = Pooler(project, depth)
    try:
        return pooler.pool(query)
    finally:
        pooler.close()


def bm25_order(project: ProjectFolder, depth: int = 5) -> list[int]:
    store = project.store()
    try:
        artifact = store.artifact(LexicalInfo)
        assert artifact is not None
        return LexicalIndex.open(project.folder_of(artifact)).search(QUERY, depth)[0].tolist()
    finally:
        store.close()


def test_the_pool_holds_what_was_found_in_an_order_that_shows_no_ranker(
    project: ProjectFolder,
) -> None:
    hits = pool(project)
    ranking = bm25_order(project)
    assert sorted(row for hit in hits for row in hit.chunk_ids) == sorted(ranking)
    assert [hit.chunk_ids[0] for hit in hits] != ranking
    assert pool(project, "  " + QUERY.upper()) == hits, (
        "the order is that of the question, however it is typed"
    )
    deeper = [hit for hit in pool(project, depth=8) if hit in hits]
    assert deeper == list(hits), "a deeper pool does not shuffle what was seen"


def test_a_missing_artifact_is_reported_once(project: ProjectFolder) -> None:
    pooler = Pooler(project, 3)
    pooler.pool(QUERY)
    pooler.pool("another question")
    pooler.close()
    assert len(pooler.notes) == 1


def test_the_same_text_is_judged_once(project: ProjectFolder) -> None:
    documents = project.path / "documents"
    shutil.copytree(documents / "incidents", documents / "again")
    for stage in ("ingest", "index"):
        stage_here(project.path, stage)
    hits = pool(project, depth=20)
    assert len({hit.text for hit in hits}) == len(hits)
    store = project.store()
    texts = [chunk.text for chunk in store.chunks()]
    store.close()
    assert any(texts.count(hit.text) == 2 for hit in hits)


def test_a_mark_of_any_chunk_of_a_text_is_one_of_the_text(project: ProjectFolder) -> None:
    first, *others = pool(project)
    twice = replace(first, chunk_ids=(*first.chunk_ids, 1_000_000))
    assert find_unmarked([twice, *others], {1_000_000}) == list(range(1, 1 + len(others)))


def test_queries_that_were_begun_come_before_judged_ones_and_those_before_made_ones(
    project: ProjectFolder, call: Any
) -> None:
    first = pool(project)[0].chunk_ids[0]
    store = project.store()
    store.put_judged([JudgedQuery("k", "An imported question?", ("evidence",))])
    generated = {query.text for query in store.queries() if query.split == "heldout"}
    learnt = next(query.text for query in store.queries() if query.split == "train")
    store.close()
    call(
        "judge",
        query="begun, nothing right yet",
        chunk_id=first,
        relevant=False,
    )
    call(
        "judge",
        query="AN imported  question",
        chunk_id=first,
        relevant=True,
    )
    queue = list(worth_judging(project))
    assert queue[:2] == [
        ToJudge("begun, nothing right yet", "judged"),
        ToJudge("AN imported question", "judged"),
    ]
    assert {query.text for query in queue[2:]} == generated
    assert {query.origin for query in queue[2:]} == {"generated"}
    assert list(worth_judging(project)) == queue
    assert judged_queries(project) == 1, "an imported question that was marked here as well is one"
    assert trained_on(project, [*queue, ToJudge(f"{learnt.upper()} ?", "named")]) == 1


def test_a_project_without_queries_is_an_error(tmp_path: Path) -> None:
    with fails(UsageError, "no-queries-to-judge") as caught:
        list(worth_judging(ProjectFolder.create(tmp_path / "project", {})))
    assert "--query" in caught.value.to_do


def test_what_imported_judgments_and_marks_say_is_known(project: ProjectFolder, call: Any) -> None:
    hits = pool(project)
    whole = hits[0]
    marked = hits[1]
    store = project.store()
    owner = store.chunks_by_id(whole.chunk_ids)[whole.chunk_ids[0]].document_id
    path = store.document_card(owner).path
    siblings = {chunk.id for chunk in store.chunks_of(owner)}
    store.put_judged([JudgedQuery("k", QUERY.title(), grades=((path, 1),))])
    store.close()
    call(
        "judge",
        query=QUERY,
        chunk_id=marked.chunk_ids[0],
        relevant=False,
    )
    known_answers = KnownAnswers(project)
    assert known_answers.chunks(QUERY) == siblings | {marked.chunk_ids[0]}
    assert known_answers.chunks("something else") == set()


def test_the_evaluation_measures_a_question_once(project: ProjectFolder, call: Any) -> None:
    first, second = (hit.chunk_ids[0] for hit in pool(project)[:2])
    store = project.store()
    path = store.document_card(store.chunks_by_id([first])[first].document_id).path
    store.put_judged(
        [
            JudgedQuery("k", QUERY.title(), grades=((path, 2),)),
            JudgedQuery("l", "Another?", grades=((path, 1),)),
        ]
    )
    call(
        "judge",
        query=QUERY,
        chunk_id=second,
        relevant=True,
    )
    owners = {chunk.id: chunk.document_id for chunk in store.chunks()}
    context: Any = SimpleNamespace(
        store=store, settings=project.settings(), warn=pytest.fail, project=project
    )
    (judged, *_) = build_query_sets(context, store.chunks())
    store.close()
    assert judged.kind == "judged"
    assert [judgment.text for judgment in judged.judgments] == [QUERY.title(), "Another?"]
    assert judged.judgments[0].grades == {owners[first]: 2} | (
        {owners[second]: 1} if owners[second] != owners[first] else {}
    )
    assert len(judged.texts) == 2


def test_queries_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_bytes("\ufeffWho signs?\r\n\n  who   SIGNS?\nanother\x00one".encode())
    assert name_queries(read_queries(path)) == [
        ToJudge("Who signs?", "named"),
        ToJudge("another one", "named"),
    ]
    with fails(InputError, "file-access"):
        read_queries(tmp_path / "nowhere.txt")
    for content in (b"", b"\n \n", b"\xff\xfe"):
        path.write_bytes(content)
        with pytest.raises(DatasetError):
            read_queries(path)
    with fails(UsageError, "query-empty"):
        name_queries([" "])


def test_hits_of_the_encoder_before_adaptation_are_in_the_pool(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.search.searcher import Searcher

    hits = pool(project, depth=2)
    chunk_ids = {row for hit in hits for row in hit.chunk_ids}
    store = project.store()
    other = next(chunk for chunk in store.chunks() if chunk.id not in chunk_ids)
    store.close()
    hit = SimpleNamespace(
        chunk_id=other.id,
        path="other.md",
        page_name="",
        headings=(),
    )
    monkeypatch.setattr(
        Searcher,
        "search_unused",
        lambda self, query, top: (hit,),
    )
    assert other.id in {
        row for pooled_hit in pool(project, depth=2) for row in pooled_hit.chunk_ids
    }
    assert len(pool(project, depth=2)) == len(hits) + 1


def test_judged_queries_that_were_made_from_the_documents_stay_synthetic_and_do_not_decide(
    project: ProjectFolder,
) -> None:
    queries = [
        SimpleNamespace(
            text="made of a sentence",
            split="heldout",
            kind="question",
            chunk_id=1,
            id=1,
            document_id=2,
        ),
        SimpleNamespace(
            text="trained", split="train", kind="question", chunk_id=1, id=2, document_id=1
        ),
    ]
    marks = (Mark("a.md", "text", "h", relevant=True),)
    gone = MarkedQuery(
        "made before",
        marks,
        generated=True,
    )
    typed = MarkedQuery("asked by a person", marks)
    write_marks(project, {query.key: query for query in (gone, typed)})
    texts = (
        "Made  of a SENTENCE?",
        typed.text,
        gone.text,
    )
    judged = [JudgedQuery(str(row), text, path="a.md") for row, text in enumerate(texts)]
    copies = [
        build_document(f"{name}.md", "text", title="", id=row) for row, name in ((1, "a"), (2, "b"))
    ]
    store = SimpleNamespace(
        judged=lambda: judged,
        queries=lambda: queries,
        documents=lambda: copies,
        cached=lambda _name, compute: compute(),
        each_document=lambda: iter(copies),
        document=lambda number: copies[number - 1],
        artifact=lambda _: None,
    )
    warned: list[str] = []
    context: Any = SimpleNamespace(
        store=store, settings=project.settings(), warn=warned.append, project=project
    )
    query_set = build_query_sets(context, [])[0]
    assert (query_set.kind, query_set.rung, query_set.synthetic, query_set.texts) == (
        "judged",
        "judged",
        False,
        [typed.text],
    )
    assert len(warned) == 1
    judged.pop(1)  # with none asked by people
    query_set = build_query_sets(context, [])[0]
    assert (query_set.kind, query_set.rung, query_set.synthetic, query_set.texts) == (
        "judged",
        None,
        True,
        [texts[0], gone.text],
    )
    assert [judgment.source for judgment in query_set.judgments] == [1, None]
    assert len(warned) == 1
