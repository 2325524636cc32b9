from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from fixtures.errors import fails
from fixtures.stored import ARTIFACT, chunk, document, live, put_document, put_file

from engine.core.errors import DamagedError, EngineError, InputError
from engine.core.platforms.users import is_private
from engine.core.records import JudgedQuery, Query
from engine.lexical.languages import language_of
from engine.project.store.artifact_info import CorpusInfo, QueriesInfo
from engine.project.store.artifacts import INCOMPLETE, Artifact
from engine.project.store.store import Store
from engine.queries.heldout import related_in


def test_records_come_back_as_they_were(store: Store) -> None:
    file_id = put_file(store)
    row = store.put_document(file_id, document(text="né 文", external_id="7"))
    store.replace_chunks(row, [chunk(0, "né"), chunk(1, "文", "Heading\n")])
    assert store.document(row) == document(text="né 文", external_id="7", id=row)
    assert store.document_card(row) == replace(
        document(text="né 文", external_id="7", id=row), text=""
    )
    assert store.documents() == [store.document_card(row)]
    assert store.documents(with_text=True) == [store.document(row)]
    first, second = store.chunks()
    assert first == replace(chunk(0, "né"), document_id=row, id=first.id)
    assert second == replace(chunk(1, "文", "Heading\n"), document_id=row, id=second.id)
    assert store.files()["/docs", "a.md"].id == file_id
    assert store.documents_of(file_id) == {"a.md": (row, "dhash")}
    assert store.counts() == {
        "files": 1,
        "skipped": 0,
        "quarantined": 0,
        "documents": 1,
        "chunks": 2,
        "queries": 0,
        "judged_queries": 0,
    }
    assert store.document(99) is None
    with fails(DamagedError, "database-damaged", "project.db"):
        store.document_card(99)


def test_a_value_is_computed_again_after_each_commit(store: Store) -> None:
    computed = list[int]()

    def count() -> int:
        computed.append(len(store.documents()))
        return computed[-1]

    def ask() -> list[int]:
        return [store.cached("documents", count) for _ in range(2)]

    assert (ask(), computed) == ([0, 0], [0])
    put_document(store, ["one"])
    assert (ask(), computed) == ([1, 1], [0, 1])
    with closing(Store.open(store.path)) as other:
        put_document(other, ["two"], "b.md")
    assert (ask(), computed) == ([2, 2], [0, 1, 2])
    with store.transaction():
        assert (ask(), computed) == ([2, 2], [0, 1, 2, 2, 2])  # may still be rolled back


