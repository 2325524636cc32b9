"""The user's corrections of training queries.

An edit changes the database at once. It is also kept in imports/query-edits.jsonl, and applied
again whenever queries are generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engine.core.errors import DatasetError, UsageError
from engine.core.records import Query
from engine.datasets.imports import read_rows, write_rows
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, fingerprint
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.store import Store
from engine.queries.rules.tokens import question_key
from engine.settings.schema import Settings

FILE = "query-edits.jsonl"
Edits = dict[tuple[str, str], str | None]
"""(content hash of the chunk, generated text) → the user's text, or None for a deleted query."""


def content_fingerprint(queries: Iterable[Query]) -> str:
    """Return the fingerprint of queries that is stored as `QueriesInfo.content`."""
    return fingerprint(rows=[(q.text, q.chunk_id, q.split) for q in queries])


def read_edits(project: ProjectFolder) -> Edits:
    """Read the edits of a project's file. Raises DatasetError."""

    def read_row(row: dict[str, Any]) -> tuple[tuple[str, str], str | None]:
        """Return a row of the file as an item of `Edits`. Raises KeyError, TypeError."""
        chunk = row["chunk"]
        original = row["query"]
        text = row["text"]
        if not isinstance(chunk, str) or not isinstance(original, str):
            raise TypeError("a value is no text")
        if text is not None and not isinstance(text, str):
            raise TypeError("a value is no text")
        return (chunk, original), text

    path = project.path / "imports" / FILE
    return dict(read_rows(path, read_row, "query edits", code="query-edits-unreadable"))


def _write_edits(project: ProjectFolder, edits: Edits) -> None:
    """Write the edits into a project's file."""
    rows = []
    for (chunk, original), text in edits.items():
        rows.append({"chunk": chunk, "query": original, "text": text})
    write_rows(project, FILE, rows)


def apply_edits(
    queries: Sequence[Query], hashes: Mapping[int, str], edits: Edits, judged: AbstractSet[str]
) -> list[Query]:
    """Return newly generated queries with the user's edits.

    `hashes`: chunk id → content hash. `judged`: the `question_key` of each judged question. An
    edited query is left out if its new text now equals a judged question or another query.
    """
    keys = [(hashes.get(query.chunk_id, ""), query.text) for query in queries]
    taken = set(judged)
    for query, key in zip(queries, keys, strict=True):
        if key not in edits:
            taken.add(question_key(query.text))
    result = []
    for query, key in zip(queries, keys, strict=True):
        if key not in edits:
            result.append(query)
            continue
        text = edits[key]
        if text is None or question_key(text) in taken:
            continue
        taken.add(question_key(text))
        result.append(replace(query, text=text))
    return result


def edit_queries(
    project: ProjectFolder,
    store: Store,
    texts: Mapping[int, str | None],
) -> int:
    """Change or delete queries, and return how many of them existed.

    `texts`: query id → new text, or None to delete the query. The edits are applied again when
    queries are generated. The caller holds the project's lock. Raises UsageError for a text that is
    empty, judged or equal to another query, and for a new text of a missing query; NotBuiltError
    before queries were generated.
    """
    cleaned = {query_id: _clean(text) for query_id, text in texts.items()}
    before = read_edits(project)
    try:
        # Nothing else changes the database until the end, and a failure changes nothing.
        with store.transaction():
            return _apply_texts(project, store, cleaned, before)
    except BaseException:
        # Committing the transaction may have failed after the edits were written.
        with suppress(OSError, DatasetError):
            if read_edits(project) != before:
                _write_edits(project, before)
        raise


def _apply_texts(
    project: ProjectFolder, store: Store, texts: Mapping[int, str | None], before: Edits
) -> int:
    """Write new texts into the database and the file. `before`: the edits that the file has."""
    artifact = ProjectSnapshot(project, Settings(), store).need(QueriesInfo)
    queries = {query.id: query for query in store.queries()}
    _check_texts(store, queries, texts)
    present = {query_id: text for query_id, text in texts.items() if query_id in queries}
    edits = _add_edits(
        before,
        store,
        queries,
        present,
    )
    for query_id, text in present.items():
        if text is None:
            del queries[query_id]
        else:
            queries[query_id] = replace(queries[query_id], text=text)
    count = store.rewrite_queries(present)
    info = replace(artifact.info, content=content_fingerprint(queries.values()))
    store.replace_artifact(replace(artifact, info=info))
    _write_edits(project, edits)
    return count


def _clean(text: str | None) -> str | None:
    """Return a text as a single line that can be stored."""
    if text is None:
        return None
    return " ".join(text.replace("\0", " ").encode("utf-8", "replace").decode().split())


def _check_texts(
    store: Store, queries: Mapping[int, Query], texts: Mapping[int, str | None]
) -> None:
    """Check each new text. Raises the UsageErrors of `edit_queries`."""
    judged = {question_key(query.text) for query in store.judged()}
    other_keys = {
        question_key(query.text) for query_id, query in queries.items() if query_id not in texts
    }
    for query_id, text in texts.items():
        if text is None:
            continue
        if query_id not in queries:
            raise UsageError(
                f"There is no query {query_id}.",
                "Queries may have been generated again.",
                "Look again.",
                code="query-missing",
            )
        if not text:
            raise UsageError(
                "A query cannot be empty.",
                "There is no text in it.",
                "Write one, or delete the query.",
                code="query-empty",
            )
        key = question_key(text)
        if key in judged:
            raise UsageError(
                "The text equals a judged question.",
                "Judged questions are for measuring; they are never trained on.",
                "Reword it.",
                code="query-judged",
            )
        if key in other_keys:
            raise UsageError(
                "The text equals another query.",
                "Each query is trained on once.",
                "Reword it.",
                code="query-duplicate",
            )
        other_keys.add(key)


def _add_edits(
    edits: Edits, store: Store, queries: Mapping[int, Query], texts: Mapping[int, str | None]
) -> Edits:
    """Return `edits` with the new ones of `texts` (query id → text, or None to delete).

    The edit of a query that was edited before replaces the former one. If the new text is the
    generated one again, the edit is dropped.
    """
    chunks = store.chunks_by_id({queries[query_id].chunk_id for query_id in texts})
    originals = {}  # (chunk hash, edited text) → generated text
    for (chunk_hash, original), edited in edits.items():
        if edited is not None:
            originals[chunk_hash, edited] = original
    result = dict(edits)
    for query_id, text in texts.items():
        query = queries[query_id]
        if query.chunk_id not in chunks:
            continue  # its document is gone: it will not be generated again
        chunk_hash = chunks[query.chunk_id].content_hash
        original = originals.get((chunk_hash, query.text), query.text)
        if text == original:
            result.pop((chunk_hash, original), None)
        else:
            result[chunk_hash, original] = text
    return result
