"""Training queries and judged queries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.core.records import DocumentQuery, FurtherAnswer, JudgedQuery, Query
from engine.project.store.artifact_info import ArtifactInfo
from engine.project.store.artifacts import Artifact, ArtifactTables
from engine.project.store.connection import guarded

_TEXT = "text, kind, chunk_id, document_id, evidence"
_QUERY = f"{_TEXT}, split, id, imported"
_REJECTED = f"{_TEXT}, reason, imported"
_JUDGED = "key, text, evidence, grades, path, also"
Matches = Callable[[str], bool]


class QueryTables(ArtifactTables):
    """Queries to train on, queries with known answers, and how far the corpus has moved since."""

    def replace_queries(
        self,
        queries: Sequence[Query],
        artifact: Artifact[ArtifactInfo],
        rejected: Iterable[tuple[Query, str]] = (),
    ) -> None:
        """Put a new set of training queries in place of the former one, with its artifact row
        and with those that were left out, each with the reason, in one transaction.
        """
        with self.transaction(), guarded(self.path):
            self._db.execute("DELETE FROM queries")
            self._db.execute("DELETE FROM adaptation_chunks")
            self._db.execute(
                "INSERT OR IGNORE INTO adaptation_chunks SELECT content_hash FROM chunks WHERE live"
            )
            sql = f"INSERT INTO queries ({_TEXT}, split, imported) VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._db.executemany(sql, [_query_row(query, query.split) for query in queries])
            self._db.execute("DELETE FROM rejected_queries")
            sql = f"INSERT INTO rejected_queries ({_REJECTED}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._db.executemany(sql, [_query_row(query, reason) for query, reason in rejected])
            self._put_artifact(artifact)

    def changed_share(self) -> float:
        """Share of the chunks that came or went since the training queries were made, from 0 to
        1.
        """
        now = {row[0] for row in self._rows("SELECT content_hash FROM chunks WHERE live")}
        then = {row[0] for row in self._rows("SELECT content_hash FROM adaptation_chunks")}
        return len(now ^ then) / max(1, len(now | then))

    def queries(self) -> list[Query]:
        """Training and held-out queries, in order of id."""
        rows = self._rows(f"SELECT {_QUERY} FROM queries ORDER BY id")
        return [_read_query(row) for row in rows]

    def query(self, query_id: int) -> Query | None:
        """One query."""
        rows = self._rows(f"SELECT {_QUERY} FROM queries WHERE id = ?", (query_id,))
        if rows:
            return _read_query(rows[0])
        return None

    def query_page(
        self, offset: int, limit: int, matches: Matches | None = None, **wanted: str | None
    ) -> tuple[int, list[Query]]:
        """How many queries there are of a `wanted` kind and split, and with a text that
        `matches`; and `limit` of them.
        """
        total, rows = self._page(_QUERY, "queries", offset, limit, matches, wanted)
        return total, [_read_query(row) for row in rows]

    def rejected_page(
        self, offset: int = 0, limit: int = -1, matches: Matches | None = None, **wanted: str | None
    ) -> tuple[int, list[tuple[Query, str]]]:
        """As `query_page`, of those that were left out when the training queries were made, each
        with the reason; else all.
        """
        total, rows = self._page(_REJECTED, "rejected_queries", offset, limit, matches, wanted)
        return total, [_read_rejected(row) for row in rows]

    def _page(
        self,
        columns: str,
        table: str,
        offset: int,
        limit: int,
        matches: Matches | None,
        wanted: Mapping[str, str | None],
    ) -> tuple[int, list[Any]]:
        self._db.create_function("matches", 1, matches or (lambda _text: True))
        given = {name: value for name, value in wanted.items() if value is not None}
        where = " AND ".join(
            [*(f"{name} = ?" for name in given), "matches(text)" if matches else "TRUE"]
        )
        total = int(
            self._rows(f"SELECT count(*) FROM {table} WHERE {where}", (*given.values(),))[0][0]
        )
        sql = f"SELECT {columns} FROM {table} WHERE {where} ORDER BY id LIMIT ? OFFSET ?"
        return total, self._rows(sql, (*given.values(), limit, offset))

    def query_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Number of queries by kind, and by split."""
        kinds = self._rows("SELECT kind, count(*) FROM queries GROUP BY kind ORDER BY kind")
        return dict(kinds), dict(
            self._rows("SELECT split, count(*) FROM queries GROUP BY split ORDER BY split")
        )

    def rewrite_queries(self, texts: Mapping[int, str | None]) -> int:
        """Within a transaction: query id → new text, or None to delete it.

        Returns how many there were.
        """
        with guarded(self.path):
            gone = self._db.executemany(
                "DELETE FROM queries WHERE id = ?",
                [(key,) for key, text in texts.items() if text is None],
            ).rowcount
            changed = self._db.executemany(
                "UPDATE queries SET text = ? WHERE id = ?",
                [(text, key) for key, text in texts.items() if text is not None],
            ).rowcount
        return max(0, gone) + max(0, changed)

    def replace_artifact(self, artifact: Artifact[ArtifactInfo]) -> None:
        """Within a transaction: as `put_artifact`."""
        with guarded(self.path):
            self._put_artifact(artifact)

    def replace_document_queries(self, document_id: int, queries: Iterable[DocumentQuery]) -> None:
        """Within a transaction: put the queries that a document holds in place of its former
        ones.
        """
        with guarded(self.path):
            self._db.execute("DELETE FROM document_queries WHERE document_id = ?", (document_id,))
            self._db.executemany(
                """INSERT INTO document_queries (text, origin, chunk_id, document_id, start, end, target)
                VALUES (?, ?, ?, ?, ?, ?, ?)""",  # noqa: E501
                [
                    (q.text, q.origin, q.chunk_id, document_id, q.start, q.end, q.target)
                    for q in queries
                ],
            )

    def document_queries(self) -> list[DocumentQuery]:
        """All that live documents hold, by the path of the document and in its order; that a
        link names is not looked up.
        """
        rows = self._rows(
            """SELECT q.text, origin, chunk_id, document_id, start, end, document_id, target, q.id
            FROM document_queries q JOIN documents d ON d.id = document_id
            WHERE live AND origin <> 'filename' ORDER BY path, source, q.id"""
        )
        return [DocumentQuery(*row) for row in rows]

    def drop_judged(self, keys: Iterable[str]) -> int:
        """Remove judged queries. Returns how many there are now."""
        with self.transaction(), guarded(self.path):
            self._db.executemany(
                "DELETE FROM judged_queries WHERE key = ?", [(key,) for key in keys]
            )
        return int(self._rows("SELECT count(*) FROM judged_queries")[0][0])

    def put_judged(self, queries: Iterable[JudgedQuery]) -> int:
        """Add judged queries, replacing those with the same key. Returns how many there are now."""
        rows = [_judged_row(query) for query in queries]
        with self.transaction(), guarded(self.path):
            self._db.executemany(
                f"""INSERT INTO judged_queries ({_JUDGED}) VALUES (?, ?, ?, ?, ?, ?)
                ON CONFLICT (key) DO UPDATE SET text = excluded.text, evidence = excluded.evidence,
                grades = excluded.grades, path = excluded.path, also = excluded.also""",
                rows,
            )
        return int(self._rows("SELECT count(*) FROM judged_queries")[0][0])

    def judged(self) -> list[JudgedQuery]:
        """All judged queries, in order of id."""
        rows = self._rows(f"SELECT {_JUDGED}, id FROM judged_queries ORDER BY id")
        return [self._read_judged(row) for row in rows]

    def _read_judged(self, row: Sequence[Any]) -> JudgedQuery:
        key, text, evidence, grades, path, also, row_id = row
        return JudgedQuery(
            key,
            text,
            tuple(self._json(evidence)),
            tuple((document, grade) for document, grade in self._json(grades)),
            path,
            row_id,
            tuple(FurtherAnswer(place, tuple(strings)) for place, strings in self._json(also)),
        )


def _query_row(query: Query, last: str) -> tuple[str | int, ...]:
    """The columns of a query. `last`: its split, or the reason for which it was left out."""
    return (
        query.text,
        query.kind,
        query.chunk_id,
        query.document_id,
        query.evidence,
        last,
        int(query.imported),
    )


def _read_query(row: Sequence[Any]) -> Query:
    text, kind, chunk_id, document_id, evidence, split, row_id, imported = row
    return Query(text, kind, chunk_id, document_id, evidence, split, row_id, bool(imported))


def _read_rejected(row: Sequence[Any]) -> tuple[Query, str]:
    text, kind, chunk_id, document_id, evidence, reason, imported = row
    return Query(text, kind, chunk_id, document_id, evidence, imported=bool(imported)), str(reason)


def _judged_row(query: JudgedQuery) -> tuple[str | None, ...]:
    also = [[answer.path, answer.evidence] for answer in query.also]
    return (
        query.key,
        query.text,
        json.dumps(query.evidence),
        json.dumps(query.grades),
        query.path,
        json.dumps(also),
    )
