"""Tables of files: what was read, what was not, and the parts inside archives and mailboxes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from engine.project.store.artifacts import ArtifactTables
from engine.project.store.connection import guarded
from engine.project.store.schema import placeholders

if TYPE_CHECKING:
    from engine.core.messages.documents import FileOutcome


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of the corpus as last read.

    `state`: read, gone, skipped (the system refused to open it) or quarantined (its content cannot
    be read); for the last two, `kind` (one word) and `reason` say why.

    A skipped file has live documents only if it could be read before: `content_hash` and `chunking`
    then describe those. `ctime_ns`: when the system last noted a change of the file, its name or
    its permissions; 0 if unknown. On Windows it is when the file was created.
    """

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
    kind: str = ""
    ctime_ns: int = 0


@dataclass(frozen=True, slots=True)
class PartRecord:
    """Something inside a file that gave no document, and why.

    `path`: within the file. `state` and `kind`: as for files.
    """

    path: str
    state: str
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOutRecord:
    """A file or folder that was not tried, and why."""

    source: str
    path: str
    kind: str  # One word; may be empty.
    reason: str  # A sentence.


_FILE = tuple(column.name for column in fields(FileRecord))
UNREAD = ("skipped", "quarantined")  # States of a file that gave no document.
_UNREAD = str(UNREAD)  # It is also SQL.
LEFT_OUT = """FROM left_out WHERE NOT EXISTS (SELECT 1 FROM files WHERE files.source = left_out.source
    AND files.path = left_out.path AND files.state <> 'gone')"""  # noqa: E501
"""What was not tried and has no record as a file, which says more."""
AGAIN = -1  # Sentinel mtime that forces a re-read.


