"""Projects of an earlier version of the program are brought up to date when they are opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engine.core.records import DocumentQuery
from engine.project.store.schema import SCHEMA_VERSION
from engine.project.store.store import Store

# The tables as version 1 made them.
FIRST = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL, format TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, content_hash TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    chunking TEXT NOT NULL, UNIQUE (source, path));
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE, path TEXT NOT NULL,
    source TEXT NOT NULL, external_id TEXT, format TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
    content_hash TEXT NOT NULL, size INTEGER NOT NULL, modified REAL NOT NULL, live INTEGER NOT NULL DEFAULT 1);
CREATE INDEX documents_by_file ON documents (file_id);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL, headings TEXT NOT NULL,
    tokens INTEGER NOT NULL, embedded_text TEXT, content_hash TEXT NOT NULL, live INTEGER NOT NULL DEFAULT 1);
CREATE INDEX chunks_by_document ON chunks (document_id);
CREATE TABLE queries (
    id INTEGER PRIMARY KEY, text TEXT NOT NULL, kind TEXT NOT NULL, chunk_id INTEGER NOT NULL,
    document_id INTEGER NOT NULL, evidence TEXT NOT NULL, split TEXT NOT NULL);
CREATE TABLE judged_queries (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, text TEXT NOT NULL, evidence TEXT NOT NULL, grades TEXT NOT NULL,
    path TEXT);
CREATE TABLE artifacts (
    kind TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, folder TEXT NOT NULL, created REAL NOT NULL, info TEXT NOT NULL);
CREATE TABLE adaptation_chunks (content_hash TEXT PRIMARY KEY) WITHOUT ROWID;
INSERT INTO files VALUES (1, '/d', 'a.md', 'md', 5, 6, 'h', 'read', '', 'c');
INSERT INTO files VALUES (2, '/d', 'b.md', 'md', 5, 6, '', 'skipped', 'no', 'c');
INSERT INTO documents VALUES (1, 1, 'a.md', '/d', NULL, 'md', 'A', 'Birds
x
The pelican.', 'h', 5, 6.0, 1);
INSERT INTO artifacts VALUES ('corpus', 'f', '', 0.0, '{"skipped": {"c.qqq": "format not supported yet: .qqq"}}');
INSERT INTO artifacts VALUES ('queries', 'f', '', 0.0, '{"skipped": {"d": "no"}}');
INSERT INTO chunks VALUES (1, 1, 0, 9, 21, 'The pelican.', '[]', 4, NULL, 'x', 1);
PRAGMA user_version = 1;
"""


@pytest.fixture
def first(tmp_path: Path) -> Path:
    path = tmp_path / "project.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(FIRST)
    connection.close()
    return path


def columns(path: Path) -> dict[str, list[tuple[str, str, int, str | None]]]:
    connection = sqlite3.connect(path)
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
    found = {name: sorted(row[1:5] for row in connection.execute(f"PRAGMA table_info({name})")) for name in names}
    connection.close()
    return found


def test_a_project_of_the_first_version_is_brought_up_to_date(first: Path, tmp_path: Path) -> None:
    store = Store.open(first)
    (document,), (chunk,) = store.documents(with_text=True), store.chunks()
    assert document.text.endswith("The pelican.")
    assert (document.author, document.created, document.language) == ("", None, "")
    assert (chunk.text, chunk.pages, chunk.line, chunk.page) == ("The pelican.", (), 3, 2)
    assert [(row.path, row.state, row.documents) for row in store.ledger()] == [
        ("a.md", "read", 1),
        ("b.md", "skipped", 0),
        ("c.qqq", "skipped", 0),
    ]
    assert [(row.path, row.reason) for row in store.left_out()] == [("c.qqq", "format not supported yet: .qqq")]
    assert store.counts()["skipped"] == 2
    with store.transaction():
        store.replace_document_queries(1, [DocumentQuery("sea birds", "heading", 1, 1, 0, 5)])
    assert [(query.text, query.written_in) for query in store.document_queries()] == [("sea birds", 1)]
    store.close()
    Store.create(tmp_path / "new.db").close()
    assert columns(first) == columns(tmp_path / "new.db")
    Store.open(first, check=True).close()


def test_what_interrupts_it_changes_nothing(first: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.core.errors import DamagedError
    from engine.project.store import connection

    before = columns(first)
    monkeypatch.setattr(connection, "MIGRATIONS", {1: connection.MIGRATIONS[1] + "ALTER TABLE nothing ADD COLUMN x;"})
    with pytest.raises(DamagedError):
        Store.open(first)
    assert columns(first) == before
    monkeypatch.undo()
    Store.open(first).close()
    raw = sqlite3.connect(first)
    assert raw.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    raw.close()
