from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.project_files import mode
from fixtures.records import build_chunk, build_document, store_document

from engine.core.errors import DatasetError, EngineError, NotBuiltError, ResourceError, UsageError
from engine.core.records import JudgedQuery, Query
from engine.project.folder import ProjectFolder
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.artifacts import INCOMPLETE, Artifact
from engine.project.store.store import Store
from engine.queries.edits import FILE, apply_edits, content_fingerprint, edit_queries, read_edits

TEXTS = ["who pays the rent", "when is it due", "rent due date"]


def filled(project: ProjectFolder) -> Store:
    """One document with chunks of hash h1 and h2; two queries of the first, one of the second."""
    store = project.store()
    chunks = [
        build_chunk("x", ordinal=number, start=number, content_hash=f"h{number + 1}")
        for number in range(2)
    ]
    row = store_document(
        store,
        build_document(text="x" * 9),
        chunks,
    )
    first, second = (chunk.id for chunk in store.chunks())
    queries = [
        Query(text, "question", key, row, "x")
        for text, key in zip(TEXTS, (first, first, second), strict=True)
    ]
    store.replace_queries(
        queries,
        Artifact(QueriesInfo(content=content_fingerprint(queries), made=5), "f"),
    )
    return store


def noted(project: ProjectFolder) -> str:
    store = project.store()
    artifact = store.artifact(QueriesInfo)
    store.close()
    assert artifact is not None
    assert (artifact.fingerprint, artifact.info.made) == ("f", 5)
    return artifact.info.content


def made_again(store: Store, judged: frozenset[str] = frozenset()) -> list[str]:
    """The texts that the same generation gives now."""
    queries = [
        Query(text, "question", q.chunk_id, 1, "x") for q, text in zip(FRESH, TEXTS, strict=True)
    ]
    hashes = {key: content_hash for key, _, content_hash in store.chunk_keys()}
    return [
        query.text
        for query in apply_edits(
            queries, hashes, read_edits(ProjectFolder(store.path.parent)), judged
        )
    ]


FRESH = [Query(text, "question", key, 1, "x") for text, key in zip(TEXTS, (1, 1, 2), strict=True)]


def test_an_edit_is_made_at_once_and_again(project: ProjectFolder) -> None:
    store = filled(project)
    before = noted(project)
    assert edit_queries(project, store, {1: "  who must\npay the rent? "}) == 1
    assert [query.text for query in store.queries()] == ["who must pay the rent?", *TEXTS[1:]]
    assert noted(project) == content_fingerprint(store.queries()) != before
    assert made_again(store) == ["who must pay the rent?", *TEXTS[1:]]
    file = project.path / "imports" / FILE
    assert mode(file) == 0o600
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"chunk": "h1", "query": TEXTS[0], "text": "who must pay the rent?"}
    ]
    store.close()


def test_an_edit_of_an_edit_replaces_it_and_going_back_drops_it(project: ProjectFolder) -> None:
    store = filled(project)
    before = noted(project)
    edit_queries(
        project,
        store,
        {1: "second"},
    )
    edit_queries(
        project,
        store,
        {1: "third"},
    )
    assert read_edits(project) == {("h1", TEXTS[0]): "third"}
    edit_queries(
        project,
        store,
        {1: TEXTS[0]},
    )
    assert read_edits(project) == {}
    assert noted(project) == before
    store.close()


def test_a_query_taken_out_stays_out(project: ProjectFolder) -> None:
    store = filled(project)
    edit_queries(
        project,
        store,
        {2: "edited first"},
    )
    assert edit_queries(project, store, {2: None, 3: None, 77: None}) == 2
    assert [query.text for query in store.queries()] == TEXTS[:1]
    assert noted(project) == content_fingerprint(store.queries())
    assert read_edits(project) == {("h1", TEXTS[1]): None, ("h2", TEXTS[2]): None}
    assert made_again(store) == TEXTS[:1]
    store.close()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "query-empty"),
        (" \n\0\t", "query-empty"),
        ("When  is IT due", "query-duplicate"),
        ("What IS\u00a0owed?", "query-judged"),
    ],
)
def test_texts_that_are_refused(
    project: ProjectFolder,
    text: str,
    code: str,
) -> None:
    store = filled(project)
    store.put_judged([JudgedQuery("k", "what is owed", ("x",))])
    before = noted(project)
    with fails(UsageError, code):
        edit_queries(
            project,
            store,
            {1: text},
        )
    assert [query.text for query in store.queries()] == TEXTS
    assert noted(project) == before
    assert not (project.path / "imports" / FILE).exists()
    store.close()


