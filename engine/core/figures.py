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
"""If at least this share of the queries is about one document, wide intervals are explained."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with the bounds of its interval."""

    value: float
    low: float
    high: float

    def percent(self) -> Interval:
        """Return the interval in percent."""
        return Interval(
            100 * self.value,
            100 * self.low,
            100 * self.high,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """Mean of a - b with its interval, and what it shows."""

    value: float
    low: float
    high: float
    p_better: float  # Share of resamples in which a is ahead; ties count half.
    # `proves nothing`: measured on queries that flatter an encoder trained on similar ones.
    verdict: Verdict
    p_value: float  # Of Fisher's randomisation test.
    # If no difference is shown: how many queries would show one of this size
    # (engine/metrics/differences.py).
    needed: int | None = None

    def percent(self) -> Difference:
        """Return the difference in percent; probabilities stay shares."""
        return replace(
            self,
            value=100 * self.value,
            low=100 * self.low,
            high=100 * self.high,
        )

    def without_verdict(self) -> Difference:
        """Return the difference with the verdict `proves nothing` in place of better or worse.

        For queries that flatter an encoder which was trained on similar ones.
        """
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
        """The verdict with its p value, such as `better (p = 0.031)`.

        If the interval excludes 0 although no difference is shown, the text says so.
        """
        note = self.p_text
        if self.verdict == "no difference shown" and (self.low > 0 or self.harms):
            note += ", above 0.05, though the interval excludes 0"
        return f"{self.verdict} ({note})"

    @property
    def needed_text(self) -> str:
        """How many queries would show this difference, to end a sentence; empty if unknown."""
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
    """Return the differences with `Difference.without_verdict` applied to each."""
    stripped = {}
    for system, row in rows.items():
        stripped[system] = {metric: gap.without_verdict() for metric, gap in row.items()}
    return stripped


@dataclass(frozen=True, slots=True)
class FigureTable:
    """Figures of systems on one set of queries, in percent, and paired differences."""

    base: str  # The system that `differences` compare with.
    queries: int  # Number of measured queries.
    left_out: int  # Number of queries without an answer in the corpus.
    systems: Figures
    differences: Differences
    # Differences of other pairs, by names such as `in_use − bm25`.
    pairs: Differences = field(default_factory=dict)
    synthetic: int = 0  # How many of the queries were made from the documents.
    one_document: int = 0  # The largest number of queries about one document.
    ranked: int = 0  # How many passages each query was ranked among, if a sample; 0: all.

    @property
    def sample_text(self) -> str:
        """A note that queries were ranked among a sample of passages; empty if among all."""
        if not self.ranked:
            return ""
        return (
            f"Each query was ranked among {self.ranked:,} passages: some drawn at random from all,"
            " and those that answer a query. Among all passages, scores would be lower or equal;"
            " differences may change either way."
        )

    @property
    def lopsided_text(self) -> str:
        """A note why intervals are wide; empty unless many queries are about one document."""
        if self.one_document < max(2, LOPSIDED_SHARE * self.queries):
            return ""
        return (
            f"{self.one_document:,} of the {self.queries:,} queries are about one document. The"
            " intervals allow for that by drawing whole documents, so they are wide, and their"
            " middle is not the mean."
        )

    def of_flattering_queries(self) -> FigureTable:
        """Return the table with the verdict `proves nothing` in place of better and worse."""
        return replace(
            self,
            differences=_without_verdicts(self.differences),
            pairs=_without_verdicts(self.pairs),
        )

    def gap(
        self,
        system: str,
        reference: str,
        metric: str = "ndcg@10",
    ) -> Difference | None:
        """Return the difference of a system to `reference`; None if they were not compared."""
        if reference == self.base:
            row = self.differences.get(system)
        else:
            row = self.pairs.get(f"{system} − {reference}")
        return row[metric] if row else None
