"""Questions whose hits people judged only as far as two systems differ in them."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.records import Chunk
from engine.evaluation.marks import read_marks
from engine.project.stage import ProjectSnapshot
from engine.queries.rules.tokens import question_key
from engine.written_queries.imports import MARKED


def asked_questions(snapshot: ProjectSnapshot) -> list[str]:
    """Return the questions that were put to 'engine judge' and have no right answer.

    Generated ones, and those that were trained on, are left out.
    """
    store = snapshot.store
    known = {question_key(query.text) for query in store.judged()}
    known |= {question_key(query.text) for query in store.queries()}
    found: dict[str, str] = {}
    for query in read_marks(snapshot.project).values():
        key = question_key(query.text)
        if query.focused and not query.generated and key not in known:
            found[key] = query.text
    return list(found.values())


def focused_questions(snapshot: ProjectSnapshot) -> frozenset[str]:
    """Keys (`question_key`) of judged questions whose hits were asked about only as far as two
    systems differ in them.

    They measure the difference of these two; figures of one system alone, and of others, would miss
    right passages.
    """
    deciding = [one for one in snapshot.store.judged() if not one.only_measures]
    imported = {question_key(one.text) for one in deciding if not one.key.startswith(MARKED)}
    focused = {
        question_key(one.text) for one in read_marks(snapshot.project).values() if one.focused
    }
    return frozenset(focused - imported)


def passages_of(chunks: Iterable[Chunk]) -> dict[int, int]:
    """Return chunk id → the first chunk of the same text, white space single: copies of a text
    are one passage.
    """
    texts: dict[str, int] = {}
    return {chunk.id: texts.setdefault(" ".join(chunk.text.split()), chunk.id) for chunk in chunks}
