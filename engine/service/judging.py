"""Hits marked as right or wrong: they become judged queries, which the evaluation measures with."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

from engine.core.errors import UsageError
from engine.corpus.imports import JUDGING, JUDGING_SECONDS
from engine.project.folder import ProjectFolder, disk_errors
from engine.search.workers import preload
from engine.service import params

Task = Callable[[], dict[str, Any]]


def judge(project: ProjectFolder, query: Any, chunk_id: Any, relevant: Any = None) -> Task:
    """Mark a chunk as right (true) or wrong (false) for a query; null, or nothing, takes the mark back."""
    text, wanted = _query(query), params.row("chunk_id", chunk_id)
    if not (relevant is None or isinstance(relevant, bool)):
        raise TypeError("relevant must be true, false or null")
    return lambda: _judge(project, text, wanted, relevant)


def _query(value: Any) -> str:
    text = " ".join(params.text("query", value).replace("\0", " ").encode("utf-8", "replace").decode().split())
    if not text:
        raise ValueError("query must not be empty")
    return text


def _judge(project: ProjectFolder, text: str, chunk_id: int, relevant: bool | None) -> dict[str, Any]:
    preload()
    from engine.evaluation.marks import Mark, MarkedQuery, kept_marks, marked_chunks, read_marks

    # not the run's lock: who waits for a training searches and judges; an evaluation at work takes what it began with
    with (
        project.locked(JUDGING, wait=JUDGING_SECONDS),
        disk_errors("The mark could not be kept."),
        closing(project.store()) as store,
    ):
        chunk = store.chunks_by_id([chunk_id]).get(chunk_id)
        if chunk is None:
            raise UsageError(
                f"There is no chunk {chunk_id}.", "Its document may have been deleted.", "Search again.",
                code="chunk-missing",
            )  # fmt: skip
        marks = read_marks(project)
        blank = MarkedQuery(text)
        former = marks.get(blank.key, blank)
        path = store.document_card(chunk.document_id).path
        mark = None if relevant is None else Mark(path, chunk.text, chunk.content_hash, relevant)
        now = former.with_mark(set(marked_chunks(store, former).get(chunk_id, ())), mark)
        marks[now.key] = now
        if not now.marks:
            del marks[now.key]
        judged = now.judged()
        with kept_marks(project, marks):
            return {"judged_queries": store.put_judged([judged]) if judged else store.drop_judged([now.key])}


def judgments(project: ProjectFolder, query: Any) -> Task:
    """The chunks that are marked for a query."""
    text = _query(query)
    return lambda: _judgments(project, text)


def _judgments(project: ProjectFolder, text: str) -> dict[str, Any]:
    preload()
    from engine.evaluation.marks import MarkedQuery, marked_chunks, read_marks

    with closing(project.store()) as store:
        blank = MarkedQuery(text)
        found = marked_chunks(store, read_marks(project).get(blank.key, blank))
        count = store.counts()["judged_queries"]
    return {"chunks": {str(key): marks[-1].relevant for key, marks in found.items()}, "judged_queries": count}


METHODS: dict[str, Callable[..., Callable[[], Any]]] = {"judge": judge, "judgments": judgments}
