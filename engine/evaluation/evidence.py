"""The ladder of evidence: which queries decide what comes into use in one search mode.

Judged questions come first, then people's preferences between two lists of hits, then queries that
the documents' authors wrote (titles, headings, subjects …), then those of a language model or
imported ones, of which a project has one kind, then extractive ones. Extractive queries decide
nothing: they repeat the words of their chunk, and find better whatever was trained on their like
(docs/log/hybrid-search.md, "What decides").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from engine.metrics.differences import MIN_FOR_SPREAD, MIN_QUERIES, queries_to_show, spread

Floats = NDArray[np.float64]
RungName = Literal["judged", "preferred", "document", "model", "imported", "extractive"]

RUNGS: tuple[RungName, ...] = ("judged", "preferred", "document", "model", "imported", "extractive")
CERTIFYING: tuple[RungName, ...] = ("judged", "document", "model", "imported")
"""Those whose queries measure every candidate, and can prove a gain.

Preferences compare two lists alone.
"""
DECIDE_SHARE = RUNGS[:1]
"""One kind of query cannot weigh BM25 for another: titles have fewer words in common with what
answers them, and asked for nine tenths of the semantic score where that cost judged questions 4
points (docs/log/hybrid-search.md, "What titles cannot tell").
"""
DIFFERENCE = 4.0
"""Points of nDCG@10 that a rung must be able to show to have the last word."""
SPREAD = 0.2
"""Standard deviation of per-query differences where too few were measured: of an adapter and
base on cisi, by titles (docs/log).
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """nDCG@10 per query (q,), in [0, 1], of each system in one search mode, on the queries of
    one rung.

    `clusters` (q,): the document of each query, since queries of one document are not independent;
        None where each stands
    for itself.
    """

    rung: RungName
    systems: Mapping[str, Floats]
    clusters: NDArray[np.int64] | None = None

    @property
    def queries(self) -> int:
        """The number of queries measured."""
        if self.systems:
            return len(next(iter(self.systems.values())))
        return 0

    @property
    def independent(self) -> int:
        """The number of clusters."""
        if self.clusters is None:
            return self.queries
        return len(set(self.clusters.tolist()))

    def gaps(self, name: str, reference: str) -> Floats:
        """Return how much a system lies above another, per query (q,)."""
        return self.systems[name] - self.systems[reference]

    def of(self, names: Iterable[str]) -> Evidence:
        """Return the same queries for some of the systems."""
        return replace(self, systems={name: self.systems[name] for name in names})

    def followed_by(self, other: Evidence) -> Evidence:
        """Return these queries and other ones of the same systems."""
        systems = {
            name: np.concatenate([values, other.systems[name]])
            for name, values in self.systems.items()
        }
        first = self._numbered()
        second = other._numbered()
        # Numbers below 0 stand for themselves, and must not meet those of the first.
        second = np.where(second < 0, second - self.queries, second)
        return replace(self, systems=systems, clusters=np.concatenate([first, second]))

    def _numbered(self) -> NDArray[np.int64]:
        """Return the clusters (q,), each query one of its own where none are known."""
        if self.clusters is not None:
            return self.clusters
        return -1 - np.arange(self.queries, dtype=np.int64)

    def needed(self, reference: str, points: float = DIFFERENCE) -> int:
        """Return how many queries of this kind would show a gain of so many points by the system
        that varies most.

        They come from as many documents each as these do, and from documents enough for any
        verdict. `TYPICAL` where these are too few to have a spread.
        """
        if self.queries < MIN_FOR_SPREAD:
            return TYPICAL
        others = [name for name in self.systems if name != reference]
        spreads = [spread(self.gaps(name, reference), self.clusters) for name in others]
        documents = math.ceil(MIN_QUERIES * self.queries / self.independent)
        return max(documents, queries_to_decide(points / 100, max(spreads, default=0.0)))

    def suffices(self, reference: str) -> bool:
        """Tell whether it has the last word: whether it would show a gain of `DIFFERENCE` if
        there were one.
        """
        return self.rung in CERTIFYING and self.queries >= self.needed(reference)

    @property
    def may_prove(self) -> bool:
        """Whether a gain that it shows counts: rare large losses may be missing among fewer
        queries.
        """
        enough = self.queries >= MIN_TO_PROVE and self.independent >= MIN_QUERIES
        return self.rung in CERTIFYING and enough


@dataclass(frozen=True, slots=True)
class PreferenceEvidence:
    """What people said of a candidate's lists and the reference's: `count` preferences, and the
    wealth of a bettor on either (engine/metrics/e_process.py), which is 1/p at any time. `wins`
    and `losses` are the candidate's; the others are ties.
    """

    count: int
    wealth_better: float
    wealth_worse: float
    wins: int = 0
    losses: int = 0


def queries_to_decide(gain: float, deviation: float) -> int:
    """Queries that show a `gain`, in [0, 1], at a standard `deviation` of s, had one more of
    them lost everything: a small sample seldom holds rare losses, and varies little then. N = k
    (s² + 1/N), k = ((z₀.₉₇₅ + z₀.₈) / gain)².
    """
    unit = queries_to_show(gain, 1.0)
    half = unit * deviation**2 / 2
    return math.ceil(half + math.sqrt(half**2 + unit))


TYPICAL = queries_to_decide(DIFFERENCE / 100, SPREAD)
MIN_TO_PROVE = queries_to_decide(DIFFERENCE / 100, 0.0)
"""71."""


def deciding(ladder: Sequence[Evidence], reference: str) -> Evidence | None:
    """Return the highest rung that has the last word between the `reference` and the others."""
    return next((one for one in from_top(ladder) if one.suffices(reference)), None)


def measured_on(ladder: Sequence[Evidence], reference: str) -> Evidence:
    """Return what is shown: the rung with the last word; else the highest one that has a spread;
    else, of those that could decide, the one with most queries. ValueError without queries.
    """

    def worth(one: Evidence) -> tuple[bool, int]:
        return one.rung in CERTIFYING, min(one.queries, MIN_FOR_SPREAD)

    return deciding(ladder, reference) or max(from_top(ladder), key=worth)


def from_top(ladder: Sequence[Evidence]) -> list[Evidence]:
    """Return those with queries, the highest rung first."""
    return sorted((one for one in ladder if one.queries), key=lambda one: RUNGS.index(one.rung))
