"""What the encoders of an evaluation look like, gathered while they are at hand: figures, and densities of similarities.

The densities show what adaptation moved ("… evaluated", §2.3, figures): the similarities of correct chunks towards those of the
best ones, or all of them together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine.core.similarity import COSINE, Similarity
from engine.evaluation.general_knowledge import General
from engine.evaluation.judgments import Judgment
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.rankings import rank_all
from engine.evaluation.reporting.diagnostics import (
    RANDOM,
    Diagnostics,
    Floats,
    Ids,
    Ranked,
    Similarities,
    describe,
    similarities_of,
)
from engine.metrics.density import density_curves
from engine.metrics.samples import PAPER, Sampling
from engine.settings.schema import Settings

KINDS = ("correct", "top", "random")


class EncoderDiagnostics:
    """By the `basis` of `sets`. `keys`: of all chunks, ascending; `owners`: their documents."""

    def __init__(self, sets: Sequence[QuerySet], keys: Ids, owners: Ids, sampling: Sampling = PAPER) -> None:
        self.basis = basis_of(sets)
        self.diagnostics: dict[str, Diagnostics] = {}
        self._keys, self._owners, self._sampling = keys, owners, sampling
        self._found: dict[str, Similarities] = {}

    def take(
        self, name: str, one: QuerySet, query_vectors: Floats, chunks: Floats, similarity: Similarity = COSINE
    ) -> None:
        """An encoder that has ranked `one`: vectors of its queries (q, d) and all `chunks` (N, d), and their similarity."""
        if one is not self.basis:
            return
        ranked = Ranked(query_vectors, one.rankings[name], one.scores[name], similarity)
        found = similarities_of(ranked, one.judgments, chunks, self._keys, self._sampling, self._owners)
        self.diagnostics[name] = describe(ranked, found, one.judgments, chunks, self._sampling)
        if found and similarity.of_unit_vectors:  # densities have one axis, of cosines
            self._found[name] = found

    def alias(self, name: str, system: str) -> None:
        """Let `name` stand for a system that was taken already."""
        if system in self.diagnostics:
            self.diagnostics[name] = self.diagnostics[system]
        if system in self._found:
            self._found[name] = self._found[system]

    def similarities(self) -> dict[str, Any] | None:
        """As `densities` gives them."""
        return densities(self._found, self.basis.kind, self.basis.name) if self.basis else None


def densities(found: Mapping[str, Similarities], kind: str, name: str) -> dict[str, Any] | None:
    """As the report holds them: `cosines`, the axis that all share, and `systems` → kind of chunk → {count, mean, density}.

    `kind` and `name`: of the query set. None where nothing was `found`.
    """
    if not found:
        return None
    samples = {
        (system, part): np.concatenate([np.ravel(values) for values in getattr(one, part)])
        for system, one in found.items()
        for part in KINDS
    }
    axis, curves = density_curves(list(samples.values()), -1.0, 1.0)
    systems: dict[str, dict[str, Any]] = {system: {} for system in found}
    for ((system, part), values), curve in zip(samples.items(), curves, strict=True):
        systems[system][part] = {"count": len(values), "mean": float(values.mean()), "density": curve}
    first = next(iter(found.values()))
    return {
        "kind": kind, "name": name, "queries": len(first.rows), "k": first.top.shape[1], "random_chunks": RANDOM, "cosines": axis,
        "systems": systems,
    }  # fmt: skip


def general_similarities(
    known: General, questions: Floats, passages: Floats, sampling: Sampling
) -> Similarities | None:
    """Of unit vectors of questions of general knowledge (q, d) and of the passages (p, d) that each is looked for among."""
    keys = np.arange(len(passages), dtype=np.int64)
    judgments = [Judgment(text, text, "chunk", right) for text, right in zip(known.questions, known.right, strict=True)]
    ranked = Ranked(questions, *rank_all(questions, passages, keys, sampling.top))
    return similarities_of(ranked, judgments, passages, keys, sampling)


def sampling_of(settings: Settings) -> Sampling:
    """How diagnostics are sampled."""
    chosen = settings.evaluation
    return Sampling(chosen.top_k, chosen.samples, chosen.sample_size, chosen.psi, settings.training.seed)


def basis_of(sets: Sequence[QuerySet]) -> QuerySet | None:
    """The first of `sets` that can be measured; None where none can."""
    return next((one for one in sets if one.usable()), None)
