"""The ladder of evidence: which queries decide what comes into use.

Judged questions come first, then queries that the documents' authors wrote (titles, headings, subjects …), then those of a
language model or imported ones, of which a project has one kind, then extractive ones. The highest rung with enough queries
to show the difference asked for decides. Extractive queries never do: they repeat the words of their chunk, and find better
whatever was trained on their like (docs/log/hybrid-search.md, "What decides").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.metrics.differences import MIN_FOR_SPREAD, MIN_QUERIES, queries_to_show, spread

Floats = NDArray[np.float64]
RungName = Literal["judged", "document", "model", "imported", "extractive"]

RUNGS: tuple[RungName, ...] = ("judged", "document", "model", "imported", "extractive")
CERTIFYING = RUNGS[:4]
DECIDE_FUSION = RUNGS[:1]
"""One kind of query cannot weigh BM25 for another: titles have fewer words in common with what answers them, and asked for nine
tenths of the semantic score where that cost judged questions 4 points (docs/log/hybrid-search.md, "What titles cannot tell")."""
DIFFERENCE = 4.0
"""Points of nDCG@10 that a rung must be able to show in order to decide."""
SPREAD = 0.2
"""Standard deviation of per-query differences where too few were measured: of an adapter and base on cisi, by titles (docs/log)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """nDCG@10 per query (q,), in [0, 1], of one system: by `semantic` search, and by the project's `default` search mode."""

    semantic: Floats
    default: Floats


@dataclass(frozen=True, slots=True)
class Evidence:
    """What every system gave on the queries of one rung. `clusters` (q,): which of them are of one document, so that they are not
    independent; None where each stands for itself."""

    rung: RungName
    systems: Mapping[str, Measured]
    clusters: NDArray[np.int64] | None = None

    @property
    def queries(self) -> int:
        """How many were measured."""
        return len(next(iter(self.systems.values())).semantic) if self.systems else 0

    @property
    def independent(self) -> int:
        """How many clusters they are in."""
        return self.queries if self.clusters is None else len(set(self.clusters.tolist()))

    def gaps(self, name: str, reference: str) -> Measured:
        """Per query, how much a system lies above another."""
        one, other = self.systems[name], self.systems[reference]
        return Measured(one.semantic - other.semantic, one.default - other.default)

    def needed(self, reference: str, points: float = DIFFERENCE) -> int:
        """Queries of this kind, as many a document, that would show a gain of so many points of the system, and in the mode, that
        varies most; and that come from documents enough for any verdict. `TYPICAL` where they are too few to have a spread."""
        if self.queries < MIN_FOR_SPREAD:
            return TYPICAL
        gaps = [self.gaps(name, reference) for name in self.systems if name != reference]
        spreads = [spread(values, self.clusters) for gap in gaps for values in (gap.semantic, gap.default)]
        documents = math.ceil(MIN_QUERIES * self.queries / self.independent)
        return max(documents, queries_to_decide(points / 100, max(spreads, default=0.0)))

    def suffices(self, reference: str) -> bool:
        """Whether it may decide."""
        return self.rung in CERTIFYING and self.queries >= self.needed(reference)


def queries_to_decide(gain: float, deviation: float) -> int:
    """Queries that show a `gain`, in [0, 1], at a standard `deviation` of s, had one more of them lost everything: a small sample
    seldom holds rare losses, and varies little then. N = k (s² + 1/N), k = ((z₀.₉₇₅ + z₀.₈) / gain)²."""
    unit = queries_to_show(gain, 1.0)
    half = unit * deviation**2 / 2
    return math.ceil(half + math.sqrt(half**2 + unit))


TYPICAL = queries_to_decide(DIFFERENCE / 100, SPREAD)


def deciding(ladder: Sequence[Evidence], reference: str) -> Evidence | None:
    """The highest rung that may decide between the `reference` and the others."""
    return next((one for one in from_top(ladder) if one.suffices(reference)), None)


def measured_on(ladder: Sequence[Evidence], reference: str) -> Evidence:
    """What is shown: the rung that decides; else the highest one that has a spread; else, of those that could decide, the one with
    most queries. ValueError without queries."""
    most = max(from_top(ladder), key=lambda one: (one.rung in CERTIFYING, min(one.queries, MIN_FOR_SPREAD)))
    return deciding(ladder, reference) or most


def from_top(ladder: Sequence[Evidence]) -> list[Evidence]:
    """Those with queries, the highest rung first."""
    return sorted((one for one in ladder if one.queries), key=lambda one: RUNGS.index(one.rung))
