"""All tables of one project together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from engine.core.records import Chunk
from engine.project.store.artifact_info import (
    CorpusInfo,
    EvaluationInfo,
    LexicalInfo,
    SemanticVectorsInfo,
    VectorsInfo,
)
from engine.project.store.artifacts import INCOMPLETE
from engine.project.store.chunks import IN_MEMORY, ChunkTables, StoredChunk
from engine.project.store.connection import guarded
from engine.project.store.documents import DocumentTables
from engine.project.store.files import LEFT_OUT, FileTables
from engine.project.store.queries import QueryTables


class Store(FileTables, DocumentTables, ChunkTables, QueryTables):
    """One connection to project.db.

    Not shared between threads. Every method may raise DamagedError or ResourceError.
    """

    _fingerprints: Mapping[str, tuple[tuple[int, int], str]] = MappingProxyType({})

    def chunks(self) -> list[Chunk]:
        """All live chunks, in order of id; of more than `IN_MEMORY` each is read when it is
        wanted, while the store is open.
        """
        if len(keys := self.chunk_keys()) <= IN_MEMORY:
            return list(self.each_chunk())
        read = self.chunk
        return [StoredChunk.of(*key, read) for key in keys]

    def counts(self) -> dict[str, int]:
        """Row counts of what is live: files that were read, skipped or quarantined, documents,
        chunks, queries, judged queries.
        """
        sql = {
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
        return {name: int(self._rows(text)[0][0]) for name, text in sql.items()}

    def corpus_fingerprint(self) -> str:
        """Hash over the live chunks' ids and contents.

        Unchanged content means an unchanged value. What a finished ingest has noted holds until
        another begins to change them.
        """
        noted = self.artifact(CorpusInfo)
        if noted is not None and noted.fingerprint != INCOMPLETE and noted.info.chunks:
            return noted.info.chunks
        sql = """SELECT id, chunks FROM documents INDEXED BY documents_overview JOIN contents ON document_id = id
            WHERE live AND chunks <> '' ORDER BY id"""  # noqa: E501
        return self._kept(
            "corpus", lambda: (f"{row}:{digest}\n" for row, digest in self._rows(sql))
        )

    def files_left(self) -> int:
        """How many files the reading of a new project has left, as those read before are to be
        indexed first.
        """
        noted = self.artifact(CorpusInfo)
        return noted.info.files_left if noted else 0

    def titles_fingerprint(self) -> str:
        """Hash over the live documents' ids, titles and paths."""
        return self._kept(
            "titles",
            lambda: (f"{row}:{title}:{path}\n" for row, title, path in self.titled_paths()),
        )

    def _kept(self, name: str, lines: Callable[[], Iterable[str]]) -> str:
        """The hash of some lines, kept until anybody commits a change: several stages ask for
        it.
        """
        state = (self._rows("PRAGMA data_version")[0][0], self._db.total_changes)
        if (
            name in self._fingerprints
            and self._fingerprints[name][0] == state
            and not self._db.in_transaction
        ):
            return self._fingerprints[name][1]
        digest = hashlib.sha256()
        for line in lines():
            digest.update(line.encode("utf-8", "replace"))
        value = digest.hexdigest()[:16]
        if not self._db.in_transaction:
            self._fingerprints = {**self._fingerprints, name: (state, value)}
        return value

    def purge_dead(self) -> int:
        """Delete rows that no current index names any more.

        Returns the number of chunks removed.
        """
        with self.transaction(), guarded(self.path):
            dead = (
                "DELETE FROM {0} WHERE id IN (SELECT id FROM {0} INDEXED BY {0}_overview WHERE NOT"
                " live)"
            )
            removed = self._db.execute(dead.format("chunks")).rowcount
            self._db.execute(dead.format("documents"))
            self._db.execute("DELETE FROM files WHERE state = 'gone'")
        return removed

    def keep_search_only(self) -> None:
        """Of a copy: drop what search does not read: queries, judgments, what was not read, and
        artifacts of other stages.
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
            one.kind
            for one in (CorpusInfo, LexicalInfo, VectorsInfo, SemanticVectorsInfo, EvaluationInfo)
        ]
        with self.transaction(), guarded(self.path):
            for table in tables:
                self._db.execute(f"DELETE FROM {table}")
            self._db.execute("DELETE FROM artifacts WHERE kind NOT IN (?, ?, ?, ?, ?)", kinds)
