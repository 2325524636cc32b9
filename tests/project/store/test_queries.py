from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest
from fixtures.records import build_chunk

from engine.core.records import Chunk, Document, DocumentQuery, FurtherAnswer, JudgedQuery, Query
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.artifacts import Artifact
from engine.project.store.files import FileRecord
from engine.project.store.store import Store


@pytest.fixture
def store(project: ProjectFolder) -> Iterator[Store]:
    opened = project.store()
    yield opened
    opened.close()


def put(
    store: Store,
    path: str,
    hashes: list[str],
    state: str = "read",
) -> int:
    with store.transaction():
        file_id = store.put_file(FileRecord("/docs", path, "md", 5, 7, "h", state, "closed", ""))
        row = store.put_document(file_id, Document(path, "/docs", "md", path, "text", "h", 1, 0.0))
        store.replace_chunks(row, [build_chunk(digest, content_hash=digest) for digest in hashes])
    return row


def test_the_corpus_fingerprint_follows_every_change(project: ProjectFolder, store: Store) -> None:
    put(
        store,
        "a.md",
        ["h1", "h2"],
    )
    first = store.corpus_fingerprint()
    assert store.corpus_fingerprint() == first
    with suppress(ValueError), store.transaction():
        store.drop_document(1)
        assert store.corpus_fingerprint() != first
        raise ValueError("undo")
    assert store.corpus_fingerprint() == first
    other = project.store()
    second_row = put(
        other,
        "b.md",
        ["h3"],
    )
    second = store.corpus_fingerprint()
    assert second == other.corpus_fingerprint() != first
    store.drop_document(second_row)
    assert store.corpus_fingerprint() == other.corpus_fingerprint() == first
    other.close()


def test_chunks_of_documents_that_are_there(store: Store) -> None:
    first = put(
        store,
        "a.md",
        ["h1", "h2"],
    )
    second = put(
        store,
        "b.md",
        ["h2"],
    )
    assert [chunk.content_hash for chunk in store.chunks_of(first)] == ["h1", "h2"]
    ids = {chunk.content_hash: chunk.id for chunk in store.chunks_of(first)}
    (copy,) = store.chunks_of(second)
    assert store.chunk_ids_of("h2") == [ids["h2"], copy.id]
    assert store.documents_at("b.md") == [second]
    with store.transaction():
        store.replace_chunks(first, [Chunk(first, 0, 0, 1, "h9", (), 1, "h9", "h9")])
        store.drop_document(second)
    assert store.chunk_ids_of("h2") == store.documents_at("b.md") == []
    chunks = store.chunks_by_id([ids["h1"], copy.id, 99])
    assert [chunk.text for chunk in chunks.values()] == ["h1"]  # superseded, not deleted


def test_skipped_files_can_be_forgotten_and_others_not(store: Store) -> None:
    row = put(
        store,
        "closed.md",
        ["h1"],
        "skipped",
    )
    put(store, "read.md", ["h2"])
    put(
        store,
        "broken.md",
        ["h3"],
        "quarantined",
    )
    both = [("/docs", "broken.md", "closed"), ("/docs", "closed.md", "closed")]
    assert [
        store.unread_files(),
        store.unread_files("quarantined"),
        store.unread_files("skipped"),
    ] == [
        both,
        both[:1],
        both[1:],
    ]
    assert [store.counts()[what] for what in ("files", "skipped", "quarantined")] == [1, 1, 1]
    assert store.forget_reading("/docs", "closed.md") is True
    assert store.forget_reading("/docs", "read.md") is False
    assert store.forget_reading("/docs", "none.md") is False
    files = store.files()
    assert (files["/docs", "closed.md"].mtime_ns, files["/docs", "closed.md"].state) == (
        -1,
        "skipped",
    )
    assert (files["/docs", "read.md"].size, files["/docs", "read.md"].mtime_ns) == (5, 7)
    assert [chunk.content_hash for chunk in store.chunks_of(row)] == ["h1"]


