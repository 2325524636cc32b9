"""Questions whose hits people judged only where two systems differ."""

from __future__ import annotations

from collections.abc import Iterable

from engine.core.records import Chunk
from engine.datasets.imports import MARKED
from engine.evaluation.marks import read_marks
from engine.project.stage import ProjectSnapshot
from engine.queries.rules.tokens import question_key


def asked_questions(snapshot: ProjectSnapshot) -> list[str]:
    """Return questions that people judged where two systems differ, without finding a right answer.

    Generated questions, and those that were trained on, are left out.
    """
    store = snapshot.store
    left_out = {question_key(query.text) for query in store.judged()}
    left_out |= {question_key(query.text) for query in store.queries()}
    questions: dict[str, str] = {}
    for query in read_marks(snapshot.project).values():
        key = question_key(query.text)
        if query.focused and not query.generated and key not in left_out:
            questions[key] = query.text
    return list(questions.values())


def focused_questions(snapshot: ProjectSnapshot) -> frozenset[str]:
    """Return keys (`question_key`) of questions that were judged only where two systems differ.

    They can measure only the difference between these two systems: right passages outside of their
    two lists were not judged.
    """
    focused = set()
    for query in read_marks(snapshot.project).values():
        if query.focused:
            focused.add(question_key(query.text))
    for judged in snapshot.store.judged():
        is_imported = not judged.only_measures and not judged.key.startswith(MARKED)
        if is_imported:
            focused.discard(question_key(judged.text))
    return frozenset(focused)


def passages_of(chunks: Iterable[Chunk]) -> dict[int, int]:
    """Return for each chunk id the first chunk with the same text, since copies are one passage.

    Texts that differ only in white space are the same.
    """
    first_of: dict[str, int] = {}
    passages = {}
    for chunk in chunks:
        text = " ".join(chunk.text.split())
        passages[chunk.id] = first_of.setdefault(text, chunk.id)
    return passages
