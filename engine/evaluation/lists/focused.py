"""Questions judged only where two systems differ, as queries for comparing those two systems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.core.arrays import Doubles, Ids
from engine.core.records import Chunk
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.lists.asked import asked_questions, focused_questions, passages_of
from engine.evaluation.lists.differing import DEPTH, undecided_passages
from engine.evaluation.marks import find_marked_chunks, read_marks
from engine.evaluation.query_sets import QuerySet, document_names
from engine.project.stage import ProjectSnapshot
from engine.queries.rules.tokens import question_key

Measure = Callable[[Ids, Sequence[Judgment]], Doubles]


@dataclass
class FocusedSet(QuerySet):
    """Questions that measure only the difference between two systems.

    `judged`: per question, the judged chunks, right or wrong. `passages`: chunk id → the first
    chunk of the same text, since copies of a text are one passage.
    """

    judged: Sequence[frozenset[int]] = ()
    passages: Mapping[int, int] = field(default_factory=dict)

    def find_decided_rows(self, reference: Ids, candidate: Ids) -> list[int]:
        """Return the rows of questions that say which of two rankings (q, depth) is better.

        All passages in only one ranking, or at another rank, must be judged.
        """
        rows = []
        for row, judged in enumerate(self.judged):
            judged_passages = {self.passages.get(chunk, chunk) for chunk in judged}
            first = self._passages(reference[row])
            second = self._passages(candidate[row])
            if not undecided_passages(first, second, judged_passages):
                rows.append(row)
        return rows

    def measure(
        self,
        rows: Sequence[int],
        ranking: Ids,
        measure: Measure,
    ) -> Doubles:
        """Return nDCG@10 (r,) of a ranking (q, depth) on r rows, 0 without a right answer."""
        values = np.zeros(len(rows))
        usable = [index for index, row in enumerate(rows) if self.judgments[row].usable]
        if usable:
            usable_rows = [rows[index] for index in usable]
            judgments = [self.judgments[row] for row in usable_rows]
            values[usable] = measure(ranking[usable_rows], judgments)
        return values

    def clusters(self, rows: Sequence[int]) -> Ids:
        """Return the cluster of each row's question, as `clusters_of` numbers them."""
        return clusters_of([self.judgments[row] for row in rows])

    def _passages(self, ids: Ids) -> list[int]:
        """Return the passages of a ranking's first chunks."""
        return [self.passages.get(chunk, chunk) for chunk in ids[:DEPTH].tolist() if chunk >= 0]


def split_focused(
    snapshot: ProjectSnapshot, sets: Sequence[QuerySet], chunks: Sequence[Chunk]
) -> tuple[list[QuerySet], FocusedSet | None]:
    """Move questions that were judged only where two systems differ into a set of their own."""
    focused_keys = focused_questions(snapshot)
    remaining: list[QuerySet] = []
    focused: list[Judgment] = []
    for queries in sets:
        if queries.kind != "judged" or queries.generated:
            remaining.append(queries)
            continue
        rows = []
        for row, judgment in enumerate(queries.judgments):
            if question_key(judgment.text) in focused_keys:
                focused.append(judgment)
            else:
                rows.append(row)
        if rows:
            queries.judgments = [queries.judgments[row] for row in rows]
            queries.matches = [queries.matches[row] for row in rows]
            remaining.append(queries)
    focused += [Judgment(text, text, "chunk", {}) for text in asked_questions(snapshot)]
    if not focused:
        return remaining, None
    return remaining, _build_focused_set(snapshot, focused, chunks)


def _build_focused_set(
    snapshot: ProjectSnapshot, judgments: list[Judgment], chunks: Sequence[Chunk]
) -> FocusedSet:
    """Return the set of these questions, with the chunks that were judged right or wrong."""
    marked = {question_key(query.text): query for query in read_marks(snapshot.project).values()}
    judged = []
    for judgment in judgments:
        chunk_ids = set(judgment.grades)
        query = marked.get(question_key(judgment.text))
        if query is not None:
            chunk_ids.update(find_marked_chunks(snapshot.store, query))
        judged.append(frozenset(chunk_ids))
    names = document_names(snapshot)
    matches = [names.match(judgment.text) for judgment in judgments]
    name = "questions judged where two lists differ"
    return FocusedSet(
        name, "focused", judgments, matches, judged=judged, passages=passages_of(chunks)
    )
