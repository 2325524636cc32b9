"""Tables of a project as it is: sizes, questions, and how queries are changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from engine.evaluation.query_sets import build_query_sets
from engine.lab.checks.perturbation import MASK, content_terms
from engine.lab.checks.robustness import PerturbedQueries, perturb_queries
from engine.lab.checks.substitutes import (
    ask_for_substitutes,
    choose_keywords,
    has_language_model,
)
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo
from engine.project.store.store import Store

Labelled = Iterator[tuple[str, dict[str, Any]]]
"""Label of each row → value of each column."""
SHOWN = 3
"""Number of queries, and of answers of each, that a table shows."""
BEGINNING = 200
"""Number of characters shown of a document that answers a question."""
CHANGED = {
    "clean": "original",
    "mask shared": "masked",
    "substitute shared": "substituted",
}
"""Condition → column of the queries that it makes."""


def unheard_context(project: ProjectFolder, store: Store) -> StageContext:
    """Return a context for the project, as of the stage `evaluate`, that discards events."""
    return StageContext(
        project,
        project.settings(),
        store,
        "evaluate",
    )


def _list_statistics(project: ProjectFolder) -> Labelled:
    """Yield one row: the numbers of documents and queries, and the settings of ranking."""
    settings = project.settings()
    with closing(project.store()) as store:
        counts = store.counts()
        chunks = store.chunks()
        splits = Counter(query.split for query in store.queries())
    yield (
        project.name,
        {
            "evaluation queries": counts["judged_queries"],
            "documents": counts["documents"],
            "chunks": counts["chunks"],
            "corpus tokens": sum(chunk.tokens for chunk in chunks),
            "synthesized queries": splits.total(),
            "training queries": splits["train"],
            "validation queries": splits["validation"],
            "held-out queries": splits["heldout"],
            "chunk size": settings.corpus.chunk_tokens,
            "k": settings.ranking.k,
            "m": settings.ranking.m,
        },
    )


def _list_questions(project: ProjectFolder) -> Labelled:
    """Yield the first judged questions and their answers.

    The answers are evidence, else the document's path, else the beginnings of relevant documents.
    """
    with closing(project.store()) as store:
        documents = store.documents()
        ids = {document.external_id or document.path: document.id for document in documents}
        for number, judged in enumerate(store.judged()[:SHOWN], 1):
            answers = list(judged.evidence)
            if not answers and judged.path:
                answers = [judged.path]
            elif not answers:
                names = [name for name, grade in judged.grades if grade > 0]
                answers = [_read_beginning(store, ids.get(name)) or name for name in names[:SHOWN]]
            yield str(number), {"question": judged.text, "answer": " … ".join(answers)}


def _read_beginning(store: Store, document_id: int | None) -> str:
    """Return the first characters of a document, empty if there is none."""
    document = store.document(document_id) if document_id is not None else None
    if document is None:
        return ""
    return " ".join(document.text[:BEGINNING].split())


def _list_perturbed(project: ProjectFolder) -> Labelled:
    """Yield the judged queries that share most words with their answers, and their changed forms.

    Keywords and substitutes come from the project's language model. Without one, all shared words
    count as keywords, and there are no substitutes.
    """
    with closing(project.store()) as store:
        context = unheard_context(project, store)
        chunks = store.chunks()
        terms = content_terms(context.need(LexicalInfo).info.language)
        judged = build_query_sets(context, chunks)[0]
        seed = context.settings.training.seed
        perturbed = perturb_queries(
            judged,
            chunks,
            terms,
            seed,
        )
        if perturbed is None:
            return
        most_masks = sorted(
            _list_texts(perturbed), key=lambda row: row.get("masked", "").count(MASK), reverse=True
        )
        rows = most_masks[:SHOWN]
        # A language model is only asked about the queries that the table shows.
        by_model = {}
        if has_language_model(context):
            originals = {row["original"] for row in rows}
            shown_rows = [row for row in judged.usable() if judged.texts[row] in originals]
            few_queries = replace(
                judged,
                judgments=[judged.judgments[row] for row in shown_rows],
                matches=[judged.matches[row] for row in shown_rows],
            )
            ask = partial(ask_for_substitutes, context)
            choose = partial(choose_keywords, context)
            with_model = perturb_queries(
                few_queries,
                chunks,
                terms,
                seed,
                ask,
                choose,
            )
            if with_model is not None and with_model.synonyms.model:
                by_model = {row["original"]: row for row in _list_texts(with_model)}
    for number, row in enumerate(rows, 1):
        # Without the model, these are words with similar contexts, which are no synonyms.
        row.pop("substituted", None)
        original = row["original"]
        if original in by_model:
            row = {
                "masked": original,
                "substituted": original,
                **by_model[original],
            }
        yield str(number), row


def _list_texts(perturbed: PerturbedQueries) -> list[dict[str, str]]:
    """Return the texts of each query under the conditions of `CHANGED`, by column."""
    texts = perturbed.query_set.texts  # a block of all queries for each condition
    rows: list[dict[str, str]] = [{} for _ in range(perturbed.queries)]
    for block, condition in enumerate(perturbed.conditions):
        column = CHANGED.get(condition.kind)
        if column is None:
            continue
        start = block * perturbed.queries
        for number, row in enumerate(rows):
            row[column] = texts[start + number]
    return rows


FACTS: dict[str, Callable[[ProjectFolder], Labelled]] = {
    "statistics": _list_statistics,
    "questions": _list_questions,
    "perturbed": _list_perturbed,
}
