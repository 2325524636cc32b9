"""Figures with their intervals, and the table of them that an evaluation makes of one set of
queries.

It is measured, kept in report.json, shown in the terminal and in the app in this one form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.core.text import about_count

Verdict = Literal["better", "worse", "no difference shown", "proves nothing"]
MILLION = 1_000_000
LOPSIDED = 0.2
"""Share of the queries that are of one document from which on intervals are explained."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds of its interval."""

    value: float
    low: float
    high: float

    def percent(self) -> Interval:
        """The same in percent."""
        return Interval(100 * self.value, 100 * self.low, 100 * self.high)


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a - b with its interval; `p_better`: share of resamples in which a is ahead, ties
    counted half.

    `p_value`: of Fisher's randomisation test. Where no difference is shown: the number of queries
        `needed` to show one as
    large (engine/metrics/differences.py). `proves nothing`: a difference on queries that flatter
    what was trained on their like.
    """

    value: float
    low: float
    high: float
    p_better: float
    verdict: Verdict
    p_value: float
    needed: int | None = None

    def percent(self) -> Difference:
        """The same in percent; probabilities stay shares."""
        return replace(self, value=100 * self.value, low=100 * self.low, high=100 * self.high)

    def unproven(self) -> Difference:
        """The same of queries that flatter, on which none counts as better or worse."""
        if self.verdict == "no difference shown":
            return self
        return replace(self, verdict="proves nothing")

    @property
    def harms(self) -> bool:
        """Whether the whole interval lies below 0: enough to leave a change out, too little to
        call it worse.
        """
        return self.high < 0

    @property
    def format_p(self) -> str:
        """As a sentence has it, such as `p = 0.031`."""
        if self.p_value < 0.001:
            return "p < 0.001"
        return f"p = {self.p_value:.3f}"

    @property
    def format_verdict(self) -> str:
        """With its p; and why a difference is not shown although the interval excludes 0."""
        excludes = self.verdict == "no difference shown" and (self.low > 0 or self.harms)
        return (
            f"{self.verdict}"
            f" ({self.format_p}{', above 0.05, though the interval excludes 0' if excludes else ''})"  # noqa: E501
        )

    @property
    def format_needed(self) -> str:
        """For the end of a sentence: how many queries would be needed; empty where nothing is
        known of it.
        """
        if self.needed is None:
            return ""
        if self.needed > MILLION:
            count = "over a million"
        else:
            count = f"about {about_count(self.needed)}"
        return f"; to show one of this size takes {count} queries"


Figures = Mapping[str, Mapping[str, Interval]]
Differences = Mapping[str, Mapping[str, Difference]]


@dataclass(frozen=True, slots=True)
class FigureTable:
    """System → metric → figure, in percent, and the paired differences to `base` and of further
    `pairs` ("one − another").

    `left_out`: queries without an answer in the corpus; `synthetic`: of those measured, how many
        were made from the documents;
    `one_document`: how many are of one document, of that with most.
    """

    base: str
    queries: int
    left_out: int
    systems: Figures
    differences: Differences
    pairs: Differences = field(default_factory=dict)
    synthetic: int = 0
    one_document: int = 0

    @property
    def format_lopsided(self) -> str:
        """Why intervals are wide and off-centre; empty where they are not: resamples draw
        documents, with all their queries.
        """
        if self.one_document < max(2, LOPSIDED * self.queries):
            return ""
        return (
            f"{self.one_document:,} of the {self.queries:,} queries are about one document. The"
            " intervals allow for that by drawing whole documents, so they are wide, and their"
            " middle is not the mean."
        )

    def of_flattering_queries(self) -> FigureTable:
        """The same, where no difference counts as better or worse."""

        def unproven(rows: Differences) -> Differences:
            return {
                name: {metric: gap.unproven() for metric, gap in row.items()}
                for name, row in rows.items()
            }

        return replace(self, differences=unproven(self.differences), pairs=unproven(self.pairs))

    def gap(self, one: str, other: str, metric: str = "ndcg@10") -> Difference | None:
        """How much `one` lies above `other`; None where that was not compared."""
        if other == self.base:
            row = self.differences.get(one)
        else:
            row = self.pairs.get(f"{one} − {other}")
        return row[metric] if row else None
