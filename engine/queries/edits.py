"""The user's corrections of training queries: made in the database at once, and again whenever
queries are generated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engine.core.errors import DatasetError, UsageError
from engine.core.records import Query
from engine.project.folder import ProjectFolder
from engine.project.stage import ProjectSnapshot, fingerprint
from engine.project.store.artifact_info import QueriesInfo
from engine.project.store.store import Store
from engine.queries.rules.tokens import question_key
from engine.settings.schema import Settings
from engine.written_queries.imports import keep_rows, kept_rows

FILE = "query-edits.jsonl"
Edits = dict[tuple[str, str], str | None]


def content(queries: Iterable[Query]) -> str:
    """What the queries artifact notes of its queries: it changes when one of them does."""
    return fingerprint(rows=[(q.text, q.chunk_id, q.split) for q in queries])


def read_edits(project: ProjectFolder) -> Edits:
    """(content hash of the chunk, generated text) → the user's text, or None for a query taken out.

    Raises DatasetError.
    """

    def edit(row: dict[str, Any]) -> tuple[tuple[str, str], str | None]:
        chunk = row["chunk"]
        former = row["query"]
        text = row["text"]
        if not (
            isinstance(chunk, str)
            and isinstance(former, str)
            and (text is None or isinstance(text, str))
        ):
            raise TypeError("a value is no text")
        return (chunk, former), text

    return dict(
        kept_rows(
            project.path / "imports" / FILE, edit, "query edits", code="query-edits-unreadable"
        )
    )


def _write_edits(project: ProjectFolder, edits: Edits) -> None:
    rows = [
        {"chunk": chunk, "query": former, "text": text} for (chunk, former), text in edits.items()
    ]
    keep_rows(project, FILE, rows)


def apply_edits(
    queries: Sequence[Query], hashes: Mapping[int, str], edits: Edits, judged: AbstractSet[str]
) -> list[Query]:
    """Freshly generated queries with the user's edits.

    `hashes`: chunk id → content hash; `judged`: folded texts.

    An edited query is left out where its text equals a judged one or another query by now.
    """
    keys = [(hashes.get(query.chunk_id, ""), query.text) for query in queries]
    taken = {
        question_key(query.text)
        for query, key in zip(queries, keys, strict=True)
        if key not in edits
    } | judged
    result = []
    for query, key in zip(queries, keys, strict=True):
        text = edits.get(key, query.text)
        if text is None:
            continue
        if key in edits:
            if question_key(text) in taken:
                continue
            taken.add(question_key(text))
        result.append(query if text == query.text else replace(query, text=text))
    return result


def rewrite(project: ProjectFolder, store: Store, texts: Mapping[int, str | None]) -> int:
    """Give queries (by id) new texts, or take them out (None), for good; returns how many there
    were.

    The caller holds the project's lock. Raises UsageError for a text that is empty, judged, or
    another query's, and for a new text of a query that is gone; NotBuiltError before queries were
    generated.
    """
    wanted = {key: _one_line(text) for key, text in texts.items()}
    before = read_edits(project)
    try:
        # what is looked at stays as it is until the end, and a failure changes nothing
        with store.transaction():
            return _rewritten(project, store, wanted, before)
    except BaseException:
        # the last step of the transaction may have failed, too
        with suppress(OSError, DatasetError):
            if read_edits(project) != before:
                _write_edits(project, before)
        raise


def _rewritten(
    project: ProjectFolder, store: Store, wanted: Mapping[int, str | None], before: Edits
) -> int:
    artifact = ProjectSnapshot(project, Settings(), store).need(QueriesInfo)
    queries = {query.id: query for query in store.queries()}
    _refuse_unfit(store, queries, wanted)
    present = {key: text for key, text in wanted.items() if key in queries}
    edits = _noted(before, store, queries, present)
    for key, text in present.items():
        if text is None:
            former = queries.pop(key)
        else:
            former = queries[key]
        if text is not None:
            queries[key] = replace(former, text=text)
    count = store.rewrite_queries(present)
    store.replace_artifact(
        replace(artifact, info=replace(artifact.info, content=content(queries.values())))
    )
    _write_edits(project, edits)
    return count


def _one_line(text: str | None) -> str | None:
    if text is None:
        return None
    return " ".join(text.replace("\0", " ").encode("utf-8", "replace").decode().split())


def _refuse_unfit(
    store: Store, queries: Mapping[int, Query], wanted: Mapping[int, str | None]
) -> None:
    judged = {question_key(query.text) for query in store.judged()}
    others = {question_key(query.text) for key, query in queries.items() if key not in wanted}
    for key, text in wanted.items():
        if text is None:
            continue
        if key not in queries:
            raise UsageError(
                f"There is no query {key}.",
                "Queries may have been generated anew.",
                "Look again.",
                code="query-missing",
            )
        if not text:
            what = "A query cannot be empty."
            to_do = "Write one, or delete the query."
            raise UsageError(what, "There is no text in it.", to_do, code="query-empty")
        if (same := question_key(text)) in judged:
            why = "Judged questions are for measuring; they are never trained on."
            raise UsageError(
                "The text equals a judged question.", why, "Reword it.", code="query-judged"
            )
        if same in others:
            why = "Each query is trained on once."
            raise UsageError(
                "The text equals another query.", why, "Reword it.", code="query-duplicate"
            )
        others.add(same)


def _noted(
    edits: Edits, store: Store, queries: Mapping[int, Query], texts: Mapping[int, str | None]
) -> Edits:
    """The kept edits with new ones: an edit of an edited query replaces the former; going back
    drops it.
    """
    chunks = store.chunks_by_id({queries[key].chunk_id for key in texts})
    originals = {
        (chunk, text): former for (chunk, former), text in edits.items() if text is not None
    }
    result = dict(edits)
    for key, text in texts.items():
        query = queries[key]
        if query.chunk_id not in chunks:
            continue  # its document is gone: it will not be generated again
        chunk = chunks[query.chunk_id].content_hash
        former = originals.get((chunk, query.text), query.text)
        if text == former:
            result.pop((chunk, former), None)
        else:
            result[chunk, former] = text
    return result
