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
from engine.lab.checks.robustness import Trial, make_trial
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
SHOWN = 3
BEGINNING = 200
"""Characters of a document that answers a question."""
CHANGED = {"clean": "original", "mask shared": "masked", "substitute shared": "substituted"}
"""Column of each condition."""


def unheard_context(project: ProjectFolder, store: Store) -> StageContext:
    """Return the project as the stage evaluate sees it, with a context that discards events."""
    return StageContext(project, project.settings(), store, "evaluate")


def _list_statistics(project: ProjectFolder) -> Labelled:
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
    """Yield the first judged questions and their answers: evidence, or how documents begin."""
    with closing(project.store()) as store:
        ids = {each.external_id or each.path: each.id for each in store.documents()}
        for number, judged in enumerate(store.judged()[:SHOWN], 1):
            answers = list(judged.evidence)
            if not answers and judged.path:
                answers = [judged.path]
            elif not answers:
                names = [name for name, grade in judged.grades if grade > 0]
                answers = [_begin(store, ids.get(name)) or name for name in names[:SHOWN]]
            yield str(number), {"question": judged.text, "answer": " … ".join(answers)}


def _begin(store: Store, document_id: int | None) -> str:
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
        trial = make_trial(judged, chunks, terms, seed)
        if trial is None:
            return
        by_masks = sorted(_texts(trial), key=lambda row: -row.get("masked", "").count(MASK))
        rows = by_masks[:SHOWN]
        originals = {row["original"] for row in rows}
        places = [row for row in judged.usable() if judged.texts[row] in originals]
        few = replace(
            judged,
            judgments=[judged.judgments[row] for row in places],
            matches=[judged.matches[row] for row in places],
        )
        with_model = None
        if has_language_model(context):
            ask = partial(ask_for_substitutes, context)
            choose = partial(choose_keywords, context)
            with_model = make_trial(few, chunks, terms, seed, ask, choose)
    by_model = {}
    if with_model is not None and with_model.synonyms.model:
        by_model = {row["original"]: row for row in _texts(with_model)}
    for number, row in enumerate(rows, 1):
        row.pop("substituted", None)
        original = row["original"]
        if original in by_model:
            row = {"masked": original, "substituted": original, **by_model[original]}
        yield str(number), row


def _texts(trial: Trial) -> list[dict[str, str]]:
    """Return the texts of each query under the conditions of `CHANGED`, by column."""
    texts = trial.perturbed.texts
    rows: list[dict[str, str]] = [{} for _ in range(trial.queries)]
    for place, condition in enumerate(trial.conditions):
        if condition.kind in CHANGED:
            start = place * trial.queries
            for number, row in enumerate(rows):
                row[CHANGED[condition.kind]] = texts[start + number]
    return rows


FACTS: dict[str, Callable[[ProjectFolder], Labelled]] = {
    "statistics": _list_statistics,
    "questions": _list_questions,
    "perturbed": _list_perturbed,
}
