"""Hits marked as right or wrong: they become judged queries, which the evaluation measures with."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from engine.core.disk import disk_errors
from engine.core.errors import UsageError
from engine.core.messages.search import Judge, Judged, Judgments, ReadJudgments, query_words
from engine.project.folder import ProjectFolder
from engine.search.syntax import parse, plain_text
from engine.search.workers import preload
from engine.written_queries.imports import JUDGING, JUDGING_SECONDS


def judge(project: ProjectFolder, request: Judge) -> Judged:
    """Mark a chunk as right or wrong for a query, or take the mark back."""
    preload()
    from engine.evaluation.marks import (
        Mark,
        MarkedQuery,
        is_generated,
        kept_marks,
        marked_chunks,
        read_marks,
    )

    if request.relevant is not None and parse(request.query).like:
        raise UsageError(
            "Documents like another are no answer to a question.",
            "",
            "Search with words, and judge those hits.",
            code="judge-like",
        )
    # not the run's lock: who waits for a training searches and judges; a running evaluation takes
    # what it began with
    with (
        project.locked(JUDGING, wait=JUDGING_SECONDS),
        disk_errors("The mark could not be kept."),
        closing(project.store()) as store,
    ):
        chunk_id = request.chunk_id
        relevant = request.relevant
        chunk = store.chunks_by_id([chunk_id]).get(chunk_id)
        if chunk is None:
            raise UsageError(
                f"There is no chunk {chunk_id}.",
                "Its document may have been deleted.",
                "Search again.",
                code="chunk-missing",
            )
        marks = read_marks(project)
        blank = MarkedQuery(query_words(plain_text(request.query)))
        former = marks.get(blank.key) or replace(blank, generated=is_generated(store, blank.text))
        path = store.document_card(chunk.document_id).path
        if relevant is None:
            mark = None
        else:
            mark = Mark(path, chunk.text, chunk.content_hash, relevant)
        now = former.with_mark(set(marked_chunks(store, former).get(chunk_id, ())), mark)
        marks[now.key] = now
        if not now.marks and not now.focused:
            del marks[now.key]
        judged = now.judged()
        with kept_marks(project, marks):
            return Judged(store.put_judged([judged]) if judged else store.drop_judged([now.key]))


def judgments(project: ProjectFolder, request: ReadJudgments) -> Judgments:
    """The chunks that are marked for a query."""
    preload()
    from engine.evaluation.marks import MarkedQuery, marked_chunks, read_marks

    with closing(project.store()) as store:
        blank = MarkedQuery(query_words(plain_text(request.query)))
        found = marked_chunks(store, read_marks(project).get(blank.key, blank))
        count = store.counts()["judged_queries"]
    return Judgments({key: marks[-1].relevant for key, marks in found.items()}, count)


HANDLERS = {Judge: judge, ReadJudgments: judgments}
