"""The chunks that an evaluation ranks: all of them, or a sample of a large corpus with the answers.

METHODS.md §5, "Evaluation of a large corpus".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from engine.core.arrays import Ids
from engine.core.records import Chunk
from engine.evaluation.query_sets import QuerySet
from engine.project.stage import ProjectSnapshot
from engine.project.store.chunks import (
    IN_MEMORY,
    find_chunk_rows,
    find_rows_of_documents,
    sample_indices,
)


def draw_pool(
    snapshot: ProjectSnapshot,
    chunks: Sequence[Chunk],
    sets: Iterable[QuerySet],
    most: int = IN_MEMORY,
) -> Sequence[Chunk]:
    """Return the chunks to rank for the queries of some sets, ascending by id.

    If there are more than `most` chunks, these are a random sample of `most` and all chunks that
    answer a query. The top hits of the systems are not added to the sample. A system whose hits
    were added would meet all the wrong chunks that it prefers, other systems only some of theirs,
    and it would look worse than they do.
    """
    if len(chunks) <= most:
        return chunks
    needed = _find_needed(chunks, sets)
    sample = sample_indices(
        len(chunks),
        snapshot.settings.training.seed,
        [needed],
        most,
    )
    # Chunks of a large corpus are read from the database on access; read the sample at once.
    return snapshot.store.read_whole([chunks[row] for row in sample])


def _find_needed(chunks: Sequence[Chunk], sets: Iterable[QuerySet]) -> Ids:
    """Return the rows of the chunks that answer a query or are in a document that it names.

    Where whole documents answer, these are all chunks of the documents.
    """
    ids: set[int] = set()
    documents: set[int] = set()
    for queries in sets:
        for judgment in queries.judgments:
            if judgment.level == "document":
                documents.update(judgment.grades)
            else:
                ids.update(judgment.grades)
        for match in queries.matches:
            documents.update(match.documents)
    rows = find_chunk_rows(chunks, list(ids))
    return np.concatenate([rows, find_rows_of_documents(chunks, documents)])
