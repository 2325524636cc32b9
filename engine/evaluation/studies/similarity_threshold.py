"""The similarity below which semantic search may hide hits (METHODS.md §3, similarity threshold;
`search.hide_weak`).

Learnt on the judged queries, or else on held-out ones that are worded as questions would be: those
that are built from the documents' own sentences are more similar to them than a user's ever are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.core.messages.report import EVIDENCE
from engine.evaluation.comparison import DocumentOf
from engine.evaluation.evidence import CERTIFYING
from engine.evaluation.judgments import clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.metrics.bootstrap import SAMPLES, Sampling
from engine.metrics.similarities import choose_threshold

K = 10
MIN_QUERIES = 50
"""With fewer queries no threshold is learnt."""


def learn_threshold(
    sets: Sequence[QuerySet],
    system: str,
    document_of: DocumentOf,
    resamples: int = SAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """`similarity` and what speaks for it, or `similarity` None and the `reason` why there is
    none.

    Of each query's best `K` hits by `system`, whose scores are the similarities that search ranks
    by; a query that is looked for in fewer chunks says nothing. The first of `sets` with
    `MIN_QUERIES` is taken.
    """
    most = 0, EVIDENCE["judged"]
    for one in [one for one in sets if one.rung in CERTIFYING]:
        ids = one.rankings[system][:, :K]
        similarities = one.scores[system][:, :K]
        rows = [
            row
            for row in one.usable()
            if np.isfinite(similarities[row]).all() and similarities.shape[1] == K
        ]
        most = max(most, (len(rows), EVIDENCE[str(one.rung)]))
        if len(rows) < MIN_QUERIES:
            continue
        right = np.zeros((len(rows), K), dtype=bool)
        for place, row in enumerate(rows):
            judgment = one.judgments[row]
            if judgment.level == "chunk":
                shown = ids[row]
            else:
                shown = document_of(ids[row])
            right[place] = np.isin(shown, list(judgment.grades))
        clusters = clusters_of(one.judgments[row] for row in rows)
        found = choose_threshold(
            similarities[rows], right, Sampling(seed=seed), resamples, clusters
        )
        return {**asdict(found), "queries": len(rows), "kind": one.kind, "k": K, "reason": ""}
    reason = (
        f"{MIN_QUERIES} {most[1]} are needed to learn how similar a hit must be, and there are"
        f" {most[0]}"
    )
    return {"similarity": None, "reason": reason}
