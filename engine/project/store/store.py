"""All tables of one project together."""

from __future__ import annotations

from engine.core.records import Chunk
from engine.project.store.artifact_info import CorpusInfo, EvaluationInfo, LexicalInfo, VectorsInfo
from engine.project.store.chunks import IN_MEMORY, StoredChunk
from engine.project.store.connection import guarded
from engine.project.store.documents import LEFT_OUT, DocumentTables
from engine.project.store.queries import QueryTables


class Store(DocumentTables, QueryTables):
    """One connection to project.db. Not shared between threads. Every method may raise DamagedError or ResourceError."""

    def chunks(self) -> list[Chunk]:
        """All live chunks, in order of id; of more than `IN_MEMORY` each is read when it is wanted, while the store is open."""
        if len(keys := self.chunk_keys()) <= IN_MEMORY:
            return list(self.each_chunk())
        read = self.chunk
        return [StoredChunk.of(*key, read) for key in keys]

    def counts(self) -> dict[str, int]:
        """Row counts of what is live: files that were read, skipped or quarantined, documents, chunks, queries, judged queries."""
        sql = {
            "files": "SELECT count(*) FROM files WHERE state = 'read'",
            "skipped": f"""SELECT (SELECT count(*) FROM files WHERE state = 'skipped')
                + (SELECT count(*) {LEFT_OUT})""",
            "quarantined": "SELECT count(*) FROM files WHERE state = 'quarantined'",
            "documents": "SELECT count(*) FROM documents WHERE live",
            "chunks": "SELECT count(*) FROM chunks WHERE live",
            "queries": "SELECT count(*) FROM queries",
            "judged_queries": "SELECT count(*) FROM judged_queries",
        }
        return {name: int(self._rows(text)[0][0]) for name, text in sql.items()}

    def keep_search_only(self) -> None:
        """Of a copy: drop what search does not read: queries, judgments, what was not read, and artifacts of other stages."""
        tables = (
            "queries", "rejected_queries", "judged_queries", "document_queries", "adaptation_chunks", "parts", "left_out",
        )  # fmt: skip
        kinds = [one.kind for one in (CorpusInfo, LexicalInfo, VectorsInfo, EvaluationInfo)]
        with self.transaction(), guarded(self.path):
            for table in tables:
                self._db.execute(f"DELETE FROM {table}")
            self._db.execute("DELETE FROM artifacts WHERE kind NOT IN (?, ?, ?, ?)", kinds)