def test_documents_are_related_anew_after_a_change(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (put_document(store, ["one"], path) for path in ("a.md", "b.md", "c.md"))
    assert related_in(store) == {first: first, second: first, third: first}  # equal contents
    with store.transaction():
        store.drop_document(first)
    assert related_in(store) == {second: second, third: second}
    monkeypatch.setattr(
        Store,
        "documents",
        lambda _store: pytest.fail("read again"),
    )
    assert related_in(store) == {second: second, third: second}


def test_a_list_of_languages_at_the_top_of_a_page_does_not_decide_its_language(
    store: Store,
) -> None:
    listed = (
        "Qhichwa simi Runa Shimi Aymar aru Avañe'ẽ Gàidhlig na h-Alba Gaeilge Brezhoneg Kernowek "
        * 20
    )
    prose = (
        "The tufted duck is a diving bird that breeds in the north and winters on sheltered lakes. "
        * 80
    )
    file_id = put_file(store)
    page = store.put_document(file_id, document(path="page.html", text=listed + prose))
    short = store.put_document(file_id, document(path="short.html", text=prose[:1800]))
    pieces = dict(store.documents_without_language(5))
    assert pieces[short] == prose[:900]
    assert len(pieces[page]) == 902
    assert {language_of(listed), language_of(pieces[page])} == {"gd", "en"}
    assert [row for row, _ in store.documents_without_language(1)] == [page]


def test_put_file_keeps_the_id(store: Store) -> None:
    first = put_file(store)
    put_file(store, "b.md")
    assert put_file(store) == first
    store.put_file(replace(store.files()["/docs", "a.md"], size=99, mtime_ns=100))
    assert (store.files()["/docs", "a.md"].size, store.files()["/docs", "a.md"].mtime_ns) == (
        99,
        100,
    )
    assert store.files()["/docs", "a.md"].id == first


def test_paths_of_formats_leave_out_what_is_gone(store: Store) -> None:
    put_file(store, "a.md")
    for path, format, state in (
        ("b.zip", "zip", "read"),
        ("c.mbox", "mbox", "read"),
        ("d.zip", "zip", "gone"),
    ):
        put_file(store, path)
        store.put_file(replace(store.files()["/docs", path], format=format, state=state))
    assert store.paths_of({"zip", "mbox"}) == {("/docs", "b.zip"), ("/docs", "c.mbox")}
    assert store.paths_of({"txt"}) == set()


def test_equal_chunks_keep_their_ids(store: Store) -> None:
    row = put_document(store, ["one", "two", "three"])
    before = live(store)
    assert store.replace_chunks(row, [chunk(0, "zero"), chunk(1, "three"), chunk(2, "one")]) == 1
    after = live(store)
    assert {text: after[text] for text in ("one", "three")} == {
        text: before[text] for text in ("one", "three")
    }
    assert after["zero"] not in before.values()
    assert [stored.ordinal for stored in sorted(store.chunks(), key=lambda c: c.ordinal)] == [
        0,
        1,
        2,
    ]
    assert store.chunk_keys() == [
        (stored.id, stored.document_id, stored.content_hash) for stored in store.chunks()
    ]


def test_the_same_text_twice_has_two_ids_and_keeps_both(store: Store) -> None:
    row = put_document(store, ["same", "same"])
    before = [stored.id for stored in store.chunks()]
    assert len(set(before)) == 2
    assert store.replace_chunks(row, [chunk(0, "same"), chunk(1, "same"), chunk(2, "same")]) == 1
    assert {stored.id for stored in store.chunks()} > set(before)
    store.replace_chunks(row, [chunk(0, "same")])
    assert store.replace_chunks(row, [chunk(0, "same")]) == 0
    assert [stored.id for stored in store.chunks()] == before[:1]


def test_superseded_chunks_stay_readable_until_purged(store: Store) -> None:
    row = put_document(store, ["one", "two"])
    old = live(store)
    store.replace_chunks(row, [chunk(0, "one")])
    assert set(live(store)) == {"one"}
    assert store.chunks_by_id(old.values())[old["two"]].text == "two"
    assert [key[:2] for key in store.chunk_keys()] == [(old["one"], row)]
    assert [key[:2] for key in store.chunk_keys(superseded=True)] == sorted(
        (key, row) for key in old.values()
    )
    assert store.purge_dead() == 1
    assert set(store.chunks_by_id(old.values())) == {old["one"]}


def test_a_superseded_chunk_that_comes_back_has_its_old_id(store: Store) -> None:
    row = put_document(store, ["one", "two"])
    old = live(store)
    store.replace_chunks(row, [chunk(0, "one")])
    assert store.replace_chunks(row, [chunk(0, "two")]) == 0
    assert live(store) == {"two": old["two"]}


def test_ids_of_purged_chunks_are_never_given_again(store: Store, tmp_path: Path) -> None:
    row = put_document(store, ["one", "two"])
    last = max(live(store).values())
    store.replace_chunks(row, [])
    store.purge_dead()
    store.backup(tmp_path / "copy.db")
    store.replace_chunks(row, [chunk(0, "three")])
    assert live(store)["three"] > last
    copy = Store.open(tmp_path / "copy.db")
    copy.replace_chunks(row, [chunk(0, "three")])
    assert live(copy)["three"] > last
    copy.close()


def test_chunks_of_deleted_documents_are_not_found(store: Store) -> None:
    put_document(store, ["one"], "a.md")
    gone = put_document(
        store,
        ["two"],
        "b.md",
    )
    ids = live(store)
    store.drop_document(gone)
    assert set(live(store)) == {"one"}
    assert set(store.chunks_by_id(ids.values())) == {ids["one"]}
    assert [key for key, *_ in store.chunk_keys(superseded=True)] == [ids["one"]]
    assert [listed.path for listed in store.documents()] == ["a.md"]
    assert store.purge_dead() == 1
    assert store.document(gone) is None


def test_a_forgotten_file_leaves_search_and_may_come_back(store: Store) -> None:
    put_document(store, ["one"])
    old = live(store)
    file_id = store.files()["/docs", "a.md"].id
    store.forget_file(file_id)
    assert store.chunks_by_id(old.values()) == {}
    assert store.files()["/docs", "a.md"].state == "gone"
    again = put_document(store, ["one"])
    store.purge_dead()
    assert [listed.id for listed in store.documents()] == [again]
    assert store.files()["/docs", "a.md"].state == "read"
    store.forget_file(file_id)
    assert store.purge_dead() == 1
    assert store.files() == {}


def test_forgetting_a_file_without_documents_removes_it(store: Store) -> None:
    store.forget_file(put_file(store))
    assert store.files() == {}


def test_chunks_by_id_takes_more_ids_than_sqlite_takes_variables(store: Store) -> None:
    put_document(store, [f"text {n}" for n in range(1200)])
    ids = [stored.id for stored in store.chunks()]
    assert list(store.chunks_by_id([*ids, 10**9])) == ids


def test_chunk_ids_of_some_documents_are_of_live_chunks(store: Store) -> None:
    rows = [put_document(store, [f"{name} {n}" for n in range(2)], f"{name}.md") for name in "abc"]
    stays, goes = [stored.id for stored in store.chunks_of(rows[2])]
    store.replace_chunks(rows[2], [chunk(0, "c 0")])
    assert goes not in store.chunk_ids_in(rows)
    assert sorted(store.chunk_ids_in([rows[0], rows[2], 10**9])) == [
        *(stored.id for stored in store.chunks_of(rows[0])),
        stays,
    ]


def test_fingerprint_follows_the_content(store: Store) -> None:
    empty = store.corpus_fingerprint()
    row = put_document(store, ["one", "two"])
    full = store.corpus_fingerprint()
    assert empty != full
    store.replace_chunks(row, [chunk(0, "two"), chunk(1, "one")])
    assert store.corpus_fingerprint() == full
    store.replace_chunks(row, [chunk(0, "two"), chunk(1, "one!")])
    assert store.corpus_fingerprint() != full


@pytest.mark.parametrize(
    ("count", "least", "most"), [(0, 0, 1), (1, 1, 1), (5, 5, 5), (10, 10, 10), (99, 10, 10)]
)
def test_sample_is_spread_over_the_corpus(
    store: Store,
    count: int,
    least: int,
    most: int,
) -> None:
    put_document(store, [f"text {n}" for n in range(10)])
    assert least <= len(store.sample_chunk_texts(count)) <= most
    if count == 5:
        assert store.sample_chunk_texts(5) == [f"text {n}" for n in (0, 2, 4, 6, 8)]


def test_ids_with_gaps_do_not_thin_out_a_sample(store: Store) -> None:
    put_document(store, ["first"])
    row = put_document(store, ["again 0"])
    for _ in range(30):
        store.replace_chunks(row, [chunk(n, f"again {n}") for n in range(20)])
    assert store.sample_chunk_texts(21) == ["first", *(f"again {n}" for n in range(20))]
    assert len(store.sample_chunk_texts(7)) == 7


def test_the_changed_share_counts_chunks_that_came_or_went(store: Store) -> None:
    assert store.changed_share() == 0
    row = put_document(store, ["a", "b", "c", "d"])
    assert store.changed_share() == 1
    query = Query(
        "q",
        "question",
        1,
        row,
        "a",
        "heldout",
    )
    lost = Query(
        "r",
        "claim",
        1,
        row,
        "b",
    )
    store.replace_queries(
        [query],
        ARTIFACT,
        [(lost, "copied"), (query, "why not")],
    )
    assert store.queries() == [replace(query, id=1)]
    assert store.rejected_page()[1] == [
        (lost, "copied"),
        (replace(query, split="train"), "why not"),
    ]
    assert store.artifact(QueriesInfo) == ARTIFACT
    assert store.changed_share() == 0
    store.replace_chunks(row, [chunk(n, text) for n, text in enumerate("abcx")])
    assert store.changed_share() == pytest.approx(2 / 5)
    store.replace_chunks(row, [])
    assert store.changed_share() == 1
    store.replace_queries([], ARTIFACT)
    assert (store.changed_share(), store.queries(), store.rejected_page()[1]) == (0, [], [])


def test_judged_queries_replace_those_with_their_key(store: Store) -> None:
    first = JudgedQuery(
        "k",
        "text",
        ("e1", "é"),
        (("d", 2),),
        "p",
    )
    assert store.put_judged([first, JudgedQuery("l", "other")]) == 2
    assert store.put_judged([replace(first, text="new")]) == 2
    assert store.judged() == [replace(first, text="new", id=1), JudgedQuery("l", "other", id=2)]


def test_the_newest_artifact_of_a_kind_is_current(store: Store) -> None:
    assert store.artifact(QueriesInfo) is None
    store.put_artifact(ARTIFACT)
    store.put_artifact(replace(ARTIFACT, fingerprint="new"))
    assert store.artifacts() == {"queries": replace(ARTIFACT, fingerprint="new")}


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    put_document(store, ["one"])

    def stopped() -> None:
        with store.transaction():
            store.drop_document(1)
            assert live(store) == {}
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert set(live(store)) == {"one"}
    put_document(store, ["two"], "b.md")
    assert set(live(store)) == {"one", "two"}


def test_a_savepoint_undoes_its_own_block_only(store: Store) -> None:
    def stopped() -> None:
        with store.savepoint():
            put_file(store, "inner.md")
            raise KeyboardInterrupt

    with store.transaction():
        put_file(store, "before.md")
        with pytest.raises(KeyboardInterrupt):
            stopped()
        with store.savepoint():
            put_file(store, "after.md")
    assert {path for _, path in store.files()} == {"before.md", "after.md"}


def test_what_is_being_changed_is_incomplete_until_it_is_put_again(store: Store) -> None:
    store.mark_incomplete(QueriesInfo)
    assert store.artifact(QueriesInfo) == Artifact(QueriesInfo(), INCOMPLETE)
    store.put_artifact(ARTIFACT)
    store.mark_incomplete(QueriesInfo)
    assert store.artifact(QueriesInfo) == replace(ARTIFACT, fingerprint=INCOMPLETE)


def test_a_file_has_chunks_while_they_are_live(store: Store) -> None:
    row = put_document(store, ["one"])
    file_id = put_file(store)
    assert store.has_chunks(file_id)
    assert not store.has_chunks(put_file(store, "b.md"))
    store.drop_document(row)
    assert not store.has_chunks(file_id)


def checkpoint(database: Path) -> None:
    """Move what the log holds into the file itself."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def test_deleted_text_does_not_stay_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a SQLite that leaves deleted bytes where they are, as it does unless it is built
    otherwise.
    """
    opened = sqlite3.connect

    def plain(*arguments: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = opened(*arguments, **options)  # type: ignore[call-overload]
        connection.execute("PRAGMA secure_delete = OFF")
        return connection

    monkeypatch.setattr(sqlite3, "connect", plain)
    store = Store.create(tmp_path / "project.db")
    put_document(store, ["kept"], "a.md")
    gone = put_document(
        store,
        ["pelican " + "word " * 3000, "short pelican"],
        "b.md",
    )
    checkpoint(store.path)
    assert b"pelican" in (tmp_path / "project.db").read_bytes()
    store.drop_document(gone)
    assert store.purge_dead() == 2
    checkpoint(store.path)
    assert b"kept" in (tmp_path / "project.db").read_bytes()
    assert all(b"pelican" not in path.read_bytes() for path in tmp_path.iterdir())
    store.close()


def test_a_failed_set_of_queries_leaves_the_former_one(store: Store) -> None:
    good = Query(
        "q",
        "question",
        1,
        1,
        "e",
    )
    store.replace_queries([good], ARTIFACT)
    with pytest.raises(DamagedError):
        store.replace_queries([replace(good, text=None)], replace(ARTIFACT, fingerprint="new"))  # type: ignore[arg-type]
    assert [query.text for query in store.queries()] == ["q"]
    assert store.artifact(QueriesInfo) == ARTIFACT


def test_text_that_utf8_cannot_hold_is_the_inputs_fault(store: Store) -> None:
    with fails(InputError, "text-not-storable") as caught:
        put_file(store, "caf\udce9.md")
    str(caught.value).encode()
    with fails(InputError, "text-not-storable", "14 of 14") as caught:
        put_document(store, ["fine", "half a pair: \ud83d"])
    assert "half" not in f"{caught.value.what} {caught.value.why}", (
        "errors are recorded: they quote no document"
    )
    assert live(store) == {}


def test_a_fault_of_the_program_does_not_blame_the_file(store: Store) -> None:
    with pytest.raises(sqlite3.ProgrammingError):
        store.document([1])  # type: ignore[arg-type]


def test_an_error_of_the_system_within_a_transaction_is_not_blamed_on_the_database(
    store: Store,
) -> None:
    with pytest.raises(FileNotFoundError), store.transaction():
        Path("/no/such/file").read_text()


def test_create_refuses_an_existing_file_and_is_private(store: Store, tmp_path: Path) -> None:
    with fails(EngineError, "project-exists"):
        Store.create(tmp_path / "project.db")
    put_document(store, ["one"])
    assert is_private((tmp_path / "project.db").stat())
    assert is_private((tmp_path / "project.db-wal").stat())


def test_create_in_a_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        Store.create(tmp_path / "missing" / "project.db")


def test_chunks_come_one_after_the_other_as_all_at_once(store: Store) -> None:
    row = put_document(store, ["one", "two", "three", "four", "five"])
    store.replace_chunks(row, [chunk(0, "one"), chunk(1, "three"), chunk(2, "five")])
    assert [stored.text for stored in store.each_chunk(2)] == ["one", "three", "five"]
    assert list(store.each_chunk(2)) == store.chunks()


def test_owners_are_those_of_chunks_that_are_found(store: Store) -> None:
    first = put_document(store, ["one", "two"])
    second = put_document(
        store,
        ["three"],
        "b.md",
    )
    ids = live(store)
    store.drop_document(second)
    assert store.owners_of([*ids.values(), 999]) == {ids["one"]: first, ids["two"]: first}


def test_a_finished_ingest_vouches_for_the_fingerprint_until_another_begins(store: Store) -> None:
    put_document(store, ["one"])
    computed = store.corpus_fingerprint()
    store.put_artifact(Artifact(CorpusInfo("noted"), "f"))
    assert store.corpus_fingerprint() == "noted"
    with store.transaction():
        store.mark_incomplete(CorpusInfo)
    assert store.corpus_fingerprint() == computed


def test_only_a_large_database_is_spared_another_copy(store: Store, tmp_path: Path) -> None:
    copy = tmp_path / "project.db.bak"
    assert not store.is_fresh(store.path, copy)
    store.backup(copy)
    assert not store.is_fresh(store.path, copy)
    assert store.is_fresh(store.path, copy, large=0)
    os.utime(copy, (1, 1))
    assert not store.is_fresh(store.path, copy, large=0)


def test_damage_makes_the_next_run_look_at_every_page(store: Store) -> None:
    copy = store.path.with_name("project.db.bak")
    put_document(store, ["one"])
    store.backup(copy)
    assert store.is_fresh(store.path, copy, large=0)
    with sqlite3.connect(store.path) as other:
        other.execute("UPDATE chunks SET headings = 'no JSON'")
    with fails(DamagedError, "database-damaged"):
        store.chunks()
    assert not store.is_fresh(store.path, copy, large=0)


def test_backup_and_restore(store: Store, tmp_path: Path) -> None:
    put_document(store, ["one"])
    target = tmp_path / "project.db.bak"
    store.backup(target)
    put_document(store, ["two"], "b.md")
    assert is_private(target.stat())
    shutil.copy(target, tmp_path / "restored.db")
    restored = Store.open(tmp_path / "restored.db", check=True)
    assert set(live(restored)) == {"one"}
    restored.close()
    store.backup(target)
    assert not (tmp_path / "project.db.tmp").exists()
    newer = Store.open(target, check=True)
    assert set(live(newer)) == {"one", "two"}
    newer.close()


def test_a_backup_that_fails_leaves_the_former_one(store: Store, tmp_path: Path) -> None:
    put_document(store, ["one"])
    target = tmp_path / "project.db.bak"
    store.backup(target)
    former = target.read_bytes()
    with store.transaction(), pytest.raises(EngineError):
        store.backup(target)
    assert target.read_bytes() == former
    assert not (tmp_path / "project.db.tmp").exists()
