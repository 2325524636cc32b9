"""The only SQL: files, documents, chunks, queries, judgments, artifacts and runs of one project, in SQLite (WAL)."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from engine.errors import DamagedError, EngineError, InputError, ResourceError, UsageError
from engine.records import Chunk, Document, JudgedQuery, Query

SCHEMA_VERSION = 1
SCHEMA = """
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
CREATE TABLE runs (id TEXT PRIMARY KEY, state TEXT NOT NULL, started REAL NOT NULL, finished REAL);
"""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of the corpus as last read. `state`: read or skipped (then `reason` says why)."""

    source: str
    path: str
    format: str
    size: int
    mtime_ns: int
    content_hash: str
    state: str
    reason: str
    chunking: str
    id: int = 0


@dataclass(frozen=True, slots=True)
class Artifact:
    """The current artifact of a kind: its fingerprint, its folder (relative to the project) and what its stage noted."""

    kind: str
    fingerprint: str
    folder: str
    created: float
    info: dict[str, Any]


class Store:
    """One connection to project.db. Not shared between threads. Every method may raise DamagedError or ResourceError."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db, self.path = connection, path

    @classmethod
    def create(cls, path: Path) -> Store:
        """Make an empty database. Raises EngineError where one exists."""
        if path.exists():
            raise EngineError(
                f"{path} exists already.", "A project is created only once.", "Open it, or choose another folder."
            )
        with guarded(path):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # SQLite's other files get its mode
            try:
                connection = _connect(path)
                try:
                    connection.executescript(f"BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
                except BaseException:
                    connection.close()
                    raise
            except BaseException:
                path.unlink(missing_ok=True)
                raise
        return cls(connection, path)

    @classmethod
    def open(cls, path: Path, *, check: bool = False) -> Store:
        """Open project.db; with `check`, verify every page first. Raises DamagedError; UsageError for a newer version's."""
        if not path.is_file():
            raise DamagedError(
                f"{path} is missing.", "The project's database is gone.", "Run 'engine run' to build it again."
            )
        with guarded(path):
            connection = _connect(path)
            try:
                _check(connection, path, every_page=check)
            except BaseException:
                connection.close()
                raise
        return cls(connection, path)

    def close(self) -> None:
        """Close the connection."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing: every statement in the block is committed together."""
        with guarded(self.path):
            self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            with guarded(self.path):
                self._db.commit()
        except BaseException:
            with suppress(sqlite3.Error):  # a full disk may have rolled back already, or may stop even this
                self._db.rollback()
            raise

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        with guarded(self.path):
            return self._db.execute(sql, values).fetchall()

    def _json(self, text: str) -> Any:
        try:
            return json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise _damaged(self.path, f"a value is not JSON ({error})") from None

    def backup(self, target: Path) -> None:
        """Write a consistent copy to `target`, replacing a former one only when it is complete and on the disk."""
        temporary = target.with_suffix(".tmp")
        with guarded(self.path):
            try:
                temporary.unlink(missing_ok=True)
                self._db.execute("VACUUM INTO ?", (str(temporary),))
                temporary.chmod(0o600)
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())  # SQLite does not
                temporary.replace(target)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise

    # files and documents

    def files(self) -> dict[tuple[str, str], FileRecord]:
        """Every known file by (source, path)."""
        rows = self._rows(
            "SELECT source, path, format, size, mtime_ns, content_hash, state, reason, chunking, id FROM files"
        )
        return {(row[0], row[1]): FileRecord(*row) for row in rows}

    def touch_file(self, file_id: int, size: int, mtime_ns: int) -> None:
        """Note a new time stamp for a file whose content is unchanged."""
        self._rows("UPDATE files SET size = ?, mtime_ns = ? WHERE id = ?", (size, mtime_ns, file_id))

    def put_file(self, record: FileRecord) -> int:
        """Insert or replace the record of a file, keeping its id; returns the id."""
        rows = self._rows(
            """INSERT INTO files (source, path, format, size, mtime_ns, content_hash, state, reason, chunking)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (source, path) DO UPDATE SET format = excluded.format,
            size = excluded.size, mtime_ns = excluded.mtime_ns, content_hash = excluded.content_hash, state = excluded.state,
            reason = excluded.reason, chunking = excluded.chunking RETURNING id""",
            (record.source, record.path, record.format, record.size, record.mtime_ns, record.content_hash, record.state,
             record.reason, record.chunking),
        )  # fmt: skip
        return int(rows[0][0])

    def forget_file(self, file_id: int) -> None:
        """Drop a file that is gone: its documents leave search at once."""
        self._rows(
            "UPDATE chunks SET live = 0 WHERE document_id IN (SELECT id FROM documents WHERE file_id = ?)", (file_id,)
        )
        self._rows("UPDATE documents SET live = 0 WHERE file_id = ?", (file_id,))
        self._rows(
            "DELETE FROM files WHERE id = ? AND NOT EXISTS (SELECT 1 FROM documents WHERE file_id = ?)",
            (file_id, file_id),
        )
        self._rows("UPDATE files SET state = 'gone' WHERE id = ?", (file_id,))

    def documents_of(self, file_id: int) -> dict[str, tuple[int, str]]:
        """Live documents of a file: path → (id, content hash)."""
        rows = self._rows("SELECT path, id, content_hash FROM documents WHERE file_id = ? AND live", (file_id,))
        return {row[0]: (row[1], row[2]) for row in rows}

    def put_document(self, file_id: int, document: Document) -> int:
        """Insert a document (id 0) or update the row `document.id`; returns the row id."""
        values = (document.path, document.source, document.external_id, document.format, document.title, document.text,
                  document.content_hash, document.size, document.modified)  # fmt: skip
        if document.id:
            self._rows(
                """UPDATE documents SET path = ?, source = ?, external_id = ?, format = ?, title = ?, text = ?,
                content_hash = ?, size = ?, modified = ?, live = 1 WHERE id = ?""",
                (*values, document.id),
            )
            return document.id
        rows = self._rows(
            """INSERT INTO documents (path, source, external_id, format, title, text, content_hash, size, modified, file_id)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id""",
            (*values, file_id),
        )
        return int(rows[0][0])

    def drop_document(self, document_id: int) -> None:
        """Take a document out of search; its rows go with `purge_dead`."""
        self._rows("UPDATE documents SET live = 0 WHERE id = ?", (document_id,))
        self._rows("UPDATE chunks SET live = 0 WHERE document_id = ?", (document_id,))

    def replace_chunks(self, document_id: int, chunks: Sequence[Chunk]) -> int:
        """Give a document new chunks; equal ones keep their row id. Returns how many are new.

        Chunks that no longer exist stay readable (not live) until `purge_dead`, since the former index still names them.
        """
        known: dict[str, list[int]] = {}
        former = self._rows(
            "SELECT id, content_hash FROM chunks WHERE document_id = ? ORDER BY live DESC, id", (document_id,)
        )
        for row_id, content_hash in former:
            known.setdefault(content_hash, []).append(row_id)
        self._rows("UPDATE chunks SET live = 0 WHERE document_id = ?", (document_id,))
        fresh = []
        for chunk in chunks:
            row = (chunk.ordinal, chunk.start, chunk.end, chunk.text, json.dumps(chunk.headings), chunk.tokens,
                   None if chunk.embedded_text == chunk.text else chunk.embedded_text, chunk.content_hash)  # fmt: skip
            if ids := known.get(chunk.content_hash):
                self._rows(
                    """UPDATE chunks SET ordinal = ?, start = ?, end = ?, text = ?, headings = ?, tokens = ?,
                    embedded_text = ?, content_hash = ?, live = 1 WHERE id = ?""",
                    (*row, ids.pop(0)),
                )
            else:
                fresh.append((*row, document_id))
        with guarded(self.path):
            self._db.executemany(
                """INSERT INTO chunks (ordinal, start, end, text, headings, tokens, embedded_text, content_hash, document_id)
                VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                fresh,
            )
        return len(fresh)

    def purge_dead(self) -> int:
        """Delete rows that no current index names any more. Returns the number of chunks removed."""
        with self.transaction(), guarded(self.path):
            removed = self._db.execute("DELETE FROM chunks WHERE NOT live").rowcount
            self._db.execute("DELETE FROM documents WHERE NOT live")
            self._db.execute("DELETE FROM files WHERE state = 'gone'")
        return removed

    def documents(self, *, with_text: bool = False) -> list[Document]:
        """Live documents, in order of path; their text is left empty unless asked for."""
        text = "text" if with_text else "''"
        rows = self._rows(
            f"""SELECT path, source, format, title, {text}, content_hash, size, modified, external_id, id FROM documents
            WHERE live ORDER BY path, id"""
        )
        return [Document(*row) for row in rows]

    def document(self, document_id: int) -> Document | None:
        """One document, live or not, with its text."""
        rows = self._rows(
            """SELECT path, source, format, title, text, content_hash, size, modified, external_id, id FROM documents
            WHERE id = ?""",
            (document_id,),
        )
        return Document(*rows[0]) if rows else None

    def document_card(self, document_id: int) -> Document:
        """One document, live or not, without its text. Raises DamagedError when the row is gone."""
        rows = self._rows(
            """SELECT path, source, format, title, '', content_hash, size, modified, external_id, id FROM documents
            WHERE id = ?""",
            (document_id,),
        )
        if not rows:
            raise _damaged(self.path, f"document {document_id} is missing")
        return Document(*rows[0])

    def chunks(self) -> list[Chunk]:
        """All live chunks, in order of id."""
        return [self._chunk(row) for row in self._rows(f"SELECT {_CHUNK} FROM chunks WHERE live ORDER BY id")]

    def _chunk(self, row: Any) -> Chunk:
        return Chunk(
            row[0], row[1], row[2], row[3], row[4], tuple(self._json(row[5])), row[6],
            row[7] if row[7] is not None else row[4], row[8], row[9],
        )  # fmt: skip

    def sample_chunk_texts(self, count: int) -> list[str]:
        """Texts of about `count` live chunks, spread evenly over the corpus."""
        total = int(self._rows("SELECT count(*) FROM chunks WHERE live")[0][0])
        step = max(1, total // max(1, count))
        sql = "SELECT text FROM (SELECT text, row_number() OVER (ORDER BY id) AS place FROM chunks WHERE live) WHERE place % ? = 0"
        return [row[0] for row in self._rows(sql, (step,))]

    def chunk_hashes(self) -> list[tuple[int, str]]:
        """(id, content hash) of all live chunks, in order of id."""
        return cast(list[tuple[int, str]], self._rows("SELECT id, content_hash FROM chunks WHERE live ORDER BY id"))

    def chunk_owners(self, *, superseded: bool = False) -> list[tuple[int, int]]:
        """(chunk id, document id) of all live chunks; with `superseded`, also of what `chunks_by_id` still finds."""
        which = "document_id IN (SELECT id FROM documents WHERE live)" if superseded else "live"
        return cast(list[tuple[int, int]], self._rows(f"SELECT id, document_id FROM chunks WHERE {which}"))

    def chunks_by_id(self, ids: Iterable[int]) -> dict[int, Chunk]:
        """Chunks by row id. A superseded chunk is still found; a deleted document's is not."""
        found: dict[int, Chunk] = {}
        wanted = list(ids)
        for first in range(0, len(wanted), 500):
            block = wanted[first : first + 500]
            marks = ",".join("?" * len(block))
            sql = f"""SELECT {_CHUNK} FROM chunks WHERE id IN ({marks})
                AND document_id IN (SELECT id FROM documents WHERE live)"""
            found.update((row[-1], self._chunk(row)) for row in self._rows(sql, block))
        return found

    def corpus_fingerprint(self) -> str:
        """Hash over the live chunks' ids and contents. Unchanged content means an unchanged value."""
        digest = hashlib.sha256()
        for row_id, content_hash in self.chunk_hashes():
            digest.update(f"{row_id}:{content_hash}\n".encode())
        return digest.hexdigest()[:16]

    # queries and judgments

    def replace_queries(self, queries: Sequence[Query], artifact: Artifact) -> None:
        """Put a new set of training queries in place of the former one, with its artifact row, in one transaction."""
        rows = [(q.text, q.kind, q.chunk_id, q.document_id, q.evidence, q.split) for q in queries]
        with self.transaction(), guarded(self.path):
            self._db.execute("DELETE FROM queries")
            self._db.execute("DELETE FROM adaptation_chunks")
            self._db.execute("INSERT OR IGNORE INTO adaptation_chunks SELECT content_hash FROM chunks WHERE live")
            self._db.executemany(
                "INSERT INTO queries (text, kind, chunk_id, document_id, evidence, split) VALUES (?, ?, ?, ?, ?, ?)",
                rows,
            )
            self._put_artifact(artifact)

    def drift(self) -> float:
        """Share of the chunks that came or went since the training queries were made, from 0 to 1."""
        now = {row[0] for row in self._rows("SELECT content_hash FROM chunks WHERE live")}
        then = {row[0] for row in self._rows("SELECT content_hash FROM adaptation_chunks")}
        return len(now ^ then) / max(1, len(now | then))

    def queries(self) -> list[Query]:
        """Training and held-out queries, in order of id."""
        rows = self._rows("SELECT text, kind, chunk_id, document_id, evidence, split, id FROM queries ORDER BY id")
        return [Query(*row) for row in rows]

    def put_judged(self, queries: Iterable[JudgedQuery]) -> int:
        """Add judged queries, replacing those with the same key. Returns how many there are now."""
        rows = [(q.key, q.text, json.dumps(q.evidence), json.dumps(q.grades), q.path) for q in queries]
        with self.transaction(), guarded(self.path):
            self._db.executemany(
                """INSERT INTO judged_queries (key, text, evidence, grades, path) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (key) DO UPDATE SET text = excluded.text, evidence = excluded.evidence,
                grades = excluded.grades, path = excluded.path""",
                rows,
            )
        return int(self._rows("SELECT count(*) FROM judged_queries")[0][0])

    def judged(self) -> list[JudgedQuery]:
        """All judged queries, in order of id."""
        rows = self._rows("SELECT key, text, evidence, grades, path, id FROM judged_queries ORDER BY id")
        return [
            JudgedQuery(
                row[0], row[1], tuple(self._json(row[2])), tuple((d, g) for d, g in self._json(row[3])), row[4], row[5]
            )
            for row in rows
        ]

    # artifacts and runs

    def _put_artifact(self, artifact: Artifact) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO artifacts (kind, fingerprint, folder, created, info) VALUES (?, ?, ?, ?, ?)",
            (artifact.kind, artifact.fingerprint, artifact.folder, artifact.created, json.dumps(artifact.info)),
        )

    def put_artifact(self, artifact: Artifact) -> None:
        """Make an artifact, already complete on disk, the current one of its kind."""
        with self.transaction(), guarded(self.path):
            self._put_artifact(artifact)

    def artifact(self, kind: str) -> Artifact | None:
        """The current artifact of a kind, if there is one."""
        return self.artifacts().get(kind)

    def artifacts(self) -> dict[str, Artifact]:
        """Every current artifact by kind."""
        rows = self._rows("SELECT kind, fingerprint, folder, created, info FROM artifacts")
        return {row[0]: Artifact(row[0], row[1], row[2], row[3], self._json(row[4])) for row in rows}

    def drop_artifact(self, kind: str) -> None:
        """Forget the artifact of a kind, so that its stage runs again."""
        self._rows("DELETE FROM artifacts WHERE kind = ?", (kind,))

    def start_run(self, run: str) -> None:
        """Record a run as running."""
        self._rows("INSERT OR REPLACE INTO runs (id, state, started) VALUES (?, 'running', ?)", (run, time.time()))

    def finish_run(self, run: str, state: str) -> None:
        """Record how a run ended: done, failed or cancelled."""
        self._rows("UPDATE runs SET state = ?, finished = ? WHERE id = ?", (state, time.time(), run))

    def counts(self) -> dict[str, int]:
        """Row counts of what is live: files, documents, chunks, queries, judged queries."""
        sql = {
            "files": "SELECT count(*) FROM files WHERE state = 'read'",
            "skipped": "SELECT count(*) FROM files WHERE state = 'skipped'",
            "documents": "SELECT count(*) FROM documents WHERE live",
            "chunks": "SELECT count(*) FROM chunks WHERE live",
            "queries": "SELECT count(*) FROM queries",
            "judged_queries": "SELECT count(*) FROM judged_queries",
        }
        return {name: int(self._rows(text)[0][0]) for name, text in sql.items()}