class FileTables(ArtifactTables):
    """The files of the corpus: read or not, and why not."""

    def files(self) -> dict[tuple[str, str], FileRecord]:
        """Return every known file by (source, path)."""
        rows = self._fetch(f"SELECT {', '.join(_FILE)} FROM files")
        return {(row[0], row[1]): FileRecord(*row) for row in rows}

    def paths_of(self, formats: Collection[str]) -> set[tuple[str, str]]:
        """Return (source, path) of the files in these formats."""
        sql = f"""SELECT source, path FROM files
            WHERE state <> 'gone' AND format IN ({placeholders(formats)})"""
        return set(self._fetch(sql, tuple(formats)))

    def unread_files(self, state: str | None = None) -> list[tuple[str, str, str]]:
        """Return (source, path, reason) of the files that could not be read, by path.

        `state`: only those in this state.
        """
        sql = f"""SELECT source, path, reason FROM files WHERE state IN {_UNREAD} AND (?1 IS NULL OR state = ?1)
            ORDER BY path, source"""  # noqa: E501
        return self._fetch(sql, (state,))

    def unread_parts(self) -> list[tuple[str, str, str]]:
        """Return (source, path, reason) of parts that could not be read, by path.

        The path begins with that of the file.
        """
        sql = """SELECT source, files.path || '/' || parts.path, parts.reason FROM parts JOIN files ON files.id = parts.file_id
            WHERE files.state <> 'gone' ORDER BY 2, 1"""  # noqa: E501
        return self._fetch(sql)

    def unread_or_in_part(self) -> list[tuple[str, str]]:
        """Return (source, path) of the files that were not read, or only in part."""
        sql = f"""SELECT source, path FROM files
            WHERE state IN {_UNREAD} OR (state <> 'gone' AND id IN (SELECT file_id FROM parts)) ORDER BY path, source"""  # noqa: E501
        return self._fetch(sql)

    def forget_reading(self, source: str, path: str) -> bool:
        """Mark a file that was not read completely as changed, so that the next run reads it again.

        What is searchable of it stays. Returns whether it was marked: False if it is unknown or was
        read completely.
        """
        sql = f"""UPDATE files SET mtime_ns = {AGAIN}, content_hash = '' WHERE source = ? AND path = ?
            AND (state IN {_UNREAD} OR EXISTS (SELECT 1 FROM parts WHERE file_id = files.id)) RETURNING id"""  # noqa: E501
        return bool(self._fetch(sql, (source, path)))

    def put_left_out(self, rows: Iterable[LeftOutRecord]) -> bool:
        """Replace the records of files that were not tried; return whether they changed.

        Must be called within a transaction.
        """
        # Of two with the same path, the last one counts.
        new = {(row.source, row.path): (row.kind, row.reason) for row in rows}
        former = self._fetch("SELECT source, path, kind, reason FROM left_out")
        if new == {(source, path): (kind, reason) for source, path, kind, reason in former}:
            return False
        self._execute("DELETE FROM left_out")
        with guarded(self.path):
            self._db.executemany(
                "INSERT INTO left_out (source, path, kind, reason) VALUES (?, ?, ?, ?)",
                [(*place, *why) for place, why in new.items()],
            )
        return True

    def left_out(self) -> list[LeftOutRecord]:
        """Return the files that were not tried, by path."""
        rows = self._fetch(f"SELECT source, path, kind, reason {LEFT_OUT} ORDER BY path, source")
        return [LeftOutRecord(*row) for row in rows]

    def ledger(self, state: str | None = None) -> list[FileOutcome]:
        """Return the outcome of every file and of the parts inside it, by path.

        `state`: only those in this state.
        """
        from engine.core.messages.documents import FileOutcome

        # Files, then parts of files, then what was not tried.
        rows = self._fetch(
            f"""SELECT source, path, coalesce(
                    (SELECT own.format FROM documents own WHERE file_id = files.id AND own.path = files.path AND live), format
                ), size, state, kind, CASE mtime_ns WHEN {AGAIN} THEN ltrim(reason || '; to be read again', '; ') ELSE reason END,
                (SELECT count(*) FROM documents WHERE file_id = files.id AND live) FROM files
            WHERE state <> 'gone' AND (?1 IS NULL OR state = ?1)
            UNION ALL SELECT source, files.path || '/' || parts.path, '', 0, parts.state, parts.kind, parts.reason, 0
            FROM parts JOIN files ON files.id = parts.file_id
            WHERE files.state <> 'gone' AND (?1 IS NULL OR parts.state = ?1)
            UNION ALL SELECT source, path, '', 0, 'skipped', kind, reason, 0 {LEFT_OUT}
            AND (?1 IS NULL OR ?1 = 'skipped') ORDER BY 2, 1""",  # noqa: E501
            (state,),
        )
        return [FileOutcome(*row) for row in rows]

    def put_parts(self, file_id: int, parts: Iterable[PartRecord]) -> None:
        """Replace the records of the parts of a file."""
        self._execute("DELETE FROM parts WHERE file_id = ?", (file_id,))
        with guarded(self.path):
            self._db.executemany(
                "INSERT OR REPLACE INTO parts (file_id, path, state, kind, reason) VALUES (?, ?, ?,"
                " ?, ?)",
                [(file_id, part.path, part.state, part.kind, part.reason) for part in parts],
            )

    def parts(self, file_id: int) -> list[PartRecord]:
        """Return the records of the parts of a file, by path."""
        rows = self._fetch(
            "SELECT path, state, kind, reason FROM parts WHERE file_id = ? ORDER BY path",
            (file_id,),
        )
        return [PartRecord(*row) for row in rows]

    def move_file(
        self,
        former: FileRecord,
        record: FileRecord,
        titles: tuple[str, str],
    ) -> None:
        """Record that a file has another name; its documents and chunks stay.

        `titles`: the titles that the former and the new name give; a document with the first gets
        the second. Documents of a deleted file that had the new name stay readable until
        `purge_dead`.
        """
        place = (record.source, record.path)
        # The record of the gone file makes room; its documents pass to the renamed one.
        self._execute(
            """UPDATE documents SET file_id = ? WHERE file_id IN
                (SELECT id FROM files WHERE source = ? AND path = ? AND state = 'gone')""",
            (former.id, *place),
        )
        self._execute("DELETE FROM files WHERE source = ? AND path = ? AND state = 'gone'", place)
        self._execute(
            "UPDATE files SET source = ?, path = ?, size = ?, mtime_ns = ?, ctime_ns = ? WHERE"
            " id = ?",
            (*place, record.size, record.mtime_ns, record.ctime_ns, former.id),
        )
        # Paths of documents inside the file begin with its former path.
        self._execute(
            """UPDATE documents SET source = ?, path = ? || substr(path, ?), modified = ?,
                title = CASE WHEN title = ? AND path = ? THEN ? ELSE title END WHERE file_id = ? AND live""",  # noqa: E501
            (
                record.source,
                record.path,
                len(former.path) + 1,
                record.mtime_ns / 1e9,
                titles[0],
                former.path,
                titles[1],
                former.id,
            ),
        )

    def put_file(self, record: FileRecord) -> int:
        """Insert or replace the record of a file, keeping its id; return the id."""
        columns = [column for column in _FILE if column != "id"]
        updates = ", ".join(f"{column} = excluded.{column}" for column in columns)
        sql = f"""INSERT INTO files ({", ".join(columns)}) VALUES ({placeholders(columns)})
            ON CONFLICT (source, path) DO UPDATE SET {updates} RETURNING id"""
        values = [getattr(record, column) for column in columns]
        (row,) = self._fetch(sql, values)
        return int(row[0])

    def set_modified(self, file_id: int, modified: float) -> None:
        """Set a file's time of change (seconds since 1970) when its content is the same."""
        self._execute(
            "UPDATE documents SET modified = ? WHERE file_id = ? AND live", (modified, file_id)
        )

    def forget_file(self, file_id: int) -> None:
        """Drop a file that is gone: its documents leave search at once."""
        self._execute(
            "UPDATE chunks SET live = 0 WHERE document_id IN (SELECT id FROM documents WHERE"
            " file_id = ?)",
            (file_id,),
        )
        self._execute("UPDATE documents SET live = 0 WHERE file_id = ?", (file_id,))
        self._execute("DELETE FROM parts WHERE file_id = ?", (file_id,))
        self._execute(
            "DELETE FROM files WHERE id = ? AND NOT EXISTS (SELECT 1 FROM documents WHERE file_id"
            " = ?)",
            (file_id, file_id),
        )
        self._execute("UPDATE files SET state = 'gone' WHERE id = ?", (file_id,))
