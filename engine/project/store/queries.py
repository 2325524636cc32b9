"""Tables of training queries, judged queries and queries found in documents."""

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
    """Training queries, judged queries, and how far the corpus has changed since they were made."""

    def replace_queries(
        self,
        queries: Sequence[Query],
        artifact: Artifact[ArtifactInfo],
        rejected: Iterable[tuple[Query, str]] = (),
    ) -> None:
        """Replace the training queries, their artifact row and the rejected ones, all at once.

        `rejected`: the queries left out, each with its reason.
        """
        with self.transaction(), guarded(self.path):
            self._db.execute("DELETE FROM queries")
            self._db.execute("DELETE FROM adaptation_chunks")
            # In order of the key: a million in any other take six times as long.
            self._db.execute(
                """INSERT OR IGNORE INTO adaptation_chunks
                SELECT content_hash FROM chunks WHERE live ORDER BY content_hash"""
            )
            sql = f"INSERT INTO queries ({_TEXT}, split, imported) VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._db.executemany(sql, [_query_row(query, query.split) for query in queries])
            self._db.execute("DELETE FROM rejected_queries")
            sql = f"INSERT INTO rejected_queries ({_REJECTED}) VALUES (?, ?, ?, ?, ?, ?, ?)"
            self._db.executemany(sql, [_query_row(query, reason) for query, reason in rejected])
            self.replace_artifact(artifact)

    def changed_share(self) -> float:
        """Return the share (0 to 1) of chunks that came or went since the queries were made."""
        now = {row[0] for row in self._fetch("SELECT content_hash FROM chunks WHERE live")}
        then = {row[0] for row in self._fetch("SELECT content_hash FROM adaptation_chunks")}
        return len(now ^ then) / max(1, len(now | then))

    def queries(self) -> list[Query]:
        """Return the training and held-out queries in order of id."""
        rows = self._fetch(f"SELECT {_QUERY} FROM queries ORDER BY id")
        return [_read_query(row) for row in rows]

    def query(self, query_id: int) -> Query | None:
        """Return one query by id, None if there is none."""
        rows = self._fetch(f"SELECT {_QUERY} FROM queries WHERE id = ?", (query_id,))
        if rows:
            return _read_query(rows[0])
        return None

    def query_page(
        self, offset: int, limit: int, matches: Matches | None = None, **wanted: str | None
    ) -> tuple[int, list[Query]]:
        """Return the number of matching queries, and up to `limit` of them from `offset` on.

        `matches`: a condition on the text. `wanted`: required values of columns (kind, split).
        """
        total, rows = self._page(
            _QUERY,
            "queries",
            offset,
            limit,
            matches,
            wanted,
        )
        return total, [_read_query(row) for row in rows]

    def rejected_page(
        self, offset: int = 0, limit: int = -1, matches: Matches | None = None, **wanted: str | None
    ) -> tuple[int, list[tuple[Query, str]]]:
        """Return a page of the queries left out of the training queries, each with its reason.

        Arguments as in `query_page`; without any, all rejected queries.
        """
        total, rows = self._page(
            _REJECTED,
            "rejected_queries",
            offset,
            limit,
            matches,
            wanted,
        )
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
        """Return the number of matching rows of a table, and a page of them; see `query_page`."""
        self._db.create_function(
            "matches",
            1,
            matches or (lambda _text: True),
        )
        required = {name: value for name, value in wanted.items() if value is not None}
        conditions = [f"{name} = ?" for name in required]
        conditions.append("matches(text)" if matches else "TRUE")
        where = " AND ".join(conditions)
        values = tuple(required.values())
        total = self._fetch(f"SELECT count(*) FROM {table} WHERE {where}", values)[0][0]
        sql = f"SELECT {columns} FROM {table} WHERE {where} ORDER BY id LIMIT ? OFFSET ?"
        return int(total), self._fetch(sql, (*values, limit, offset))

    def query_counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the number of queries by kind, and by split."""
        kinds = self._fetch("SELECT kind, count(*) FROM queries GROUP BY kind ORDER BY kind")
        splits = self._fetch("SELECT split, count(*) FROM queries GROUP BY split ORDER BY split")
        return dict(kinds), dict(splits)

    def rewrite_queries(self, texts: Mapping[int, str | None]) -> int:
        """Change texts by query id, or delete queries (None); return how many rows were affected.

        Must be called within a transaction.
        """
        with guarded(self.path):
            deleted = self._db.executemany(
                "DELETE FROM queries WHERE id = ?",
                [(query_id,) for query_id, text in texts.items() if text is None],
            ).rowcount
            changed = self._db.executemany(
                "UPDATE queries SET text = ? WHERE id = ?",
                [(text, query_id) for query_id, text in texts.items() if text is not None],
            ).rowcount
        return max(0, deleted) + max(0, changed)

    def replace_document_queries(self, document_id: int, queries: Iterable[DocumentQuery]) -> None:
        """Replace the queries that a document contains, within a transaction of the caller."""
        with guarded(self.path):
            self._db.execute("DELETE FROM document_queries WHERE document_id = ?", (document_id,))
            self._db.executemany(
                """INSERT INTO document_queries (text, origin, chunk_id, document_id, start, end, target)
                VALUES (?, ?, ?, ?, ?, ?, ?)""",  # noqa: E501
                [
                    (
                        query.text,
                        query.origin,
                        query.chunk_id,
                        document_id,
                        query.start,
                        query.end,
                        query.target,
                    )
                    for query in queries
                ],
            )

    def document_queries(self) -> list[DocumentQuery]:
        """Return the queries found in live documents, by document path and position.

        Links are not followed to the documents that they name.
        """
        rows = self._fetch(
            """SELECT q.text, origin, chunk_id, document_id, start, end, document_id, target, q.id
            FROM document_queries q JOIN documents d ON d.id = document_id
            WHERE live AND origin <> 'filename' ORDER BY path, source, q.id"""
        )
        return [DocumentQuery(*row) for row in rows]

    def drop_judged(self, keys: Iterable[str]) -> int:
        """Delete judged queries by key; return how many remain."""
        with self.transaction(), guarded(self.path):
            self._db.executemany(
                "DELETE FROM judged_queries WHERE key = ?", [(key,) for key in keys]
            )
        return int(self._fetch("SELECT count(*) FROM judged_queries")[0][0])

    def put_judged(self, queries: Iterable[JudgedQuery]) -> int:
        """Add judged queries, replacing those with the same key; return how many there are now."""
        rows = [_judged_row(query) for query in queries]
        with self.transaction(), guarded(self.path):
            self._db.executemany(
                f"""INSERT INTO judged_queries ({_JUDGED}) VALUES (?, ?, ?, ?, ?, ?)
                ON CONFLICT (key) DO UPDATE SET text = excluded.text, evidence = excluded.evidence,
                grades = excluded.grades, path = excluded.path, also = excluded.also""",
                rows,
            )
        return int(self._fetch("SELECT count(*) FROM judged_queries")[0][0])

    def judged(self) -> list[JudgedQuery]:
        """Return all judged queries in order of id."""
        rows = self._fetch(f"SELECT {_JUDGED}, id FROM judged_queries ORDER BY id")
        return [self._read_judged(row) for row in rows]

    def _read_judged(self, row: Sequence[Any]) -> JudgedQuery:
        """Return the judged query in a row of the columns `_JUDGED` and the id."""
        key, text, evidence, grades, path, also, row_id = row
        return JudgedQuery(
            key,
            text,
            evidence=tuple(self._json(evidence)),
            grades=tuple((document, grade) for document, grade in self._json(grades)),
            path=path,
            id=row_id,
            also=tuple(FurtherAnswer(place, tuple(strings)) for place, strings in self._json(also)),
        )


def _query_row(query: Query, last: str) -> tuple[str | int, ...]:
    """Return the columns of a query; `last` is its split, or the reason for its rejection."""
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
    """Return the query in a row of the columns `_QUERY`."""
    text, kind, chunk_id, document_id, evidence, split, row_id, imported = row
    return Query(
        text,
        kind,
        chunk_id,
        document_id,
        evidence,
        split,
        row_id,
        bool(imported),
    )


def _read_rejected(row: Sequence[Any]) -> tuple[Query, str]:
    """Return the query in a row of the columns `_REJECTED`, and why it was rejected."""
    text, kind, chunk_id, document_id, evidence, reason, imported = row
    return Query(text, kind, chunk_id, document_id, evidence, imported=bool(imported)), str(reason)


def _judged_row(query: JudgedQuery) -> tuple[str | None, ...]:
    """Return the columns `_JUDGED` of a judged query; its lists are stored as JSON."""
    also = [[answer.path, answer.evidence] for answer in query.also]
    return (
        query.key,
        query.text,
        json.dumps(query.evidence),
        json.dumps(query.grades),
        query.path,
        json.dumps(also),
    )
