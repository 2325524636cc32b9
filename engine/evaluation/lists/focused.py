"""Questions whose hits were judged only as far as two systems differ in them, as queries of the
paired comparison of these two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from engine.core.records import Chunk
from engine.evaluation.judgments import Judgment, clusters_of
from engine.evaluation.lists.asked import asked_questions, focused_questions, passages_of
from engine.evaluation.lists.differing import DEPTH, undecided_passages
from engine.evaluation.marks import marked_chunks, read_marks
from engine.evaluation.query_sets import QuerySet, document_names
from engine.project.stage import ProjectSnapshot
from engine.queries.rules.tokens import question_key

Ids = NDArray[np.int64]
Floats = NDArray[np.float64]
Measure = Callable[[Ids, Sequence[Judgment]], Floats]


@dataclass
class FocusedSet(QuerySet):
    """Questions of people that say something of the difference of two systems alone.

    `judged`: per question, the chunks that are judged, right or wrong. `passages`: chunk id → the
        first chunk of the same text,
    as copies of a text are one passage.
    """

    judged: Sequence[frozenset[int]] = ()
    passages: Mapping[int, int] = field(default_factory=dict)

    def decided_rows(self, reference: Ids, candidate: Ids) -> list[int]:
        """Return the rows of questions whose difference between two rankings (q, depth) is
        known: all passages that stand in one alone, or at another rank, are judged.
        """
        found = []
        for row, judged in enumerate(self.judged):
            known = {self.passages.get(one, one) for one in judged}
            if not undecided_passages(
                self._passages(reference[row]), self._passages(candidate[row]), known
            ):
                found.append(row)
        return found

    def values(self, rows: Sequence[int], ranking: Ids, measure: Measure) -> Floats:
        """Return nDCG@10 (r,) of a ranking (q, depth) on some rows; 0 for questions without a
        right answer.
        """
        found = np.zeros(len(rows))
        usable = [place for place, row in enumerate(rows) if self.judgments[row].usable]
        if usable:
            chosen = [rows[place] for place in usable]
            found[usable] = measure(ranking[chosen], [self.judgments[row] for row in chosen])
        return found

    def clusters(self, rows: Sequence[int]) -> Ids:
        """Return the document of each row's question, as `clusters_of`."""
        return clusters_of([self.judgments[row] for row in rows])

    def _passages(self, ids: Ids) -> list[int]:
        return [self.passages.get(one, one) for one in ids[:DEPTH].tolist() if one >= 0]


def split_focused(
    snapshot: ProjectSnapshot, sets: Sequence[QuerySet], chunks: Sequence[Chunk]
) -> tuple[list[QuerySet], FocusedSet | None]:
    """Take the questions that were judged only where two systems differ out of the judged ones,
    into a set of their own.
    """
    focused = focused_questions(snapshot)
    found: list[QuerySet] = []
    taken: list[Judgment] = []
    for one in sets:
        if one.kind != "judged" or one.generated:
            found.append(one)
            continue
        rows = [
            row
            for row, judgment in enumerate(one.judgments)
            if question_key(judgment.text) not in focused
        ]
        taken += [judgment for judgment in one.judgments if question_key(judgment.text) in focused]
        if rows:
            one.judgments = [one.judgments[row] for row in rows]
            one.matches = [one.matches[row] for row in rows]
            found.append(one)
    taken += [Judgment(text, text, "chunk", {}) for text in asked_questions(snapshot)]
    return found, _focused_set(snapshot, taken, chunks) if taken else None


def _focused_set(
    snapshot: ProjectSnapshot, judgments: list[Judgment], chunks: Sequence[Chunk]
) -> FocusedSet:
    marks = {question_key(query.text): query for query in read_marks(snapshot.project).values()}
    judged = []
    for judgment in judgments:
        query = marks.get(question_key(judgment.text))
        if query is not None:
            marked = marked_chunks(snapshot.store, query)
        else:
            marked = {}
        judged.append(frozenset(marked) | frozenset(judgment.grades))
    names = document_names(snapshot)
    matches = [names.match(judgment.text) for judgment in judgments]
    name = "questions judged where two lists differ"
    return FocusedSet(
        name, "focused", judgments, matches, judged=judged, passages=passages_of(chunks)
    )