def test_what_may_be_edited(project: ProjectFolder) -> None:
    store = filled(project)
    edit_queries(project, store, {1: "WHO PAYS THE RENT"})  # its own text in another case
    edit_queries(project, store, {1: TEXTS[1], 2: TEXTS[0]})  # two that change places
    assert [query.text for query in store.queries()] == [TEXTS[1], TEXTS[0], TEXTS[2]]
    assert made_again(store) == [TEXTS[1], TEXTS[0], TEXTS[2]]
    edit_queries(
        project,
        store,
        {3: "half \ud800 “quotes” 日本語\u2028next"},
    )
    assert store.queries()[2].text == "half ? “quotes” 日本語 next"
    with fails(UsageError, "query-missing", 77):
        edit_queries(
            project,
            store,
            {77: "new"},
        )
    with fails(UsageError, "query-duplicate"):
        edit_queries(
            project,
            store,
            {1: "same", 2: "Same"},
        )
    store.close()


def test_edits_that_meanwhile_equal_something_else_are_left_out() -> None:
    hashes = {1: "h1", 2: "h2"}
    edits: dict[tuple[str, str], str | None] = {
        ("h1", TEXTS[0]): "new",
        ("h1", TEXTS[1]): "New",
        ("h9", TEXTS[2]): None,
    }
    assert [q.text for q in apply_edits(FRESH, hashes, edits, frozenset())] == ["new", TEXTS[2]]
    assert [q.text for q in apply_edits(FRESH, hashes, edits, frozenset({"new"}))] == [TEXTS[2]]
    edits = {("h1", TEXTS[0]): TEXTS[2].upper()}
    assert [q.text for q in apply_edits(FRESH, hashes, edits, frozenset())] == TEXTS[1:]
    assert apply_edits(FRESH, hashes, {}, frozenset()) == FRESH


def test_nobody_changes_the_queries_while_an_edit_is_made(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the stage of a run that was killed, in its last moments."""
    store = filled(project)
    other = Store.open(project.path / "project.db", busy_seconds=0.0)
    real = Store.queries

    def queries(self: Store) -> list[Query]:
        with fails(EngineError, "project-busy"):
            other.replace_queries([], Artifact(QueriesInfo(), "g"))
        return real(self)

    monkeypatch.setattr(Store, "queries", queries)
    assert edit_queries(project, store, {1: "new"}) == 1
    assert [query.text for query in real(other)] == ["new", *TEXTS[1:]]
    store.close()
    other.close()


def test_nothing_to_edit_before_queries_were_made(project: ProjectFolder) -> None:
    store = project.store()
    with pytest.raises(NotBuiltError):
        edit_queries(
            project,
            store,
            {1: "new"},
        )
    store.put_artifact(Artifact(QueriesInfo(), INCOMPLETE))
    with pytest.raises(NotBuiltError):
        edit_queries(
            project,
            store,
            {1: None},
        )
    store.close()


def test_a_full_disk_undoes_the_edit(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(project)
    before = noted(project)

    def full(_path: Path, _text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("engine.datasets.imports.write_text", full)
    with fails(ResourceError, "disk-full"):
        edit_queries(
            project,
            store,
            {1: "new", 2: None},
        )
    assert [query.text for query in store.queries()] == TEXTS
    assert noted(project) == before
    store.close()


@pytest.mark.parametrize("first", [{}, {1: "kept"}])
def test_an_edit_whose_last_step_fails_is_undone_in_its_file_too(
    project: ProjectFolder, monkeypatch: pytest.MonkeyPatch, first: dict[int, str | None]
) -> None:
    store = filled(project)
    edit_queries(project, store, first)
    texts = [query.text for query in store.queries()]
    before = noted(project)
    edits = read_edits(project)
    real = Store.transaction

    @contextmanager
    def full(self: Store) -> Iterator[None]:
        with real(self):
            yield
            raise ResourceError("The disk is full.")  # as a commit does

    monkeypatch.setattr(Store, "transaction", full)
    with pytest.raises(ResourceError):
        edit_queries(
            project,
            store,
            {1: "new", 2: None},
        )
    assert [query.text for query in store.queries()] == texts
    assert (noted(project), read_edits(project)) == (before, edits)
    store.close()


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "3", '{"chunk": "h", "query": "q"}', '{"chunk": 1, "query": "q", "text": null}'],
)
def test_a_damaged_file_names_the_line(project: ProjectFolder, line: str) -> None:
    path = project.path / "imports" / FILE
    path.write_text('{"chunk": "h", "query": "q", "text": null}\n' + line + "\n")
    with pytest.raises(DatasetError) as caught:
        read_edits(project)
    assert "Line 2" in caught.value.why
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DatasetError):
        read_edits(project)
