"""The validation queries whose held-out checks decide when a training stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from engine.core.arrays import Ids
from engine.core.records import Chunk, DocumentQuery, Query
from engine.corpus.text.document_queries import document_queries
from engine.datasets.imports import has_validation_queries
from engine.metrics.relevance import pad_rows
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo
from engine.project.store.chunks import (
    document_ids_of,
    find_chunk_rows,
    find_rows_of_documents,
)
from engine.queries.choosing import backend_of_queries, is_extractive
from engine.queries.from_documents import strip_chunks, written_within
from engine.queries.heldout import related_in, unrelated_documents

HARD_PER_QUERY = 10
"""Number of BM25's best chunks of each query that compete in the held-out pool."""
MIN_TO_STOP = 60
"""Minimum number of held-out queries for checks; with fewer, the last step counts.

The per-query nDCG@10 of two steps differs by 0.2 (standard deviation), so with 60 queries a
difference of 5 points is two standard errors: about what an adaptation gains or loses.
"""


@dataclass(frozen=True, slots=True)
class StoppingQueries:
    """Queries that decide when training stops."""

    texts: Sequence[str]
    positives: Ids
    """(h,): for each query, the row of the chunk that answers it."""
    hard: Ids | None
    """(h, j): rows of chunks that compete with it, padded with −1."""
    synthetic: bool = False
    """Whether some of the queries were made from the documents."""


def choose_stopping_queries(
    context: StageContext,
    queries: Sequence[Query],
    chunks: Sequence[Chunk],
    ranked_rows: Ids,
) -> tuple[StoppingQueries, Sequence[Chunk]]:
    """Return validation queries, and the chunks without the document-written ones among them.

    Document-written queries are used together with those that a person or language model wrote; if
    a file of validation queries was imported, these alone. With fewer than `MIN_TO_STOP` in all,
    none is returned, and the chunks are unchanged. `ranked_rows` (n, k): BM25's ranking of each of
    the `queries`, by rows of `chunks`.
    """
    store = context.store
    written: list[DocumentQuery] = []
    are_imported = uses_imported_validation(context.project, queries)
    if not are_imported:
        related = related_in(store)
        written = written_for_stopping(
            queries,
            document_queries(store),
            chunks,
            related,
        )
    rows = generated_for_stopping(
        queries,
        chunks,
        backend_of_queries(context),
    )
    count = len(written) + len(rows)
    if count < MIN_TO_STOP:
        if are_imported:
            why = f"the imported validation queries are {count}, fewer than {MIN_TO_STOP}"
        else:
            why = (
                "titles, headings and queries by a language model of the validation documents are"
                f" {count}, fewer than {MIN_TO_STOP}; extractive ones flatter what is trained"
            )
        context.report_choice("stopped by", "nothing, the last step counts", why)
        return StoppingQueries([], np.empty(0, dtype=np.int64), None), chunks
    value = f"{len(written)} titles and headings, {len(rows)} imported or model-written queries"
    context.report_choice(
        "stopped by", value, "they are of validation documents, and none is extractive"
    )
    written_texts = [query.text for query in written]
    written_hard = pad_rows(
        [],
        -1,
        np.int64,
        HARD_PER_QUERY,
    )
    if written:
        best = find_chunk_rows(chunks, _best_by_bm25(context, written_texts))
        written_hard = without_answers(best, written, chunks)
    generated = [queries[row] for row in rows]
    best_rows = ranked_rows[rows, :HARD_PER_QUERY].tolist()
    generated_hard = pad_rows(
        best_rows,
        -1,
        np.int64,
        HARD_PER_QUERY,
    )
    generated_rows = find_chunk_rows(chunks, [query.chunk_id for query in generated])
    stopping = StoppingQueries(
        texts=[*written_texts, *(query.text for query in generated)],
        positives=np.concatenate([_rows_of_answers(written, chunks), generated_rows]),
        hard=np.concatenate([written_hard, generated_hard]),
        synthetic=bool(rows),
    )
    return stopping, strip_chunks(chunks, written)