def test_pages_of_queries(store: Store) -> None:
    queries = [
        Query(
            f"text {n}", "title" if n % 2 else "claim", 1, 1, "e", "train" if n < 4 else "heldout"
        )
        for n in range(6)
    ]
    store.replace_queries(queries, Artifact(QueriesInfo(), "f"))

    def page(
        offset: int = 0,
        limit: int = 9,
        **where: object,
    ) -> tuple[int, list[int]]:
        total, queries_of_page = store.query_page(offset, limit, **where)  # type: ignore[arg-type]
        return total, [query.id for query in queries_of_page]

    assert page(1, 2) == (6, [2, 3])
    assert page(kind="title") == (3, [2, 4, 6])
    assert page(kind="title", split="train") == (2, [2, 4])
    assert page(matches=lambda text: text.endswith(("1", "4"))) == (2, [2, 5])
    assert page(limit=1, matches=lambda text: text.endswith(("1", "4")), split="heldout") == (
        1,
        [5],
    )
    assert store.query_counts() == ({"claim": 3, "title": 3}, {"heldout": 2, "train": 4})
    with store.transaction():
        assert store.rewrite_queries({1: "new", 2: None, 77: None, 78: "none"}) == 2
    assert [(query.id, query.text) for query in store.queries()][:2] == [(1, "new"), (3, "text 2")]
    assert (store.query(2), store.query(1)) == (None, store.queries()[0])


def test_judged_queries_can_be_dropped(store: Store) -> None:
    store.put_judged([JudgedQuery(key, key, ("e",)) for key in "abc"])
    assert store.drop_judged(["a", "none"]) == 2
    assert [query.key for query in store.judged()] == ["b", "c"]


def test_document_queries_live_as_long_as_their_document(store: Store) -> None:
    second = put(
        store,
        "b.md",
        ["h1"],
    )
    first = put(
        store,
        "a.md",
        ["h2"],
    )

    def replaced(row: int, *queries: DocumentQuery) -> list[tuple[str, int]]:
        with store.transaction():
            store.replace_document_queries(row, queries)
        return [(query.text, query.written_in) for query in store.document_queries()]

    heading = DocumentQuery(
        "heading",
        "heading",
        1,
        second,
        3,
        10,
    )
    link = DocumentQuery(
        "link",
        "link",
        None,
        second,
        target="a.md#x",
    )
    replaced(second, heading, link)
    assert replaced(first, DocumentQuery("name", "title", None, first)) == [
        ("name", first),
        ("heading", second),
        ("link", second),
    ]
    remaining = store.document_queries()[1:]
    assert [replace(query, id=0) for query in remaining] == [
        replace(query, written_in=second) for query in (heading, link)
    ]
    assert len({query.id for query in store.document_queries()}) == 3
    former = DocumentQuery("of before", "filename", None, second)  # type: ignore[arg-type]
    assert replaced(second, DocumentQuery("new", "title", None, second), former) == [
        ("name", first),
        ("new", second),
    ]
    with store.transaction():
        store.drop_document(second)
    assert [query.text for query in store.document_queries()] == ["name"]
    store.purge_dead()
    assert replaced(first) == []


def test_an_imported_query_keeps_its_kind(store: Store) -> None:
    mine = Query(
        "mine",
        "everyday",
        1,
        1,
        "e",
        imported=True,
    )
    model = Query(
        "the model's",
        "everyday",
        1,
        1,
        "e",
        "heldout",
    )
    store.replace_queries(
        [mine, model], Artifact(QueriesInfo(), "f"), [(mine, "duplicate"), (model, "copied")]
    )
    assert store.queries() == [replace(mine, id=1), replace(model, id=2)]
    assert store.query(1) == replace(mine, id=1)
    assert store.rejected_page()[1] == [
        (mine, "duplicate"),
        (replace(model, split="train"), "copied"),
    ]


def test_judged_queries_keep_what_else_answers_them(store: Store) -> None:
    also = (
        FurtherAnswer("b.md", ("That.", "This.")),
        FurtherAnswer(None, ("It.",)),
        FurtherAnswer("c.md"),
    )
    store.put_judged(
        [
            JudgedQuery("k", "who?", ("He.",), path="a.md", also=also),
            JudgedQuery("l", "what?", ("e",)),
        ]
    )
    assert [query.also for query in store.judged()] == [also, ()]
    store.put_judged([JudgedQuery("k", "who?", ("He.",), path="a.md")])
    assert [query.also for query in store.judged()] == [(), ()]
