"""Files, documents and chunks: in one class, as one transaction writes all three. Long for that reason."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from engine.core.records import Chunk, Document
from engine.project.store.artifact_info import CorpusInfo
from engine.project.store.artifacts import INCOMPLETE, ArtifactTables
from engine.project.store.connection import damaged, guarded
from engine.project.store.positions import positions
from engine.project.store.records import FileRecord, LeftOutRecord, PartRecord
from engine.project.store.schema import NOTE_CONTENTS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engine.core.messages.documents import FileOutcome

_CHUNK = "document_id, ordinal, start, end, text, headings, tokens, embedded_text, content_hash, id, pages, line, page"
_FILE = tuple(column.name for column in fields(FileRecord))
_DOCUMENT = tuple(column.name for column in fields(Document))
_NEW_CHUNK = (
    "ordinal", "start", "end", "text", "headings", "tokens", "embedded_text", "pages", "content_hash", "line", "page",
)  # fmt: skip
UNREAD = ("skipped", "quarantined")  # the states of a file that gave no document
_UNREAD = str(UNREAD)
LEFT_OUT = """FROM left_out WHERE NOT EXISTS (SELECT 1 FROM files WHERE files.source = left_out.source
    AND files.path = left_out.path AND files.state <> 'gone')"""  # what was once tried is listed as a file


def _document_columns(text: str) -> str:
    return ", ".join(text if column == "text" else column for column in _DOCUMENT)


def _marks(values: Sized) -> str:
    return ", ".join("?" * len(values))


def _set(columns: Iterable[str]) -> str:
    return ", ".join(f"{column} = ?" for column in columns)


BLOCK, AHEAD = 2_000, 32  # chunks that are read at once, of all and of some
AGAIN = -1  # when a file was changed that is to be read again


class DocumentTables(ArtifactTables):
    """What was read, and the chunks made of it."""

    _fingerprints: Mapping[str, tuple[tuple[int, int], str]] = MappingProxyType({})
    _ahead: Mapping[int, Chunk] = MappingProxyType({})

    def files(self) -> dict[tuple[str, str], FileRecord]:
        """Every known file by (source, path)."""
        rows = self._rows(f"SELECT {', '.join(_FILE)} FROM files")
        return {(row[0], row[1]): FileRecord(*row) for row in rows}

    def paths_of(self, formats: Collection[str]) -> set[tuple[str, str]]:
        """(source, path) of the files of these formats."""
        sql = f"SELECT source, path FROM files WHERE state <> 'gone' AND format IN ({_marks(formats)})"
        return {(source, path) for source, path in self._rows(sql, tuple(formats))}

    def unread_files(self, state: str | None = None) -> list[tuple[str, str, str]]:
        """(source, path, reason) of the files that could not be read, by path; those of one state where it is named."""
        sql = f"""SELECT source, path, reason FROM files WHERE state IN {_UNREAD} AND (?1 IS NULL OR state = ?1)
            ORDER BY path, source"""
        return cast(list[tuple[str, str, str]], self._rows(sql, (state,)))

    def unread_parts(self) -> list[tuple[str, str, str]]:
        """(source, path, reason) of what was not read inside files that were, by path; the path begins with the file's."""
        sql = """SELECT source, files.path || '/' || parts.path, parts.reason FROM parts JOIN files ON files.id = parts.file_id
            WHERE files.state = 'read' ORDER BY 2, 1"""
        return cast(list[tuple[str, str, str]], self._rows(sql))

    def unread_or_in_part(self) -> list[tuple[str, str]]:
        """(source, path) of the files that were not read, or not all of them."""
        sql = f"""SELECT source, path FROM files
            WHERE state IN {_UNREAD} OR (state <> 'gone' AND id IN (SELECT file_id FROM parts)) ORDER BY path, source"""
        return cast(list[tuple[str, str]], self._rows(sql))

    def forget_reading(self, source: str, path: str) -> bool:
        """Let a file that was not read, or not all of it, count as changed, so that it is read again; what was searchable
        of it stays. Whether there is one.
        """
        sql = f"""UPDATE files SET mtime_ns = {AGAIN}, content_hash = '' WHERE source = ? AND path = ?
            AND (state IN {_UNREAD} OR EXISTS (SELECT 1 FROM parts WHERE file_id = files.id)) RETURNING id"""
        return bool(self._rows(sql, (source, path)))

    def put_left_out(self, rows: Iterable[LeftOutRecord]) -> bool:
        """Within a transaction: replace what is noted of files that were not tried. Whether that is something else now."""
        fresh = {(row.source, row.path): row for row in rows}
        former = {
            (row[0], row[1]): LeftOutRecord(*row)
            for row in self._rows("SELECT source, path, kind, reason FROM left_out")
        }
        if fresh == former:
            return False
        self._rows("DELETE FROM left_out")
        with guarded(self.path):
            self._db.executemany(
                "INSERT INTO left_out (source, path, kind, reason) VALUES (?, ?, ?, ?)",
                [(row.source, row.path, row.kind, row.reason) for row in fresh.values()],
            )
        return True

    def left_out(self) -> list[LeftOutRecord]:
        """The files that were not tried, by path."""
        rows = self._rows(f"SELECT source, path, kind, reason {LEFT_OUT} ORDER BY path, source")
        return [LeftOutRecord(*row) for row in rows]

    def ledger(self, state: str | None = None) -> list[FileOutcome]:
        """What became of every file and of what is inside it, by path; of one state where it is named."""
        from engine.core.messages.documents import FileOutcome

        rows = self._rows(
            f"""SELECT source, path, coalesce(
                    (SELECT own.format FROM documents own WHERE file_id = files.id AND own.path = files.path AND live), format
                ), size, state, kind, CASE mtime_ns WHEN {AGAIN} THEN ltrim(reason || '; to be read again', '; ') ELSE reason END,
                (SELECT count(*) FROM documents WHERE file_id = files.id AND live) FROM files
            WHERE state <> 'gone' AND (?1 IS NULL OR state = ?1)
            UNION ALL SELECT source, files.path || '/' || parts.path, '', 0, parts.state, parts.kind, parts.reason, 0
            FROM parts JOIN files ON files.id = parts.file_id
            WHERE files.state <> 'gone' AND (?1 IS NULL OR parts.state = ?1)
            UNION ALL SELECT source, path, '', 0, 'skipped', kind, reason, 0 {LEFT_OUT}
            AND (?1 IS NULL OR ?1 = 'skipped') ORDER BY 2, 1""",
            (state,),
        )
        return [FileOutcome(*row) for row in rows]

    def put_parts(self, file_id: int, parts: Iterable[PartRecord]) -> None:
        """Replace what is noted of the inside of a file."""
        self._rows("DELETE FROM parts WHERE file_id = ?", (file_id,))
        with guarded(self.path):
            self._db.executemany(
                "INSERT OR REPLACE INTO parts (file_id, path, state, kind, reason) VALUES (?, ?, ?, ?, ?)",
                [(file_id, part.path, part.state, part.kind, part.reason) for part in parts],
            )

    def parts(self, file_id: int) -> list[PartRecord]:
        """What is noted of the inside of a file, by path."""
        rows = self._rows("SELECT path, state, kind, reason FROM parts WHERE file_id = ? ORDER BY path", (file_id,))
        return [PartRecord(*row) for row in rows]

    def move_file(self, former: FileRecord, record: FileRecord, titles: tuple[str, str]) -> None:
        """A file has another name now: its documents and chunks are the same. `titles`: one that was made from the former
        name becomes the other. What a file that is gone left under the new name stays readable until `purge_dead`.
        """
        place = record.source, record.path
        self._rows(
            """UPDATE documents SET file_id = ? WHERE file_id IN
                (SELECT id FROM files WHERE source = ? AND path = ? AND state = 'gone')""",
            (former.id, *place),
        )
        self._rows("DELETE FROM files WHERE source = ? AND path = ? AND state = 'gone'", place)
        self._rows(
            "UPDATE files SET source = ?, path = ?, size = ?, mtime_ns = ?, ctime_ns = ? WHERE id = ?",
            (*place, record.size, record.mtime_ns, record.ctime_ns, former.id),
        )
        self._rows(
            """UPDATE documents SET source = ?, path = ? || substr(path, ?), modified = ?,
                title = CASE WHEN title = ? AND path = ? THEN ? ELSE title END WHERE file_id = ? AND live""",
            (record.source, record.path, len(former.path) + 1, record.mtime_ns / 1e9, titles[0], former.path, titles[1],
             former.id),
        )  # fmt: skip

    def put_file(self, record: FileRecord) -> int:
        """Insert or replace the record of a file, keeping its id; returns the id."""
        columns = [column for column in _FILE if column != "id"]
        updates = ", ".join(f"{column} = excluded.{column}" for column in columns)
        sql = f"""INSERT INTO files ({", ".join(columns)}) VALUES ({_marks(columns)})
            ON CONFLICT (source, path) DO UPDATE SET {updates} RETURNING id"""
        return int(self._rows(sql, [getattr(record, column) for column in columns])[0][0])

    def set_modified(self, file_id: int, modified: float) -> None:
        """A file has another time of change, in seconds since 1970, with the same content."""
        self._rows("UPDATE documents SET modified = ? WHERE file_id = ? AND live", (modified, file_id))

    def forget_file(self, file_id: int) -> None:
        """Drop a file that is gone: its documents leave search at once."""
        self._rows(
            "UPDATE chunks SET live = 0 WHERE document_id IN (SELECT id FROM documents WHERE file_id = ?)", (file_id,)
        )
        self._rows("UPDATE documents SET live = 0 WHERE file_id = ?", (file_id,))
        self._rows("DELETE FROM parts WHERE file_id = ?", (file_id,))
        self._rows(
            "DELETE FROM files WHERE id = ? AND NOT EXISTS (SELECT 1 FROM documents WHERE file_id = ?)",
            (file_id, file_id),
        )
        self._rows("UPDATE files SET state = 'gone' WHERE id = ?", (file_id,))

    def has_chunks(self, file_id: int | None = None) -> bool:
        """Whether anything can be found, or anything of one file."""
        sql = "SELECT 1 FROM chunks WHERE live{} LIMIT 1"
        if file_id is None:
            return bool(self._rows(sql.format("")))
        own = " AND document_id IN (SELECT id FROM documents WHERE file_id = ?)"
        return bool(self._rows(sql.format(own), (file_id,)))

    def documents_of(self, file_id: int) -> dict[str, tuple[int, str]]:
        """Live documents of a file: path → (id, content hash)."""
        rows = self._rows("SELECT path, id, content_hash FROM documents WHERE file_id = ? AND live", (file_id,))
        return {row[0]: (row[1], row[2]) for row in rows}

    def put_document(self, file_id: int, document: Document) -> int:
        """Insert a document (id 0) or update the row `document.id`; returns the row id."""
        columns = [column for column in _DOCUMENT if column != "id"]
        values = [getattr(document, column) for column in columns]
        if document.id:
            self._rows(f"UPDATE documents SET {_set(columns)}, live = 1 WHERE id = ?", (*values, document.id))
            return document.id
        sql = f"INSERT INTO documents ({', '.join(columns)}, file_id) VALUES ({_marks(columns)}, ?) RETURNING id"
        return int(self._rows(sql, (*values, file_id))[0][0])

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
        (text,) = self._rows("SELECT text FROM documents WHERE id = ?", (document_id,))[0]
        places = positions(text, ((chunk.start, chunk.text) for chunk in chunks))
        for chunk, place in zip(chunks, places, strict=True):
            row = (chunk.ordinal, chunk.start, chunk.end, chunk.text, json.dumps(chunk.headings), chunk.tokens,
                   None if chunk.embedded_text == chunk.text else chunk.embedded_text, json.dumps(chunk.pages),
                   chunk.content_hash, *place)  # fmt: skip
            if ids := known.get(chunk.content_hash):
                self._rows(f"UPDATE chunks SET {_set(_NEW_CHUNK)}, live = 1 WHERE id = ?", (*row, ids.pop(0)))
            else:
                fresh.append((*row, document_id))
        with guarded(self.path):
            columns, marks = ", ".join(_NEW_CHUNK), _marks(_NEW_CHUNK)
            self._db.executemany(f"INSERT INTO chunks ({columns}, document_id) VALUES ({marks}, ?)", fresh)
        self._rows(f"{NOTE_CONTENTS} WHERE id = ?", (document_id,))
        return len(fresh)

    def purge_dead(self) -> int:
        """Delete rows that no current index names any more. Returns the number of chunks removed."""
        with self.transaction(), guarded(self.path):
            dead = "DELETE FROM {0} WHERE id IN (SELECT id FROM {0} INDEXED BY {0}_overview WHERE NOT live)"
            removed = self._db.execute(dead.format("chunks")).rowcount
            self._db.execute(dead.format("documents"))
            self._db.execute("DELETE FROM files WHERE state = 'gone'")
        return removed

    def documents(self, *, with_text: bool = False) -> list[Document]:
        """Live documents, in order of path; their text is left empty unless asked for."""
        text = "text" if with_text else "''"
        rows = self._rows(f"SELECT {_document_columns(text)} FROM documents WHERE live ORDER BY path, id")
        return [Document(*row) for row in rows]

    def documents_without_language(self, most: int, length: int = 900) -> list[tuple[int, str]]:
        """(id, `length` characters of the text) of up to `most` live documents whose language is not known yet; BEIR sets apart.

        Longer texts give three pieces, around 1/4, 1/2 and 3/4: one may be a list of languages, a menu or a bibliography.
        """
        pieces = " || ' ' || ".join(f"substr(text, length(text) * {part} / 4 - ?1 / 6, ?1 / 3)" for part in (1, 2, 3))
        rows = self._rows(
            f"""SELECT id, CASE WHEN length(text) > 2 * ?1 THEN {pieces} ELSE substr(text, 1, ?1) END
            FROM documents WHERE id IN (SELECT id FROM documents INDEXED BY documents_overview
            WHERE live AND language = '' AND format <> 'beir' ORDER BY id LIMIT ?2) ORDER BY id""",
            (length, most),
        )
        return cast(list[tuple[int, str]], rows)

    def count_without_language(self) -> int:
        """How many documents `documents_without_language` has."""
        return int(self._rows("SELECT count(*) FROM documents WHERE live AND language = '' AND format <> 'beir'")[0][0])

    def put_languages(self, languages: Iterable[tuple[int, str]]) -> None:
        """Note the language of documents by id."""
        with guarded(self.path):
            self._db.executemany(
                "UPDATE documents SET language = ? WHERE id = ?", [(code, row_id) for row_id, code in languages]
            )

    def forget_languages(self) -> None:
        """Note of no document in which language it is: they are detected in another way now."""
        with guarded(self.path):
            self._db.execute("UPDATE documents SET language = ''")

    def languages_but(self, main: str) -> list[tuple[int, str, int]]:
        """(id, language, characters) of the live documents whose language is known, and another than `main`."""
        sql = """SELECT id, language, characters FROM documents INDEXED BY documents_overview JOIN contents ON document_id = id
            WHERE live AND language NOT IN ('', ?)"""
        return cast(list[tuple[int, str, int]], self._rows(sql, (main,)))

    def document(self, document_id: int) -> Document | None:
        """One document, live or not, with its text."""
        rows = self._rows(f"SELECT {_document_columns('text')} FROM documents WHERE id = ?", (document_id,))
        return Document(*rows[0]) if rows else None

    def text_length(self, document_id: int) -> int:
        """Characters of a document's text."""
        return int(self._rows("SELECT length(text) FROM documents WHERE id = ?", (document_id,))[0][0])

    def document_card(self, document_id: int) -> Document:
        """One document, live or not, without its text. Raises DamagedError when the row is gone."""
        rows = self._rows(f"""SELECT {_document_columns("''")} FROM documents WHERE id = ?""", (document_id,))
        if not rows:
            raise damaged(self.path, f"document {document_id} is missing")
        return Document(*rows[0])

    def each_chunk(self) -> Iterator[Chunk]:
        """All live chunks, in order of id, `BLOCK` in memory."""
        last = -1
        sql = f"SELECT {_CHUNK} FROM chunks WHERE live AND id > ? ORDER BY id LIMIT ?"
        while rows := self._rows(sql, (last, BLOCK)):
            yield from map(self._chunk, rows)
            last = rows[-1][_CHUNK.split(", ").index("id")]

    def _chunk(self, row: Any) -> Chunk:
        return Chunk(
            row[0], row[1], row[2], row[3], row[4], tuple(self._json(row[5])), row[6],
            row[7] if row[7] is not None else row[4], row[8], row[9],
            tuple((int(at), int(number), str(name)) for at, number, name in self._json(row[10])),
            row[11], row[12],
        )  # fmt: skip

    def chunk(self, chunk_id: int) -> Chunk:
        """A chunk, live or not; the next ones are read, too. Raises DamagedError when the row is gone."""
        if chunk_id not in self._ahead:
            rows = self._rows(f"SELECT {_CHUNK} FROM chunks WHERE id >= ? ORDER BY id LIMIT {AHEAD}", (chunk_id,))
            self._ahead = {chunk.id: chunk for chunk in map(self._chunk, rows)}
        if chunk_id not in self._ahead:
            raise damaged(self.path, f"chunk {chunk_id} is missing")
        return self._ahead[chunk_id]

    def chunks_of(self, document_id: int) -> list[Chunk]:
        """The live chunks of a document, in order."""
        sql = f"SELECT {_CHUNK} FROM chunks WHERE document_id = ? AND live ORDER BY ordinal"
        return [self._chunk(row) for row in self._rows(sql, (document_id,))]

    def chunk_ids_of(self, content_hash: str) -> list[int]:
        """Live chunks with that content, in order of id."""
        return [
            row[0]
            for row in self._rows("SELECT id FROM chunks WHERE live AND content_hash = ? ORDER BY id", (content_hash,))
        ]

    def documents_at(self, path: str) -> list[int]:
        """Ids of the live documents with that path, of whatever source."""
        return [row[0] for row in self._rows("SELECT id FROM documents WHERE live AND path = ? ORDER BY id", (path,))]

    def sample_chunk_texts(self, count: int) -> list[str]:
        """Texts of about `count` live chunks, spread evenly over the corpus."""
        one = "(SELECT id FROM chunks WHERE live ORDER BY id {} LIMIT 1)"
        ((first, last),) = self._rows(f"SELECT {one.format('ASC')}, {one.format('DESC')}")
        if first is None:
            return []
        sql = "SELECT id, text FROM chunks WHERE live AND id >= ? ORDER BY id LIMIT 1"
        places = range(first, last + 1, max(1, (last + 1 - first) // max(1, count)))
        found = dict(self._rows(sql, (place,))[0] for place in places)
        if 2 * len(found) < count:  # few chunks, or ids with gaps, as documents that are read again leave them
            ids = self.chunk_ids().tolist()
            return [chunk.text for chunk in self.chunks_by_id(ids[:: max(1, len(ids) // count)]).values()]
        return list(found.values())

    def chunk_ids(self) -> NDArray[np.int64]:
        """The ids of all live chunks (n,), ascending."""
        import numpy as np

        ((ids,),) = self._rows("SELECT group_concat(id) FROM (SELECT id FROM chunks WHERE live ORDER BY id)")
        return np.fromstring(ids or "", np.int64, sep=",")  # a million rows as objects take three times as long

    def chunk_ids_in(self, documents: Iterable[int]) -> list[int]:
        """The ids of the live chunks of some documents."""
        return [row[0] for row in self._among("SELECT id FROM chunks WHERE live AND document_id IN ({0})", documents)]

    def chunk_keys(self, *, superseded: bool = False, first: int = 0) -> list[tuple[int, int, str]]:
        """(id, document id, content hash) of all live chunks from id `first` on, in order of id; with `superseded`, of all that
        `chunks_by_id` finds."""
        which = "document_id IN (SELECT id FROM documents WHERE live)" if superseded else "live"
        sql = f"SELECT id, document_id, content_hash FROM chunks WHERE {which} AND id >= ? ORDER BY id"
        return cast(list[tuple[int, int, str]], self._rows(sql, (first,)))

    def chunks_by_id(self, ids: Iterable[int]) -> dict[int, Chunk]:
        """Chunks by row id. A superseded chunk is still found; a deleted document's is not."""
        return {chunk.id: chunk for chunk in map(self._chunk, self._found(_CHUNK, ids))}

    def owners_of(self, ids: Iterable[int]) -> dict[int, int]:
        """The documents of those chunks that `chunks_by_id` finds."""
        return dict(self._found("id, document_id", ids))

    def _found(self, columns: str, ids: Iterable[int]) -> Iterator[Any]:
        sql = f"""SELECT {columns} FROM chunks WHERE id IN ({{0}})
            AND EXISTS (SELECT 1 FROM documents WHERE documents.id = chunks.document_id AND documents.live)"""
        return self._among(sql, ids)

    def _among(self, sql: str, ids: Iterable[int]) -> Iterator[Any]:
        """What a statement finds of `ids`, of which it gets 500 at a time in place of {0}."""
        wanted = list(ids)
        for first in range(0, len(wanted), 500):
            block = wanted[first : first + 500]
            yield from self._rows(sql.format(_marks(block)), block)

    def corpus_fingerprint(self) -> str:
        """Hash over the live chunks' ids and contents. Unchanged content means an unchanged value. What a finished ingest has noted
        holds until another begins to change them."""
        noted = self.artifact(CorpusInfo)
        if noted is not None and noted.fingerprint != INCOMPLETE and noted.info.chunks:
            return noted.info.chunks
        sql = """SELECT id, chunks FROM documents INDEXED BY documents_overview JOIN contents ON document_id = id
            WHERE live AND chunks <> '' ORDER BY id"""
        return self._kept("corpus", lambda: (f"{row}:{digest}\n" for row, digest in self._rows(sql)))

    def titles(self) -> dict[int, str]:
        """Live documents: id → title."""
        return dict(self._rows("SELECT id, title FROM documents WHERE live"))

    def titles_fingerprint(self) -> str:
        """Hash over the live documents' ids and titles."""
        return self._kept("titles", lambda: (f"{row}:{title}\n" for row, title in sorted(self.titles().items())))

    def _kept(self, name: str, lines: Callable[[], Iterable[str]]) -> str:
        """The hash of some lines, kept until anybody commits a change: several stages ask for it."""
        state = (self._rows("PRAGMA data_version")[0][0], self._db.total_changes)
        if name in self._fingerprints and self._fingerprints[name][0] == state and not self._db.in_transaction:
            return self._fingerprints[name][1]
        digest = hashlib.sha256()
        for line in lines():
            digest.update(line.encode("utf-8", "replace"))
        value = digest.hexdigest()[:16]
        if not self._db.in_transaction:
            self._fingerprints = {**self._fingerprints, name: (state, value)}
        return value