def uses_imported_validation(project: ProjectFolder, queries: Sequence[Query]) -> bool:
    """Return whether a file of validation queries was imported, and some are among the queries.

    Backends that write all queries use no file.
    """
    is_used = any(query.imported and query.split == "validation" for query in queries)
    return is_used and has_validation_queries(project)


def _rows_of_answers(written: Sequence[DocumentQuery], chunks: Sequence[Chunk]) -> Ids:
    """Return the row of the chunk that answers each query (h,).

    It is the first of its document for a query that the whole document answers.
    """
    documents = {query.document_id for query in written if query.chunk_id is None}
    first_row_of: dict[int, int] = {}
    for row in find_rows_of_documents(chunks, documents).tolist():
        first_row_of.setdefault(chunks[row].document_id, row)
    answers = find_chunk_rows(chunks, _list_answers(written))
    for index, query in enumerate(written):
        if query.chunk_id is None:
            answers[index] = first_row_of[query.document_id]
    return answers


def _list_answers(written: Sequence[DocumentQuery]) -> list[int]:
    """Return the id of the chunk that answers each query, −1 where a whole document does."""
    return [-1 if query.chunk_id is None else query.chunk_id for query in written]


def written_for_stopping(
    queries: Sequence[Query],
    written: Sequence[DocumentQuery],
    chunks: Sequence[Chunk],
    related: Mapping[int, int],
) -> list[DocumentQuery]:
    """Return the document-written queries of documents that are only used for validation.

    All queries of these documents, their copies and their versions are of split `validation`.
    """
    all_documents = {query.document_id for query in queries}
    other_documents = {query.document_id for query in queries if query.split != "validation"}
    validation_documents = unrelated_documents(other_documents, related) & all_documents
    text_counts = Counter(query.text for query in written)
    candidates = written_within(validation_documents, written)
    rows = find_chunk_rows(chunks, _list_answers(candidates))
    usable = []
    for query, row in zip(candidates, rows.tolist(), strict=True):
        is_present = query.chunk_id is None or row >= 0
        # Two documents with the same title: neither is the only right answer.
        if is_present and text_counts[query.text] == 1:
            usable.append(query)
    return usable


def generated_for_stopping(
    queries: Sequence[Query], chunks: Sequence[Chunk], backend: str
) -> list[int]:
    """Return the rows of validation queries, made by a backend or imported, but not extractive."""
    is_present = find_chunk_rows(chunks, [query.chunk_id for query in queries]) >= 0
    rows = []
    for row, query in enumerate(queries):
        is_usable = query.split == "validation" and is_present[row]
        if is_usable and not is_extractive(query, backend):
            rows.append(row)
    return rows


def without_answers(
    hard: Ids,
    written: Sequence[DocumentQuery],
    chunks: Sequence[Chunk],
) -> Ids:
    """Return the rows of competing chunks `hard` (h, j) without those that answer the query, too.

    If a whole document answers a query, all of its chunks become −1.
    """
    owners = document_ids_of(chunks)
    whole_answers = np.full(len(written), -1)  # (h,) ids of documents
    for row, query in enumerate(written):
        if query.chunk_id is None:
            whole_answers[row] = query.document_id
    return np.where(
        owners[hard] == whole_answers[:, None],
        -1,
        hard,
    )


def _best_by_bm25(context: StageContext, texts: Sequence[str]) -> Ids:
    """Return the ids of the chunks that BM25 ranks first (h, j), padded with −1."""
    from engine.lexical.index import LexicalIndex

    index = LexicalIndex.open(context.project.folder_of(context.need(LexicalInfo)))
    ids = [hits for hits, _ in index.search_many(texts, HARD_PER_QUERY)]
    return pad_rows(
        ids,
        -1,
        np.int64,
        HARD_PER_QUERY,
    )
