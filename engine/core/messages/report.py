"""What the last evaluation found. The sets of queries are written to report.json and read from it in this form."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.core.figures import Difference, FigureTable, Interval
from engine.core.messages.wire import Request

QuerySetKind = Literal["judged", "document", "synthetic", "perturbed"]
"""Judged queries, document-written ones, those that were generated and held out, and judged ones with typos and the like."""


QUERY_SETS = {
    "judged": "judged questions",
    "document": "titles and headings (not trained on)",
    "synthetic": "held-out queries made from the documents (synthetic: they flatter every system)",
}
"""Kind of the queries that systems are compared on → how tables call them, in their order."""
IMPORTED_SET = "held-out imported queries"
"""How tables call `synthetic` ones that were not made from the documents."""

KINDS = {
    "judged": ("judged question", "judged questions"), "document": ("title or heading", "titles and headings"),
    "model": ("query by a language model", "queries by a language model"),
    "imported": ("imported query", "imported queries"), "extractive": ("extractive query", "extractive queries"),
}  # fmt: skip
"""Rung of the ladder of evidence (engine/evaluation/evidence.py) → what one of its queries is called, and several."""
EVIDENCE = {rung: several for rung, (_, several) in KINDS.items()}


LEVEL = 0.05
"""Greatest p at which the gate calls a gain shown."""
GateOutcome = Literal["in use", "admitted", "not shown", "risky", "excluded"]


@dataclass(frozen=True, slots=True)
class GateRow:
    """A candidate against the reference, in percent: by semantic search, and in the default mode.

    `p`: one-sided, corrected. `risk`: share of resamples in which the default mode loses more than a tolerance. `excluded_by`: the
    higher rung of evidence that shows it to be worse.
    """

    name: str
    semantic: Difference
    default: Difference
    p: float
    risk: float
    outcome: GateOutcome
    excluded_by: str | None = None


@dataclass(frozen=True, slots=True)
class GateTable:
    """What the gate compared with base, on `queries` of a `rung`; `decided`: they were enough. `mode`: the default one."""

    rung: str
    queries: int
    mode: str
    candidates: tuple[GateRow, ...]
    decided: bool

    @property
    def format_strict(self) -> str:
        """Why a gain that an interval or p seems to show is not shown; empty where there is none."""
        missed = [row for row in self.candidates if row.outcome == "not shown" and self.decided]
        if not any(row.p <= LEVEL or max(row.semantic.low, row.default.low) > 0 for row in missed):
            return ""
        return (
            'A candidate can be "not shown" to be better although an interval lies above 0 or p is at most 0.05. Two tests decide: '
            "the two-sided one of the tables, and a one-sided one that allows for the number of comparisons."
        )


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A hit: its `rank` from 1, whether it is `right`, its document's title, and the beginning of its text."""

    rank: int
    right: bool
    title: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Change:
    """One query: its metric under the base and under the system, in percent, and the first hits of both."""

    key: str
    text: str
    before: float
    after: float
    hits_before: tuple[FoundHit, ...] = ()
    hits_after: tuple[FoundHit, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The largest gains and losses, largest first, and how many queries changed at all.

    `differences`: of every query, in points, the largest gain first.
    """

    better: tuple[Change, ...] = ()
    worse: tuple[Change, ...] = ()
    count_better: int = 0
    count_worse: int = 0
    count_equal: int = 0
    differences: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class QuerySetReport:
    """One set of queries, and every system on them. `changes` are those of `changed_system` against the comparison's base;
    `unmatched` names judged answers that the corpus does not have."""

    name: str
    kind: QuerySetKind
    comparison: FigureTable
    changes: Changes = field(default_factory=Changes)
    changed_system: str = ""
    unmatched: tuple[str, ...] = ()


Outcome = Literal["better", "as good", "worse", "stays", "not measured"]
"""Of adaptation: search is better, as good or worse than before; the base encoder stays; there was nothing to measure with."""

SCALE = "Scores out of 100 (nDCG@10): the higher the right passages are among the first ten hits, the higher the score."


@dataclass(frozen=True, slots=True)
class Bar:
    """A way to search: what the verdict calls it, the name of its system, and its nDCG@10 in percent."""

    label: str
    system: str
    figure: Interval


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """What everyone should know of an evaluation; terminal, app and page show these words and figures.

    `in_use`: what is in use and why. `bars`: on `queries` of `kind`, the best evidence there is; none where that is synthetic.
    """

    outcome: Outcome = "not measured"
    sentence: str = ""
    in_use: str = ""
    to_do: str = ""
    kind: QuerySetKind = "synthetic"
    queries: int = 0
    bars: tuple[Bar, ...] = ()


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What is in use and why, and what was measured. `folder`: of report.json."""

    in_use: str
    reason: str
    query_sets: tuple[QuerySetReport, ...]
    folder: Path
    verdict: ReportVerdict = field(default_factory=ReportVerdict)


@dataclass(frozen=True)
class ReadReport(Request[EvaluationReport], method="report"):
    """What the last evaluation found. NotBuiltError before the first."""
