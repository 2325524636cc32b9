"""The ladder of evidence: which queries decide what comes into use in one search mode.

From the top: judged questions; preferences between two lists of hits; queries that the documents'
authors wrote (titles, headings, subjects); queries of a language model or imported ones, of which
a project has one kind; extractive queries, which decide nothing (docs/log/hybrid-search.md).
"""

# Extractive queries repeat the words of their chunk, so an encoder trained on queries of this kind
# finds them more easily, whether it is better or not.

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from engine.core.arrays import Doubles, Ids
from engine.metrics.differences import MIN_FOR_SPREAD, MIN_QUERIES, queries_to_show, spread

RungName = Literal["judged", "preferred", "document", "model", "imported", "extractive"]

RUNGS: tuple[RungName, ...] = (
    "judged",
    "preferred",
    "document",
    "model",
    "imported",
    "extractive",
)
CERTIFYING: tuple[RungName, ...] = (
    "judged",
    "document",
    "model",
    "imported",
)
"""Rungs whose queries measure every candidate and can prove a gain.

Preferences compare only two lists.
"""
DECIDE_SHARE = RUNGS[:1]
"""Rungs that may choose the weight of BM25.

The best weight differs between kinds of queries. Titles, for example, share few words with the
passages that answer them: they were answered best with 0.9 of the semantic score, which cost judged
questions 4 points (docs/log/hybrid-search.md, "What titles cannot tell").
"""
DIFFERENCE = 4.0
"""Gain in points of nDCG@10 that a rung needs enough queries to show, to have the last word."""
SPREAD = 0.2
"""Standard deviation of per-query differences to assume if too few were measured.

Measured between an adapter and base on cisi, by titles (docs/log).
"""


@dataclass(frozen=True, slots=True)
class Evidence:
    """nDCG@10 per query (q,), in [0, 1], of each system on the queries of one rung.

    `clusters` (q,) numbers the document of each query, since queries of one document are not
    independent. None: every query is independent.
    """

    rung: RungName
    systems: Mapping[str, Doubles]
    clusters: Ids | None = None

    @property
    def queries(self) -> int:
        """The number of queries measured."""
        if self.systems:
            return len(next(iter(self.systems.values())))
        return 0

    @property
    def independent(self) -> int:
        """The number of clusters, which are independent of each other."""
        if self.clusters is None:
            return self.queries
        return len(set(self.clusters.tolist()))

    def gaps(self, name: str, reference: str) -> Doubles:
        """Return the lead of one system over another, per query (q,)."""
        return self.systems[name] - self.systems[reference]

    def select_systems(self, names: Iterable[str]) -> Evidence:
        """Return the same queries for some of the systems."""
        return replace(self, systems={name: self.systems[name] for name in names})

    def concatenate(self, other: Evidence) -> Evidence:
        """Return the queries of this evidence and of `other`, which is about the same systems."""
        systems = {}
        for name, values in self.systems.items():
            systems[name] = np.concatenate([values, other.systems[name]])
        first = self._number_clusters()
        second = other._number_clusters()
        # Negative numbers mark independent queries, and must differ between the two halves.
        second = np.where(
            second < 0,
            second - self.queries,
            second,
        )
        return replace(
            self,
            systems=systems,
            clusters=np.concatenate([first, second]),
        )

    def _number_clusters(self) -> Ids:
        """Return the clusters (q,), with a negative number for each query if none are known."""
        if self.clusters is not None:
            return self.clusters
        return -1 - np.arange(self.queries, dtype=np.int64)

    def count_needed(self, reference: str, points: float = DIFFERENCE) -> int:
        """Return how many queries would show a gain of `points` of any system over the reference.

        The system whose differences vary most needs most queries. Returns `TYPICAL` if there are
        too few queries to estimate a spread.
        """
        if self.queries < MIN_FOR_SPREAD:
            return TYPICAL
        spreads = [0.0]
        for name in self.systems:
            if name != reference:
                spreads.append(spread(self.gaps(name, reference), self.clusters))
        # As many documents as any verdict needs, with as many queries each as here.
        of_enough_documents = math.ceil(MIN_QUERIES * self.queries / self.independent)
        return max(of_enough_documents, queries_to_decide(points / 100, max(spreads)))

    def suffices(self, reference: str) -> bool:
        """Return whether this evidence has the last word: it would show a gain of `DIFFERENCE`."""
        return self.rung in CERTIFYING and self.queries >= self.count_needed(reference)

    @property
    def may_prove(self) -> bool:
        """Whether a gain may count as proved: few queries may lack rare large losses."""
        enough = self.queries >= MIN_TO_PROVE and self.independent >= MIN_QUERIES
        return self.rung in CERTIFYING and enough


@dataclass(frozen=True, slots=True)
class PreferenceEvidence:
    """People's preferences between a candidate's lists and the reference's.

    The wealth of a bettor (engine/metrics/e_process.py) can be read as 1/p after any answer.
    """

    count: int
    """Number of preferences about people's own questions; those without a winner are ties."""
    wealth_better: float
    """Wealth of a bettor on the candidate, from people's own questions."""
    wealth_worse: float
    """Wealth of a bettor on the reference, from generated and imported queries, too."""
    wins: int = 0
    """Number of own questions for which the candidate's list was preferred."""
    losses: int = 0
    """Number of own questions for which the reference's list was preferred."""


def queries_to_decide(gain: float, deviation: float) -> int:
    """Return how many queries show a `gain` in [0, 1], even if one more query lost everything.

    METHODS.md §5, "The last word": N ≥ k (s² + 1/N) with k = ((z₀.₉₇₅ + z₀.₈) / gain)² and the
    standard deviation s of per-query differences, `deviation`. The term 1/N is for the lost query:
    a small sample often lacks rare losses, and its s is then too small.
    """
    k = queries_to_show(gain, 1.0)
    # The positive root of N² − k s² N − k = 0.
    half = k * deviation**2 / 2
    return math.ceil(half + math.sqrt(half**2 + k))


TYPICAL = queries_to_decide(DIFFERENCE / 100, SPREAD)
"""Number of queries that decide if too few were measured to know their spread: 219."""
MIN_TO_PROVE = queries_to_decide(DIFFERENCE / 100, 0.0)
"""Number of queries below which nothing is proved: 71."""


def find_deciding(ladder: Sequence[Evidence], reference: str) -> Evidence | None:
    """Return the highest rung with enough queries to show a gain over the reference system."""
    for evidence in sort_from_top(ladder):
        if evidence.suffices(reference):
            return evidence
    return None


def choose_shown(ladder: Sequence[Evidence], reference: str) -> Evidence:
    """Return the rung whose figures are shown.

    This is the rung with the last word; else the highest of `CERTIFYING` with `MIN_FOR_SPREAD`
    queries; else the one of `CERTIFYING` with most queries; else, the same among other rungs.
    Raises ValueError without queries.
    """

    def worth(evidence: Evidence) -> tuple[bool, int]:
        return evidence.rung in CERTIFYING, min(evidence.queries, MIN_FOR_SPREAD)

    deciding = find_deciding(ladder, reference)
    if deciding is not None:
        return deciding
    # Of equal worth the highest rung is the first.
    return max(sort_from_top(ladder), key=worth)


def sort_from_top(ladder: Sequence[Evidence]) -> list[Evidence]:
    """Return the evidence that has queries, the highest rung first."""
    measured = [evidence for evidence in ladder if evidence.queries]
    return sorted(measured, key=lambda evidence: RUNGS.index(evidence.rung))
