"""Projects of an earlier version of the program are brought up to date when they are opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from fixtures.errors import fails

from engine.core.errors import DamagedError
from engine.core.records import DocumentQuery, JudgedQuery
from engine.project.store import connection
from engine.project.store.schema import MIGRATIONS, SCHEMA_VERSION
from engine.project.store.store import Store

ROWS = """
INSERT INTO files (id, source, path, format, size, mtime_ns, content_hash, state, chunking)
VALUES (1, '/d', 'a.md', 'md', 5, 6, 'h', 'read', 'c');
INSERT INTO documents (id, file_id, path, source, format, title, text, content_hash, size, modified)
VALUES (1, 1, 'a.md', '/d', 'md', 'A', 'Birds. The pelican.', 'h', 5, 6.0);
INSERT INTO chunks (id, document_id, ordinal, start, end, text, headings, tokens, content_hash)
VALUES (1, 1, 0, 7, 19, 'The pelican.', '[]', 4, 'x'), (2, 1, 1, 0, 6, 'Birds.', '[]', 2, 'y');
INSERT INTO documents (id, file_id, path, source, format, title, text, content_hash, size, modified, language)
VALUES (2, 1, 'a.md/b', '/d', 'md', 'B', 'Möwe', 'h', 5, 6.0, 'de');
ALTER TABLE queries DROP COLUMN imported;
ALTER TABLE rejected_queries DROP COLUMN imported;
ALTER TABLE judged_queries DROP COLUMN also;
INSERT INTO queries (text, kind, chunk_id, document_id, evidence, split)
VALUES ('mine', 'imported', 1, 1, 'e', 'train'), ('theirs', 'claim', 1, 1, 'e', 'heldout');
INSERT INTO rejected_queries (text, kind, chunk_id, document_id, evidence, reason)
VALUES ('lost', 'imported', 1, 1, 'e', 'empty');
INSERT INTO judged_queries (key, text, evidence, grades) VALUES ('k', 'Which?', '["e"]', '[]');
DROP TABLE document_queries;
DROP TABLE contents;
DROP INDEX documents_overview;
DROP INDEX chunks_overview;
PRAGMA user_version = 6;
"""  # noqa: E501


@pytest.fixture
def former(tmp_path: Path) -> Path:
    """The database of a project as version 0.1 left it: without what documents say they are
    about.
    """
    path = tmp_path / "project.db"
    Store.create(path).close()
    with sqlite3.connect(path) as raw:
        raw.executescript(ROWS)
    raw.close()
    return path


def columns(path: Path) -> dict[str, list[Any]]:
    raw = sqlite3.connect(path)
    names = [
        row[0]
        for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    ]
    found: dict[str, list[Any]] = {
        name: sorted(row[1:5] for row in raw.execute(f"PRAGMA table_info({name})"))
        for name in names
    }
    found["indexes"] = sorted(
        raw.execute("SELECT sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
    )
    raw.close()
    return found


def test_a_project_of_the_version_before_is_brought_up_to_date(
    former: Path, tmp_path: Path
) -> None:
    store = Store.open(former)
    assert [chunk.text for chunk in store.chunks()] == ["The pelican.", "Birds."]
    assert store.languages_but("en") == [(2, "de", 4)]
    fingerprint = store.corpus_fingerprint()
    chunks = store.chunks_of(1)
    with store.transaction():
        assert store.replace_chunks(1, chunks[:1]) == 0
    assert store.corpus_fingerprint() != fingerprint
    with store.transaction():
        assert store.replace_chunks(1, chunks) == 0
    assert store.corpus_fingerprint() == fingerprint
    with store.transaction():
        store.replace_document_queries(1, [DocumentQuery("sea birds", "heading", 1, 1, 0, 5)])
    assert [(query.text, query.written_in) for query in store.document_queries()] == [
        ("sea birds", 1)
    ]
    assert [(query.kind, query.imported) for query in store.queries()] == [
        ("imported", True),
        ("claim", False),
    ]
    assert [query.imported for query, _ in store.rejected_page()[1]] == [True]
    assert store.judged() == [JudgedQuery("k", "Which?", ("e",), id=1)]
    store.close()
    Store.create(tmp_path / "new.db").close()
    assert columns(former) == columns(tmp_path / "new.db")
    Store.open(former, check=True).close()


def test_what_interrupts_it_changes_nothing(former: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = columns(former)
    monkeypatch.setattr(
        connection, "MIGRATIONS", {6: MIGRATIONS[6] + "ALTER TABLE nothing ADD COLUMN x;"}
    )
    with fails(DamagedError, "database-damaged"):
        Store.open(former)
    assert columns(former) == before
    monkeypatch.undo()
    Store.open(former).close()
    raw = sqlite3.connect(former)
    assert raw.execute("PRAGMA user_version").fetchone()[0] == SCHEMA_VERSION
    raw.close()
