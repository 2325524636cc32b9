"""All tables of one project together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast

from engine.core.records import Chunk
from engine.project.store.artifact_info import (
    CorpusInfo,
    EvaluationInfo,
    LexicalInfo,
    SemanticVectorsInfo,
    VectorsInfo,
)
from engine.project.store.artifacts import INCOMPLETE
from engine.project.store.chunks import IN_MEMORY, ChunkTables
from engine.project.store.connection import guarded
from engine.project.store.documents import DocumentTables
from engine.project.store.files import LEFT_OUT, FileTables
from engine.project.store.queries import QueryTables

Value = TypeVar("Value")
CountedRows = Literal[
    "files", "skipped", "quarantined", "documents", "chunks", "queries", "judged_queries"
]
_COUNTS: Mapping[CountedRows, str] = {
    "files": "SELECT count(*) FROM files WHERE state = 'read'",
    "skipped": (
        f"""SELECT (SELECT count(*) FROM files WHERE state = 'skipped')
        + (SELECT count(*) {LEFT_OUT})"""
    ),
    "quarantined": "SELECT count(*) FROM files WHERE state = 'quarantined'",
    "documents": "SELECT count(*) FROM documents WHERE live",
    "chunks": "SELECT count(*) FROM chunks WHERE live",
    "queries": "SELECT count(*) FROM queries",
    "judged_queries": "SELECT count(*) FROM judged_queries",
}


class Store(FileTables, DocumentTables, ChunkTables, QueryTables):
    """One connection to project.db.

    Not shared between threads. Every method may raise DamagedError or ResourceError.
    """

    # Name of a value → the state of the database when it was computed, and the value.
    _cached: Mapping[str, tuple[tuple[int, int], Any]] = MappingProxyType({})

    def chunks(self, in_memory: int = IN_MEMORY) -> Sequence[Chunk]:
        """Return all live chunks in order of id.

        More than `in_memory` are read on access, while the store is open.
        """
        if self.count("chunks") <= in_memory:
            return list(self.each_chunk())
        return self.stored_chunks()

    def count(self, rows: CountedRows) -> int:
        """Count live rows of one kind."""
        return int(self._fetch(_COUNTS[rows])[0][0])

    def counts(self) -> dict[str, int]:
        """Count live rows: files by state, documents, chunks, training queries, judged queries."""
        return {rows: self.count(rows) for rows in _COUNTS}

    def corpus_fingerprint(self) -> str:
        """Return a hash over the live chunks' ids and contents; unchanged content keeps the value.

        A complete ingest stores the value, which holds until the next ingest begins to change
        chunks.
        """
        corpus = self.artifact(CorpusInfo)
        if corpus is not None and corpus.fingerprint != INCOMPLETE and corpus.info.chunks:
            return corpus.info.chunks
        sql = """SELECT id, chunks FROM documents INDEXED BY documents_overview JOIN contents ON document_id = id
            WHERE live AND chunks <> '' ORDER BY id"""  # noqa: E501

        def read_lines() -> Iterator[str]:
            for document_id, digest in self._fetch(sql):
                yield f"{document_id}:{digest}\n"

        return self._hash_lines("corpus", read_lines)

    def files_left(self) -> int:
        """Return how many files of a new project are unread while others are indexed first."""
        corpus = self.artifact(CorpusInfo)
        return corpus.info.files_left if corpus else 0

    def titles_fingerprint(self) -> str:
        """Return a hash over the live documents' ids, titles and paths."""

        def read_lines() -> Iterator[str]:
            for document_id, title, path in self.titled_paths():
                yield f"{document_id}:{title}:{path}\n"

        return self._hash_lines("titles", read_lines)

    def _hash_lines(self, name: str, read_lines: Callable[[], Iterable[str]]) -> str:
        """Return the hash of some lines, `cached` by a name."""

        def hash_lines() -> str:
            digest = hashlib.sha256()
            for line in read_lines():
                digest.update(line.encode("utf-8", "replace"))
            return digest.hexdigest()[:16]

        return self.cached(name, hash_lines)

    def cached(self, name: str, compute: Callable[[], Value]) -> Value:
        """Return what `compute` returns, cached by a name until any connection commits a change.

        Several steps of a stage ask for the same value.
        """
        # The first number changes with commits of other connections, the second with those of this.
        state = (self.version(), self._db.total_changes)
        cached_state, cached_value = self._cached.get(name, (None, None))
        if cached_state == state and not self._db.in_transaction:
            return cast(Value, cached_value)
        value = compute()
        if not self._db.in_transaction:
            self._cached = {**self._cached, name: (state, value)}
        return value

    def purge_dead(self) -> int:
        """Delete rows that no current index names; return the number of chunks removed."""
        with self.transaction(), guarded(self.path):
            delete_dead = (
                "DELETE FROM {0} WHERE id IN (SELECT id FROM {0} INDEXED BY {0}_overview WHERE NOT"
                " live)"
            )
            removed = self._db.execute(delete_dead.format("chunks")).rowcount
            self._db.execute(delete_dead.format("documents"))
            self._db.execute("DELETE FROM files WHERE state = 'gone'")
        return removed

    def keep_search_only(self) -> None:
        """Reduce a copy of the database to what search reads.

        Drops queries, judgments, records of unread files, and artifacts of other stages.
        """
        tables = (
            "queries",
            "rejected_queries",
            "judged_queries",
            "document_queries",
            "adaptation_chunks",
            "parts",
            "left_out",
        )
        kinds = [
            CorpusInfo.kind,
            LexicalInfo.kind,
            VectorsInfo.kind,
            SemanticVectorsInfo.kind,
            EvaluationInfo.kind,
        ]
        with self.transaction(), guarded(self.path):
            for table in tables:
                self._db.execute(f"DELETE FROM {table}")
            self._db.execute("DELETE FROM artifacts WHERE kind NOT IN (?, ?, ?, ?, ?)", kinds)
