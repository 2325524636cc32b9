"""Figures with their intervals, and the table that an evaluation makes for one set of queries.

The same form is measured, kept in report.json, and shown in the terminal and the app.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from engine.core.text import about_count

Verdict = Literal["better", "worse", "no difference shown", "proves nothing"]
MILLION = 1_000_000
LOPSIDED_SHARE = 0.2
"""The share of queries about one document from which on wide intervals are explained."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds of its interval."""

    value: float
    low: float
    high: float

    def percent(self) -> Interval:
        """Return the interval in percent."""
        return Interval(100 * self.value, 100 * self.low, 100 * self.high)


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a - b with its interval.

    `p_better`: share of resamples in which a is ahead, ties counted half. `p_value`: of Fisher's
    randomisation test. `needed`: if no difference is shown, the number of queries that would show
    one as large (engine/metrics/differences.py). The verdict `proves nothing` is for queries that
    flatter what was trained on similar ones.
    """

    value: float
    low: float
    high: float
    p_better: float
    verdict: Verdict
    p_value: float
    needed: int | None = None

    def percent(self) -> Difference:
        """Return the difference in percent; probabilities stay shares."""
        return replace(self, value=100 * self.value, low=100 * self.low, high=100 * self.high)

    def without_verdict(self) -> Difference:
        """Return the difference without the verdict better or worse, for queries that flatter."""
        if self.verdict == "no difference shown":
            return self
        return replace(self, verdict="proves nothing")

    @property
    def harms(self) -> bool:
        """Whether the whole interval lies below 0.

        That is enough to reject a change, but too little to call it worse.
        """
        return self.high < 0

    @property
    def p_text(self) -> str:
        """The p value as in a sentence, such as `p = 0.031`."""
        if self.p_value < 0.001:
            return "p < 0.001"
        return f"p = {self.p_value:.3f}"

    @property
    def verdict_text(self) -> str:
        """The verdict with its p; it says so if the interval excludes 0 without a proof."""
        note = self.p_text
        if self.verdict == "no difference shown" and (self.low > 0 or self.harms):
            note += ", above 0.05, though the interval excludes 0"
        return f"{self.verdict} ({note})"

    @property
    def needed_text(self) -> str:
        """The number of queries needed, for the end of a sentence; empty if unknown."""
        if self.needed is None:
            return ""
        if self.needed > MILLION:
            count = "over a million"
        else:
            count = f"about {about_count(self.needed)}"
        return f"; to show one of this size takes {count} queries"


Figures = Mapping[str, Mapping[str, Interval]]
"""System → metric → figure."""
Differences = Mapping[str, Mapping[str, Difference]]
"""System, or pair of systems → metric → difference."""


def _without_verdicts(rows: Differences) -> Differences:
    stripped = {}
    for system, row in rows.items():
        stripped[system] = {metric: gap.without_verdict() for metric, gap in row.items()}
    return stripped


@dataclass(frozen=True, slots=True)
class FigureTable:
    """System → metric → figure in percent, with paired differences to `base`.

    `pairs`: further paired differences ("one − another"). `left_out`: queries without an answer in
    the corpus. `synthetic`: how many of the measured queries were made from the documents.
    `one_document`: the number of queries about the document that has most. `ranked`: the number of
    passages that each query was ranked among, if they are a sample of the corpus; 0: all.
    """

    base: str
    queries: int
    left_out: int
    systems: Figures
    differences: Differences
    pairs: Differences = field(default_factory=dict)
    synthetic: int = 0
    one_document: int = 0
    ranked: int = 0

    @property
    def sample_text(self) -> str:
        """That queries were ranked among a sample; empty if among all passages."""
        if not self.ranked:
            return ""
        return (
            f"Each query was ranked among {self.ranked:,} passages: some drawn at random from all,"
            " and those that answer a query. Among all passages, scores would be lower or equal;"
            " differences may change either way."
        )

    @property
    def lopsided_text(self) -> str:
        """Why intervals are wide and off-centre if many queries are about one document."""
        if self.one_document < max(2, LOPSIDED_SHARE * self.queries):
            return ""
        return (
            f"{self.one_document:,} of the {self.queries:,} queries are about one document. The"
            " intervals allow for that by drawing whole documents, so they are wide, and their"
            " middle is not the mean."
        )

    def of_flattering_queries(self) -> FigureTable:
        """Return the table without differences that count as better or worse."""
        return replace(
            self,
            differences=_without_verdicts(self.differences),
            pairs=_without_verdicts(self.pairs),
        )

    def gap(self, system: str, reference: str, metric: str = "ndcg@10") -> Difference | None:
        """Return how much a system lies above `reference`; None if they were not compared."""
        if reference == self.base:
            row = self.differences.get(system)
        else:
            row = self.pairs.get(f"{system} − {reference}")
        return row[metric] if row else None
