"""Training queries and judged queries."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from engine.records import JudgedQuery, Query
from engine.store.artifacts import Artifact, ArtifactTables
from engine.store.connection import guarded


class QueryTables(ArtifactTables):
    """Queries to train on, queries with known answers, and how far the corpus has moved since."""

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
