"""Tables of a project as it is: sizes, questions, and how queries are changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from engine.core.errors import CancelledError, EngineError
from engine.evaluation.query_sets import query_sets
from engine.lab.checks.perturbation import MASK, content_terms
from engine.lab.checks.robustness import Trial, Words, make_trial
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo
from engine.project.store.store import Store
from engine.queries.substitutes import Question, keywords, language_model, substitutes

Labelled = Iterator[tuple[str, dict[str, Any]]]
SHOWN = 3
CHANGED = {"clean": "original", "mask shared": "masked", "substitute shared": "substituted"}
"""Column of each condition."""


def unheard_context(project: ProjectFolder, store: Store) -> StageContext:
    """Return the project as the stage evaluate sees it, with a context that discards events."""
    return StageContext(
        project, project.settings(), store, "evaluate", "", "", lambda _event: None, lambda: False
    )


def _statistics(project: ProjectFolder) -> Labelled:
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


def _questions(project: ProjectFolder) -> Labelled:
    with closing(project.store()) as store:
        for number, judged in enumerate(store.judged()[:SHOWN], 1):
            answers = judged.evidence or (
                [judged.path]
                if judged.path
                else [name for name, grade in judged.grades if grade > 0]
            )
            yield str(number), {"question": judged.text, "answer": " … ".join(answers)}


def _perturbed(project: ProjectFolder) -> Labelled:
    """Yield the judged queries that share most words with their answers, and their changed forms.

    Keywords and substitutes come from the project's language model. Without one, all shared words
    count as keywords, and there are no substitutes.
    """
    with closing(project.store()) as store:
        context = unheard_context(project, store)
        chunks = store.chunks()
        terms = content_terms(context.need(LexicalInfo).info.language)
        judged = query_sets(context, chunks)[0]
        seed = context.settings.training.seed
        trial = make_trial(judged, chunks, terms, seed)
        if trial is None:
            return
        rows = sorted(_texts(trial), key=lambda row: -row.get("masked", "").count(MASK))[:SHOWN]
        shown = {row["original"] for row in rows}
        places = [row for row in judged.usable() if judged.texts[row] in shown]
        few = replace(
            judged,
            judgments=[judged.judgments[row] for row in places],
            matches=[judged.matches[row] for row in places],
        )
        asked = make_trial(
            few,
            chunks,
            terms,
            seed,
            lambda words: _other_words(context, words),
            (lambda questions: _keywords(context, questions)) if _writes(context) else None,
        )
    by_model = {}
    if asked is not None and asked.synonyms.model:
        by_model = {row["original"]: row for row in _texts(asked)}
    for number, row in enumerate(rows, 1):
        row.pop("substituted", None)
        original = row["original"]
        if original in by_model:
            row = {"masked": original, "substituted": original, **by_model[original]}
        yield str(number), row


def _texts(trial: Trial) -> list[dict[str, str]]:
    """Return the texts of each query under the conditions of `CHANGED`, by column."""
    starts = {
        CHANGED[one.kind]: place * trial.queries
        for place, one in enumerate(trial.conditions)
        if one.kind in CHANGED
    }
    texts = trial.perturbed.texts
    return [
        {name: texts[start + row] for name, start in starts.items()} for row in range(trial.queries)
    ]


def _writes(context: StageContext) -> bool:
    """Return whether the project has a language model, though it may be unavailable."""
    try:
        return bool(language_model(context))
    except EngineError:
        return False


def _other_words(context: StageContext, words: Words) -> tuple[list[dict[str, str]], str]:
    """Return the words of the project's language model, and its name; nothing if it has none."""
    if not _writes(context):
        return [], ""
    try:
        return substitutes(context, words, lambda _: None)
    except CancelledError:
        raise
    except EngineError:
        return [], ""


def _keywords(context: StageContext, questions: Sequence[Question]) -> list[frozenset[str]]:
    """Return the keywords that the project's language model names; none if it cannot be asked."""
    try:
        return keywords(context, questions, lambda _: None)
    except CancelledError:
        raise
    except EngineError:
        return [frozenset() for _ in questions]


FACTS: dict[str, Callable[[ProjectFolder], Labelled]] = {
    "statistics": _statistics,
    "questions": _questions,
    "perturbed": _perturbed,
}
