"""Figures of encoders whose vectors are transformed: "… evaluated", tables 3, 5 and 7."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from engine.core.figures import Interval
from engine.evaluation.query_sets import query_sets
from engine.evaluation.rankers import Rankers, rank_all
from engine.evaluation.reporting.diagnostics import Ranked, basis_of, describe, sampling_of, similarities_of
from engine.metrics.transformations import remove_top, standardise, whiten
from engine.project.stage import StageContext


def transformed_systems(context: StageContext) -> dict[str, dict[str, Any]]:
    """`base, whitened` and so on → figures as report.json has them. What is learnt of chunks transforms queries, too;
    of principal components a hundredth of the dimensions goes (Mu & Viswanath 2018). Raises CancelledError."""
    chunks, sampling, found = context.store.chunks(), sampling_of(context.settings), {}
    rankers, basis = Rankers(context, chunks), basis_of(query_sets(context, chunks))
    owners = rankers.document_of(rankers.ids)
    for candidate in map(rankers.candidate, (0.0, 1.0) if rankers.adapter else (0.0,)):
        if basis is None or not candidate.similarity.of_unit_vectors:
            continue
        queries, vectors = candidate.query_vectors(basis.texts), candidate.chunk_vectors(chunks)
        top = remove_top(vectors, max(1, vectors.shape[1] // 100))
        ways = {"standardised": standardise(vectors), "whitened": whiten(vectors), "PCA": top}
        for way, transform in ways.items():
            asked, moved = transform(queries), transform(vectors)
            ranked = Ranked(asked, *rank_all(asked, moved, rankers.ids, context.settings.evaluation.depth))
            similarities = similarities_of(ranked, basis.judgments, moved, rankers.ids, sampling, owners)
            figures = describe(ranked, similarities, basis.judgments, moved, sampling)
            found[f"{candidate.name}, {way}"] = {
                name: asdict(figure) if isinstance(figure, Interval) else figure for name, figure in figures.items()
            }
    return found