_CHUNK = "document_id, ordinal, start, end, text, headings, tokens, embedded_text, content_hash, id"


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=30, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, every_page: bool) -> None:
    with closing(connection.execute("PRAGMA user_version")) as cursor:
        version = cursor.fetchone()[0]
    if version > SCHEMA_VERSION:
        raise UsageError(
            f"{path} has schema version {version}; this program reads {SCHEMA_VERSION}.",
            "It was written by a newer version of this program.",
            "Use that version, or create a new project over the same documents.",
        )
    if version != SCHEMA_VERSION:
        raise _damaged(path, f"its schema has version {version} instead of {SCHEMA_VERSION}")
    if every_page:
        with closing(connection.execute("PRAGMA quick_check(1)")) as cursor:
            found = cursor.fetchone()[0]
        if found != "ok":
            raise _damaged(path, found)


def _damaged(path: Path, detail: str) -> DamagedError:
    return DamagedError(
        f"{path} is damaged.",
        f"SQLite says: {detail}.",
        "Run 'engine run': it restores the last good copy and builds the rest anew.",
    )


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Turn SQLite's exceptions into errors that a user can act on."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a fault of this program, not of the file
    except UnicodeEncodeError as error:
        raise InputError(
            "A text or a file's name cannot be stored.",
            f"It holds bytes that are not text: {error.object[max(0, error.start - 40) : error.end + 40]!a}.",
            "Rename the file, or save it as UTF-8.",
        ) from error
    except OSError as error:
        raise ResourceError(
            "The project's database could not be written.",
            f"{error}.",
            "Check the disk's space and the folder's permissions.",
        ) from error
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "disk is full" in text or "disk I/O" in text:
            raise ResourceError(
                "The project's database could not be written.",
                f"SQLite says: {text}.",
                "Free some disk space and run again.",
            ) from error
        if "locked" in text:
            raise EngineError(
                "The project's database is busy.", text, "Try again when the other program is done."
            ) from error
        if "readonly" in text or "unable to open" in text:
            raise EngineError(f"{path} cannot be opened.", text, "Check the folder's permissions.") from error
        raise _damaged(path, text) from error
