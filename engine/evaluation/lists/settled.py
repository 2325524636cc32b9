"""Questions that show no difference between two systems, although no right answer is known: their lists are the same, or differ in
wrong passages alone.

They are queries of a paired comparison of these two, each with a difference of 0, and of nothing else: no figure of one system, and
no comparison with a third one, can be measured on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.records import Chunk
from engine.evaluation.lists.differing import DEPTH, undecided_passages
from engine.evaluation.marks import MarkedQuery, marked_chunks, read_marks
from engine.project.stage import ProjectSnapshot
from engine.queries.rules.tokens import question_key
from engine.written_queries.imports import MARKED

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question of a person without a known right answer, and the chunks that are judged to be `wrong`."""

    text: str
    wrong: frozenset[int] = frozenset()


def asked_questions(snapshot: ProjectSnapshot, chunks: Sequence[Chunk]) -> list[AskedQuestion]:
    """Those that were put to 'engine judge' and have no right answer, but for generated ones and those that were trained on."""
    store = snapshot.store
    known = {question_key(query.text) for query in store.judged()}
    known |= {question_key(query.text) for query in store.queries()}
    found: dict[str, AskedQuestion] = {}
    for query in read_marks(snapshot.project).values():
        key = question_key(query.text)
        if query.focused and not query.generated and key not in known:
            found[key] = AskedQuestion(query.text, _wrong_chunks(snapshot, query, chunks))
    return list(found.values())


def focused_questions(snapshot: ProjectSnapshot) -> frozenset[str]:
    """Keys (`question_key`) of judged questions whose hits were asked about only as far as two systems differ in them.

    They measure the difference of these two; figures of one system alone, and of others, would miss right passages.
    """
    imported = {question_key(one.text) for one in snapshot.store.judged() if not one.key.startswith(MARKED)}
    focused = {question_key(one.text) for one in read_marks(snapshot.project).values() if one.focused}
    return frozenset(focused - imported)


def settled_rows(questions: Sequence[AskedQuestion], rankings: Sequence[Ids], chunks: Iterable[Chunk]) -> list[int]:
    """The rows of questions on which all systems are known to be equally good.

    `rankings`: of each system that is compared, (q, depth) chunk ids, −1 where padded, a row for each question; the reference's
    first. Copies of a text are one passage.
    """
    if not rankings:
        return []
    passage_of = passages_of(chunks)
    rows: list[int] = []
    for row, question in enumerate(questions):
        lists = [_passages(ranking[row], passage_of) for ranking in rankings]
        wrong = {passage_of.get(one, one) for one in question.wrong}
        if all(not undecided_passages(lists[0], other, wrong) for other in lists[1:]):
            rows.append(row)
    return rows


def passages_of(chunks: Iterable[Chunk]) -> dict[int, int]:
    """Return chunk id → the first chunk of the same text, white space single: copies of a text are one passage."""
    texts: dict[str, int] = {}
    return {chunk.id: texts.setdefault(" ".join(chunk.text.split()), chunk.id) for chunk in chunks}


def _passages(ids: Ids, passage_of: dict[int, int]) -> list[int]:
    return [passage_of.get(chunk_id, chunk_id) for chunk_id in ids[:DEPTH].tolist() if chunk_id >= 0]


def _wrong_chunks(snapshot: ProjectSnapshot, query: MarkedQuery, chunks: Sequence[Chunk]) -> frozenset[int]:
    present = {chunk.id for chunk in chunks}
    found = marked_chunks(snapshot.store, query)
    return frozenset(row for row, marks in found.items() if row in present and not marks[-1].relevant)
