"""A damaged database, a full disk, several connections: reported, and never worse than before."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath

import pytest
from fixtures.errors import fails
from fixtures.stored import ARTIFACT, chunk, live, put_document, put_file

from engine.core.errors import (
    DamagedError,
    EngineError,
    ProjectBusyError,
    ResourceError,
    UsageError,
)
from engine.core.records import JudgedQuery
from engine.project.store.connection import connect_for_reading
from engine.project.store.schema import SCHEMA_VERSION, database_uri, find_foreign_part
from engine.project.store.store import Store


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A database of some 40 pages, closed."""
    path = tmp_path / "closed.db"
    store = Store.create(path)
    for n in range(30):
        put_document(
            store,
            [f"chunk {n} {m} " + "word " * 60 for m in range(10)],
            f"{n}.md",
        )
    store.put_judged([JudgedQuery("k", "t", ("e",), (("d", 1),))])
    store.put_artifact(ARTIFACT)
    store.close()
    return path


def use_everything(path: Path) -> None:
    """Open, check and read all; raises only EngineError."""
    store = Store.open(path, check=True)
    try:
        store.chunks()
        store.chunks_by_id(range(400))
        store.documents(with_text=True)
        store.files()
        store.judged()
        store.artifacts()
        store.queries()
        store.counts()
        store.changed_share()
    finally:
        store.close()


