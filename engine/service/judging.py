"""Marking of hits as right or wrong, which makes judged queries for the evaluation."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from engine.core.disk import disk_errors
from engine.core.errors import UsageError
from engine.core.messages.search import Judge, Judged, Judgments, ReadJudgments
from engine.datasets.imports import JUDGING, JUDGING_SECONDS
from engine.project.folder import ProjectFolder
from engine.search.syntax import parse, plain_text
from engine.search.workers import preload


def judge(project: ProjectFolder, request: Judge) -> Judged:
    """Mark a chunk as right or wrong for a query, or take the mark back."""
    preload()
    from engine.evaluation.marks import (
        Mark,
        MarkedQuery,
        find_marked_chunks,
        is_generated,
        read_marks,
        write_marks_or_restore,
    )

    if request.relevant is not None and parse(request.query).like:
        raise UsageError(
            "Documents like another are no answer to a question.",
            "",
            "Search with words, and judge those hits.",
            code="judge-like",
        )
    # Judging has a lock of its own: people judge while a training runs, and a running evaluation
    # uses the judgments that it started with.
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
        former = read_marks(project)
        marks = dict(former)
        query = MarkedQuery(plain_text(request.query))
        if query.key in marks:
            query = marks[query.key]
        else:
            query = replace(query, generated=is_generated(store, query.text))
        path = store.document_card(chunk.document_id).path
        mark = None
        if relevant is not None:
            mark = Mark(
                path,
                chunk.text,
                chunk.content_hash,
                relevant,
            )
        former_marks = set(find_marked_chunks(store, query).get(chunk_id, ()))
        query = query.with_mark(former_marks, mark)
        if query.marks or query.focused:
            marks[query.key] = query
        else:
            marks.pop(query.key, None)
        judged = query.to_judged_query()
        with write_marks_or_restore(project, marks, former):
            if judged:
                count = store.put_judged([judged])
            else:
                count = store.drop_judged([query.key])
            return Judged(count)


def judgments(project: ProjectFolder, request: ReadJudgments) -> Judgments:
    """Return the chunks that are marked for a query, and the number of all judged queries."""
    preload()
    from engine.evaluation.marks import MarkedQuery, find_marked_chunks, read_marks

    with closing(project.store()) as store:
        unmarked = MarkedQuery(plain_text(request.query))
        query = read_marks(project).get(unmarked.key, unmarked)
        marks_by_chunk = find_marked_chunks(store, query)
        count = store.count("judged_queries")
    relevance = {}
    for chunk_id, marks in marks_by_chunk.items():
        relevance[chunk_id] = marks[-1].relevant
    return Judgments(relevance, count)


HANDLERS = {Judge: judge, ReadJudgments: judgments}
