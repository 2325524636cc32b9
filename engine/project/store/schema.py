"""The tables of project.db."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sized
from contextlib import closing
from pathlib import Path, PurePath

from engine.core.errors import DamagedError

SCHEMA_VERSION = 11
_DOCUMENT_QUERIES = """
CREATE TABLE document_queries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL, origin TEXT NOT NULL, chunk_id INTEGER,
    document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE, start INTEGER NOT NULL, end INTEGER NOT NULL,
    target TEXT NOT NULL);
CREATE INDEX document_queries_by_document ON document_queries (document_id);
"""  # noqa: E501
_OVERVIEWS = """
CREATE INDEX documents_overview ON documents (
    id, live, language, file_id, path, source, external_id, format, title, content_hash, size, modified, author, created, changed, tags);
CREATE INDEX chunks_overview ON chunks (id, live, document_id, content_hash);
"""  # noqa: E501
"""Indexes over all short columns.

Queries that need only these for every row do not read the texts, which are most of the file.
"""
NOTE_CONTENTS = """INSERT OR REPLACE INTO contents SELECT id, length(text),
    (SELECT sha256(group_concat(id || ':' || content_hash)) FROM
    (SELECT id, content_hash FROM chunks WHERE document_id = documents.id AND live ORDER BY id)) FROM documents"""  # noqa: E501
_CONTENTS = """
CREATE TABLE contents (
    document_id INTEGER PRIMARY KEY REFERENCES documents(id) ON DELETE CASCADE, characters INTEGER NOT NULL,
    chunks TEXT NOT NULL);
"""  # noqa: E501
"""The length of each document's text, and a digest of its live chunks, empty without any.

Used by queries over all documents.
"""
SCHEMA = f"""
CREATE TABLE files (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL, path TEXT NOT NULL, format TEXT NOT NULL, size INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, content_hash TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    chunking TEXT NOT NULL, kind TEXT NOT NULL DEFAULT '', ctime_ns INTEGER NOT NULL DEFAULT 0, UNIQUE (source, path));
CREATE TABLE parts (
    file_id INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE, path TEXT NOT NULL, state TEXT NOT NULL,
    kind TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (file_id, path)) WITHOUT ROWID;
CREATE TABLE left_out (
    source TEXT NOT NULL, path TEXT NOT NULL, kind TEXT NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (source, path)) WITHOUT ROWID;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, file_id INTEGER NOT NULL REFERENCES files(id) ON DELETE CASCADE, path TEXT NOT NULL,
    source TEXT NOT NULL, external_id TEXT, format TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL,
    content_hash TEXT NOT NULL, size INTEGER NOT NULL, modified REAL NOT NULL, live INTEGER NOT NULL DEFAULT 1,
    author TEXT NOT NULL DEFAULT '', created REAL, changed REAL, tags TEXT NOT NULL DEFAULT '', language TEXT NOT NULL DEFAULT '');
CREATE INDEX documents_by_file ON documents (file_id);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, document_id INTEGER NOT NULL REFERENCES documents(id) ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start INTEGER NOT NULL, end INTEGER NOT NULL, text TEXT NOT NULL, headings TEXT NOT NULL,
    tokens INTEGER NOT NULL, embedded_text TEXT, content_hash TEXT NOT NULL, live INTEGER NOT NULL DEFAULT 1,
    pages TEXT NOT NULL DEFAULT '[]', line INTEGER NOT NULL DEFAULT 1, page INTEGER);
CREATE INDEX chunks_by_document ON chunks (document_id);
CREATE TABLE queries (
    id INTEGER PRIMARY KEY, text TEXT NOT NULL, kind TEXT NOT NULL, chunk_id INTEGER NOT NULL,
    document_id INTEGER NOT NULL, evidence TEXT NOT NULL, split TEXT NOT NULL, imported INTEGER NOT NULL DEFAULT 0);
CREATE TABLE rejected_queries (
    id INTEGER PRIMARY KEY, text TEXT NOT NULL, kind TEXT NOT NULL, chunk_id INTEGER NOT NULL,
    document_id INTEGER NOT NULL, evidence TEXT NOT NULL, reason TEXT NOT NULL, imported INTEGER NOT NULL DEFAULT 0);
CREATE TABLE judged_queries (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, text TEXT NOT NULL, evidence TEXT NOT NULL, grades TEXT NOT NULL,
    path TEXT, also TEXT NOT NULL DEFAULT '[]');
CREATE TABLE artifacts (
    kind TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, folder TEXT NOT NULL, created REAL NOT NULL, info TEXT NOT NULL);
CREATE TABLE adaptation_chunks (content_hash TEXT PRIMARY KEY) WITHOUT ROWID;
{_DOCUMENT_QUERIES}{_OVERVIEWS}{_CONTENTS}"""  # noqa: E501

_ALL = "SELECT type, name, rootpage FROM sqlite_master"
# Finds a generated column of a table.
_COMPUTED = "SELECT 1 FROM pragma_table_xinfo(?) WHERE hidden"


def placeholders(values: Sized) -> str:
    """Return the placeholders of some values in a statement."""
    return ", ".join("?" * len(values))


def assignments(columns: Iterable[str]) -> str:
    """Return the SET clause that gives columns new values."""
    return ", ".join(f"{column} = ?" for column in columns)


def find_foreign_part(path: Path) -> str:
    """Describe a part of a foreign database that no project has; empty if there is none.

    Such parts are views (reading one can take for ever), triggers, virtual tables and tables with
    generated columns. Empty as well for a file that is no database. Raises DamagedError if it
    cannot be examined.
    """
    with closing(sqlite3.connect(":memory:")) as project:
        project.executescript(SCHEMA)
        known = {(kind, name) for kind, name, _ in project.execute(_ALL)}
    try:
        with closing(
            sqlite3.connect(database_uri(path.absolute(), "mode=ro"), uri=True)
        ) as foreign:
            return _find_unknown_part(foreign, known)
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_NOTADB:
            return ""
        raise DamagedError(
            f"{path} could not be examined.",
            f"SQLite says: {error}.",
            "Make the bundle again, or copy it again.",
            code="database-damaged",
        ) from error


def _find_unknown_part(foreign: sqlite3.Connection, known: set[tuple[str, str]]) -> str:
    """Describe the first part of a database that no project has; empty if there is none.

    `known`: (kind, name) of a project's tables and indexes. Even a known table must not have
    generated columns.
    """
    for kind, name, page in foreign.execute(_ALL).fetchall():
        is_known = (kind, name) in known or name.startswith("sqlite_")
        # Views, triggers and virtual tables have no page of their own.
        if not is_known or not page or foreign.execute(_COMPUTED, (name,)).fetchone():
            return f"the {kind} {name!r}"
    return ""


def database_uri(path: PurePath, options: str) -> str:
    """Return the URI by which SQLite opens an absolute path.

    SQLite takes no server's name in a URI: that of a share on Windows becomes a part of the path,
    as in `file:////server/share/project.db`.
    """
    uri = path.as_uri()
    if not uri.startswith("file:///"):
        uri = uri.replace("file://", "file:////", 1)
    return f"{uri}?{options}"