def test_a_missing_file(tmp_path: Path) -> None:
    with fails(DamagedError, "database-missing"):
        Store.open(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 8192,
        b"hello",
        b"SQLite format 3\0" + b"\xff" * 4096,
        random.Random(0).randbytes(9000),
    ],
)
def test_garbage(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "garbage.db"
    path.write_bytes(content)
    with fails(DamagedError, "database-damaged", "garbage.db"):
        Store.open(path)


def test_a_truncated_file(closed: Path) -> None:
    whole = closed.read_bytes()
    for length in (1, 50, 100, 4000, 4096, len(whole) // 2, len(whole) - 4096):
        closed.write_bytes(whole[:length])
        with pytest.raises(DamagedError):
            use_everything(closed)


def test_flipped_bytes_are_found_or_harmless_but_never_a_fault(closed: Path) -> None:
    whole = closed.read_bytes()
    rng = random.Random(1)
    errors = 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(20):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        closed.write_bytes(data)
        try:
            use_everything(closed)
        except EngineError:
            errors += 1
    assert errors > 0


def test_a_damaged_page_is_found_by_the_check(closed: Path) -> None:
    data = bytearray(closed.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = random.Random(2).randbytes(4096)
    closed.write_bytes(data)
    with pytest.raises(DamagedError):
        Store.open(closed, check=True)


@pytest.mark.parametrize(
    ("table", "column"),
    [("chunks", "headings"), ("judged_queries", "grades"), ("artifacts", "info")],
)
def test_a_value_that_is_no_json_any_more(
    closed: Path,
    table: str,
    column: str,
) -> None:
    with sqlite3.connect(closed) as connection:
        connection.execute(f"UPDATE {table} SET {column} = '[\"A'")
    connection.close()
    with fails(DamagedError, "database-damaged"):
        use_everything(closed)


def test_bytes_that_are_no_text_any_more(closed: Path) -> None:
    with sqlite3.connect(closed) as connection:
        connection.execute("UPDATE chunks SET text = CAST(x'ff41' AS TEXT) WHERE id = 3")
    connection.close()
    with pytest.raises(DamagedError):
        use_everything(closed)


def set_version(path: Path, version: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()


def test_the_schema_of_a_newer_version_is_not_called_damage(closed: Path) -> None:
    set_version(closed, SCHEMA_VERSION + 1)
    with fails(UsageError, "database-too-new", f"version {SCHEMA_VERSION + 1}"):
        Store.open(closed)


def test_a_database_of_an_older_version_is_built_again(closed: Path) -> None:
    set_version(closed, SCHEMA_VERSION - 1)
    with fails(DamagedError, "database-outdated", f"version {SCHEMA_VERSION - 1}"):
        Store.open(closed)


@pytest.mark.parametrize("version", [0, -5])
def test_a_schema_version_that_never_was_is_damage(closed: Path, version: int) -> None:
    set_version(closed, version)
    with fails(DamagedError, "database-damaged", f"version {version}"):
        Store.open(closed)


# a full disk


def test_a_full_disk_is_reported_and_nothing_is_lost(
    small_disk: Path, disk_filler: Callable[..., None]
) -> None:
    store = Store.create(small_disk / "project.db")
    put_document(store, ["one"])
    before = live(store)
    disk_filler(small_disk, leave=16_384)
    with fails(ResourceError, "disk-full"):
        put_document(
            store,
            [f"{n} " + "word " * 200 for n in range(1000)],
            "b.md",
        )
    assert live(store) == before
    with pytest.raises(ResourceError):
        store.backup(small_disk / "project.db.bak")
    assert not (small_disk / "project.db.tmp").exists()
    (small_disk / "ballast").unlink()
    put_document(store, ["two"], "b.md")
    assert set(live(store)) == {"one", "two"}
    store.close()
    use_everything(small_disk / "project.db")


def test_a_database_that_cannot_be_made_leaves_no_trace(
    small_disk: Path, disk_filler: Callable[..., None]
) -> None:
    disk_filler(small_disk)
    with pytest.raises(ResourceError):
        Store.create(small_disk / "project.db")
    assert not (small_disk / "project.db").exists()


# several connections


def test_a_locked_database_is_busy_and_not_read_behind_its_owners_back(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = sqlite3.connect
    owner = opened(closed, isolation_level=None)
    owner.execute("PRAGMA locking_mode = EXCLUSIVE")
    owner.execute("SELECT count(*) FROM files").fetchone()
    monkeypatch.setattr(
        sqlite3,
        "connect",
        lambda *where, **options: opened(*where, **(options | {"timeout": 0.05})),
    )
    with fails(ProjectBusyError, "project-busy"):
        Store.open(closed)
    owner.close()
    Store.open(closed).close()


def test_a_reader_works_during_a_writers_transaction(store: Store, tmp_path: Path) -> None:
    put_document(store, ["one"])
    reader = Store.open(tmp_path / "project.db")
    with store.transaction():
        store.replace_chunks(1, [chunk(0, "one"), chunk(1, "two")])
        assert set(live(reader)) == {"one"}
        assert reader.counts()["chunks"] == 1
        assert set(live(store)) == {"one", "two"}
    assert set(live(reader)) == {"one", "two"}
    reader.close()


def test_a_log_that_its_writer_removes_meanwhile_is_no_fault(
    closed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = closed.stat()
    read_as = (
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
    )
    reader = Store(
        connect_for_reading(closed),
        closed,
        read_as,
    )
    log = Path(f"{closed}-wal")
    look = Path.stat

    def removed_after(path: Path, **options: bool) -> os.stat_result:
        status = look(path, **options)
        if path == log:
            log.unlink()
        return status

    log.write_bytes(b"a change")
    monkeypatch.setattr(Path, "stat", removed_after)
    assert [reader.is_stale, reader.is_stale] == [True, False]
    reader.close()


def test_a_second_writer_that_must_wait_too_long_fails(store: Store, tmp_path: Path) -> None:
    other = Store.open(tmp_path / "project.db", busy_seconds=0.02)
    with store.transaction():
        put_file(store)
        with fails(ProjectBusyError, "project-busy") as caught:
            put_file(other, "b.md")
    assert not isinstance(caught.value, DamagedError)
    assert put_file(other, "b.md")
    other.close()


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (PurePosixPath("/a b/project.db"), "file:///a%20b/project.db?mode=ro"),
        (PureWindowsPath(r"C:\a\project.db"), "file:///C:/a/project.db?mode=ro"),
        (
            PureWindowsPath(r"\\nas\all users\project.db"),
            "file:////nas/all%20users/project.db?mode=ro",
        ),
    ],
)
def test_sqlite_gets_no_servers_name_in_a_uri(path: PurePath, uri: str) -> None:
    assert database_uri(path, "mode=ro") == uri


@pytest.mark.posix(reason="on Windows two slashes are the beginning of a share's name")
def test_the_path_of_a_share_is_one_that_sqlite_opens(closed: Path) -> None:
    """Two slashes at its beginning, as on Windows, are the same as one here."""
    uri = database_uri(closed, "mode=ro").replace("file:///", "file:////", 1)
    connection = sqlite3.connect(uri, uri=True)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    connection.close()


def test_a_foreign_database_that_cannot_be_examined_is_not_taken_for_sound(
    closed: Path, tmp_path: Path
) -> None:
    assert find_foreign_part(closed) == ""
    (tmp_path / "text.db").write_text("no database " * 100)
    assert find_foreign_part(tmp_path / "text.db") == ""
    with fails(DamagedError, "database-damaged"):
        find_foreign_part(tmp_path)
    connection = sqlite3.connect(closed)
    connection.execute("CREATE VIEW endless AS SELECT 1")
    connection.commit()
    connection.close()
    assert "endless" in find_foreign_part(closed)
