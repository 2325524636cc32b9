"""What an encoder's vectors look like: geometry, isotropy, and how its similarities are spread. They decide nothing.

METHODS.md §1 Geometry and §3. Figures of queries are of those whose answers are chunks, ranked over the whole corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.core.similarity import COSINE
from engine.evaluation.judgments import Judgment
from engine.evaluation.rankings import products_of
from engine.metrics.bootstrap import Interval
from engine.metrics.geometry import alignment, isoscore, isotropy_a, uniformity
from engine.metrics.overlap import overlap
from engine.metrics.samples import bootstrapped_accuracy
from engine.ranking.hubness import Csls

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]
Diagnostics = dict[str, float | Interval]

K = 5
RANDOM = 20
"""Random chunks for each query."""
MAX_VECTORS = 20_000
"""Isotropy is that of a random sample of so many chunks: it needs their sum and their second moments only."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """Queries' unit vectors (q, d), and their best chunks' ids and similarities (q, depth), −1 and −inf where padded.

    Similarities are cosines, less the `offsets` (N,) of all chunks where hubs are taken off.
    """

    vectors: Floats
    ids: Ids
    similarities: Floats
    offsets: Floats | None = None

    def pair(self, rows: Sequence[int], chunks: Floats) -> tuple[Floats, Floats]:
        """The queries in `rows` and the `chunks` with unit vectors (N, d), such that their products are similarities."""
        similarity = COSINE if self.offsets is None else Csls(self.offsets)
        return similarity.query_form(self.vectors[rows]), similarity.chunk_form(chunks)


def describe(ranked: Ranked, judgments: Sequence[Judgment], chunks: Floats, keys: Ids, seed: int = 0) -> Diagnostics:
    """Figure name → value, or mean with interval, of unit vectors `chunks` (N, d) named by `keys` (N,), ascending.

    Alignment, uniformity and isotropy are of the vectors; the others of the similarities that `ranked` ranks by. What cannot be had
    of so few chunks or queries is left out.
    """
    found = _of_chunks(chunks, seed)
    return found | _of_queries(ranked, judgments, chunks, keys, seed)


def _of_chunks(chunks: Floats, seed: int) -> Diagnostics:
    if len(chunks) < 2:
        return {}
    rng = np.random.default_rng(seed)
    taken = chunks if len(chunks) <= MAX_VECTORS else chunks[rng.choice(len(chunks), MAX_VECTORS, replace=False)]
    found: Diagnostics = {"uniformity": uniformity(chunks, seed=seed), "isotropy I_A": isotropy_a(taken)}
    if (taken != taken[0]).any() and taken.shape[1] > 1:
        found["isotropy I_B (IsoScore)"] = isoscore(taken)
    return found


def measurable(ranked: Ranked, judgments: Sequence[Judgment]) -> list[int]:
    """Rows of the queries whose answers are chunks, and which have `K` hits or as many as there are."""
    whole = np.isfinite(ranked.similarities[:, :K].min(axis=1, initial=np.inf))
    return [row for row, one in enumerate(judgments) if one.level == "chunk" and one.usable and whole[row]]


def _of_queries(ranked: Ranked, judgments: Sequence[Judgment], chunks: Floats, keys: Ids, seed: int) -> Diagnostics:
    top = ranked.similarities[:, :K]
    rows = measurable(ranked, judgments)
    if not rows or not len(keys):
        return {}
    answers = [np.searchsorted(keys, sorted(judgments[row].grades)) for row in rows]
    pairs = np.repeat(rows, [len(places) for places in answers])
    ratios = alignment(ranked.vectors[pairs], chunks[np.concatenate(answers)], chunks)
    asked, compared = ranked.pair(rows, chunks)
    correct = [float((compared[places] @ vector).max()) for places, vector in zip(answers, asked, strict=True)]
    drawn = keys[np.random.default_rng(seed).integers(0, len(keys), (len(rows), RANDOM))]
    found = [bool(set(judgments[row].grades) & set(ranked.ids[row, :K].tolist())) for row in rows]
    shares = overlap(top[rows], correct, products_of(asked, compared, keys, drawn), seed=seed)
    figures: Diagnostics = {"alignment": float(ratios.mean())} if len(ratios) else {}
    return figures | {
        f"accuracy@{K}, percent": bootstrapped_accuracy(found, seed=seed).percent(),
        "COE, percent": shares.coe.percent(),
        "ROE, percent": shares.roe.percent(),
    }
