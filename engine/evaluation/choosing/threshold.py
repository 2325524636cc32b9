"""The similarity below which semantic search may hide hits (METHODS.md §3, `search.hide_weak`).

It is learnt on judged queries, or else on held-out ones that are worded as questions. Extractive
queries are more similar to the documents than any user's query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.core.messages.report import EVIDENCE
from engine.evaluation.comparison import DocumentOf
from engine.evaluation.judgments import clusters_of
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rungs import CERTIFYING
from engine.metrics.bootstrap import SAMPLES, Sampling
from engine.metrics.similarities import choose_threshold

K = 10
"""Number of each query's best hits whose similarities count."""
MIN_QUERIES = 50
"""With fewer queries no threshold is learnt."""


def learn_threshold(
    sets: Sequence[QuerySet],
    system: str,
    document_of: DocumentOf,
    resamples: int = SAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the `similarity` τ(ψ) and its figures, or None and the `reason` why not.

    Uses each query's best `K` hits by `system`, whose scores are the similarities that search ranks
    by; queries with fewer hits are skipped. The first set with at least `MIN_QUERIES` queries left
    is used.
    """
    largest_count = 0
    evidence = EVIDENCE["judged"]
    for queries in sets:
        if queries.rung not in CERTIFYING:
            continue
        ids = queries.rankings[system][:, :K]  # (q, K)
        similarities = queries.scores[system][:, :K]  # (q, K)
        rows = []
        if similarities.shape[1] == K:
            rows = [row for row in queries.usable() if np.isfinite(similarities[row]).all()]
        if len(rows) > largest_count:
            largest_count = len(rows)
            evidence = EVIDENCE[queries.rung]
        if len(rows) < MIN_QUERIES:
            continue
        # Whether each hit answers its query.
        is_right = np.zeros((len(rows), K), dtype=bool)
        for index, row in enumerate(rows):
            judgment = queries.judgments[row]
            hits = ids[row]
            if judgment.level == "document":
                hits = document_of(hits)
            is_right[index] = np.isin(hits, list(judgment.grades))
        clusters = clusters_of(queries.judgments[row] for row in rows)
        sampling = Sampling(seed=seed)
        threshold = choose_threshold(
            similarities[rows],
            is_right,
            sampling,
            resamples,
            clusters,
        )
        return {
            **asdict(threshold),
            "queries": len(rows),
            "kind": queries.kind,
            "k": K,
            "reason": "",
        }
    reason = (
        f"{MIN_QUERIES} {evidence} are needed to learn how similar a hit must be, and there are"
        f" {largest_count}"
    )
    return {"similarity": None, "reason": reason}
