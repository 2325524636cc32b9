"""Tables of a project as it is: sizes, questions, and how queries are changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from engine.evaluation.query_sets import query_sets
from engine.evaluation.studies.perturbation import CONDITIONS, content_terms
from engine.evaluation.studies.robustness import make_trial
from engine.project.folder import ProjectFolder
from engine.project.stage import StageContext
from engine.project.store.artifact_info import LexicalInfo
from engine.project.store.store import Store

Labelled = Iterator[tuple[str, dict[str, Any]]]
SHOWN = 3


def unheard_context(project: ProjectFolder, store: Store) -> StageContext:
    """The project as the stage evaluate sees it, whose events nobody hears."""
    return StageContext(project, project.settings(), store, "evaluate", "", "", lambda _event: None, lambda: False)


def _statistics(project: ProjectFolder) -> Labelled:
    settings = project.settings()
    with closing(project.store()) as store:
        counts, chunks = store.counts(), store.chunks()
        splits = Counter(query.split for query in store.queries())
    yield project.name, {
        "evaluation queries": counts["judged_queries"], "documents": counts["documents"], "chunks": counts["chunks"],
        "corpus tokens": sum(chunk.tokens for chunk in chunks), "synthesized queries": splits.total(),
        "training queries": splits["train"], "validation queries": splits["validation"], "held-out queries": splits["heldout"],
        "chunk size": settings.corpus.chunk_tokens, "k": settings.ranking.k, "m": settings.ranking.m,
    }  # fmt: skip


def _questions(project: ProjectFolder) -> Labelled:
    with closing(project.store()) as store:
        for number, judged in enumerate(store.judged()[:SHOWN], 1):
            answers = judged.evidence or (
                [judged.path] if judged.path else [name for name, grade in judged.grades if grade > 0]
            )
            yield str(number), {"question": judged.text, "answer": " … ".join(answers)}


def _perturbed(project: ProjectFolder) -> Labelled:
    """Judged queries of which most words are shared with their answers."""
    with closing(project.store()) as store:
        context = unheard_context(project, store)
        chunks, terms = store.chunks(), content_terms(context.need(LexicalInfo).info.language)
        trials = (make_trial(one, chunks, terms, context.settings.training.seed) for one in query_sets(context, chunks))
        trial = next((trial for trial in trials if trial), None)
    if trial is None:
        return
    blocks = {
        one.kind: place * trial.queries
        for place, one in enumerate(CONDITIONS)
        if one.kind in ("clean", "mask shared", "substitute shared")
    }
    texts = [[trial.perturbed.texts[start + row] for start in blocks.values()] for row in range(trial.queries)]
    for number, (clean, masked, other) in enumerate(sorted(texts, key=lambda row: -row[1].count("[MASK]"))[:SHOWN], 1):
        yield str(number), {"original": clean, "masked": masked, "substituted": other}


FACTS: dict[str, Callable[[ProjectFolder], Labelled]] = {
    "statistics": _statistics, "questions": _questions, "perturbed": _perturbed,
}  # fmt: skip
