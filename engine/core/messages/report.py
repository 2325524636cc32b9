"""What the last evaluation found; sets of queries are stored in report.json in this form."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.core.figures import Difference, FigureTable, Interval
from engine.core.messages.wire import Request

QuerySetKind = Literal["judged", "measuring", "focused", "document", "synthetic", "perturbed"]
"""The kinds of query sets.

`measuring`: judged queries that only measure. `focused`: judged only where two lists differ (in no
table). `document`: titles and headings. `synthetic`: generated and held out. `perturbed`: judged
queries with typos and the like.
"""


QUERY_SETS = {
    "judged": "judged questions",
    "measuring": "judged questions that had no part in the choice",
    "document": "titles and headings (not trained on)",
    "synthetic": "held-out queries made from the documents (synthetic: they flatter every system)",
}
"""Kind of query set → its name in tables, in their order."""
IMPORTED_SET = "held-out imported queries"
"""The name of a `synthetic` set in tables if its queries were not made from the documents."""

KINDS = {
    "judged": ("judged question", "judged questions"),
    "preferred": ("preference between two lists", "preferences between two lists"),
    "document": ("title or heading", "titles and headings"),
    "model": ("query by a language model", "queries by a language model"),
    "imported": ("imported query", "imported queries"),
    "extractive": ("extractive query", "extractive queries"),
}
"""Rung of evidence (engine/evaluation/rungs.py) → singular and plural of its queries."""
EVIDENCE = {rung: several for rung, (_, several) in KINDS.items()}
FLATTERING = ("model", "imported")
"""Rungs whose queries may flatter an encoder that was trained on queries of the same kind."""

LEVEL = 0.05
"""Greatest p at which the gate calls a gain proved."""
SearchMode = Literal["semantic", "hybrid"]
"""The search modes that have an encoder, each its own."""
SEARCH_MODES: tuple[SearchMode, ...] = ("semantic", "hybrid")
GateOutcome = Literal["proved", "expected", "not shown", "excluded"]
Standing = Literal["proved", "expected", "base"]
"""Why an encoder is in use in a mode.

`proved`: its gain is proved on the project's documents. `expected`: it is expected from experience
with public collections. `base`: it is the base encoder.
"""


@dataclass(frozen=True, slots=True)
class Expectation:
    """The gain to expect of a candidate, in points, from experience and this project's figures."""

    mean: float
    low: float  # Lower bound of the 95 % interval.
    high: float  # Upper bound.
    risk: float  # Probability of a loss beyond the tolerance.
    collections: int  # Number of public collections that the experience comes from.
    helped: int  # Number of those on which the candidate helped.
    average: float  # Mean gain over them, in points.
    widened: bool = False  # The experience is with another encoder, so the interval is wider.


@dataclass(frozen=True, slots=True)
class GateRow:
    """A candidate against the reference in one search mode."""

    name: str
    encoder: str
    share: (
        float | None
    )  # Weight of the semantic score in hybrid search; None for RRF and semantic search.
    difference: Difference | None  # nDCG@10 in percent on the table's rung; None if not measured.
    p: float  # One-sided, corrected for the number of candidates.
    outcome: GateOutcome
    in_use: bool = False
    excluded_by: str | None = None  # The kind of evidence that shows it to be worse.
    expectation: Expectation | None = None


@dataclass(frozen=True, slots=True)
class GateTable:
    """What the gate compared with the reference in a search mode."""

    mode: SearchMode
    rung: str  # The kind of evidence; empty: nothing was measured.
    queries: int  # Number of queries on the rung.
    candidates: tuple[GateRow, ...]
    decided: bool  # There were enough queries to have the last word.

    @property
    def strictness_note(self) -> str:
        """Why a gain that looks proved by its interval or p is not; empty if there is none."""
        if not self.decided or not any(_seems_proved(row) for row in self.candidates):
            return ""
        text = (
            'A candidate may not be "proved" although an interval lies above 0 or p is at most'
            " 0.05. The tests allow for the number of candidates and of kinds of queries, and for"
            " one query more that loses everything."
        )
        if self.rung in FLATTERING:
            text += " A gain must also be larger than what such queries may flatter by."
        return text


def _seems_proved(row: GateRow) -> bool:
    """Return whether an unproved gain has an interval above 0 or a p of at most `LEVEL`."""
    if row.outcome == "proved" or row.difference is None:
        return False
    return row.p <= LEVEL or row.difference.low > 0


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A hit: its rank from 1, whether it is right, its document's title and first words."""

    rank: int
    right: bool
    title: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Change:
    """How adaptation changed one query: its metric in percent and its first hits."""

    key: str  # Of the query.
    text: str  # Of the query.
    before: float  # Under base.
    after: float  # Under the compared system.
    hits_before: tuple[FoundHit, ...] = ()
    hits_after: tuple[FoundHit, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """The queries with the largest gains and losses, largest first, and how many changed."""

    better: tuple[Change, ...] = ()
    worse: tuple[Change, ...] = ()
    count_better: int = 0
    count_worse: int = 0
    count_equal: int = 0
    differences: tuple[float, ...] = ()  # Of every query, in points, the largest gain first.


@dataclass(frozen=True, slots=True)
class QuerySetReport:
    """One set of queries, and the figures of every system on it."""

    name: str
    kind: QuerySetKind
    comparison: FigureTable
    changes: Changes = field(default_factory=Changes)
    changed_system: str = ""  # The system that `changes` compare with the table's base.
    unmatched: tuple[str, ...] = ()  # Judged answers that the corpus does not have.


Outcome = Literal["proved", "expected", "stays", "not measured"]
"""The outcome of adaptation in a search mode.

The adapted encoder is in use because it is proved, or expected, to be better; the base encoder
stays; or there was nothing to compare.
"""

SCALE = (
    "Scores out of 100 (nDCG@10): the higher the right passages are among the first ten hits, the"
    " higher the score."
)


@dataclass(frozen=True, slots=True)
class Bar:
    """A way to search in the verdict: its label, its system, and its nDCG@10 in percent."""

    label: str
    system: str
    figure: Interval


@dataclass(frozen=True, slots=True)
class ModeVerdict:
    """The outcome of adaptation in one search mode."""

    mode: SearchMode
    outcome: Outcome
    encoder: str  # The one in use.
    sentence: str  # The outcome for everyone to read.
    kind: QuerySetKind = "synthetic"  # Of the queries that bars and difference are measured on.
    queries: int = 0  # Number of those queries.
    bars: tuple[Bar, ...] = ()  # Empty if the queries flatter.
    # The encoder in use against base; if base is in use, the adapted one against base.
    difference: Difference | None = None

    @property
    def format_difference(self) -> str:
        """The difference as a sentence with its interval; empty without a difference."""
        gap = self.difference
        if gap is None:
            return ""
        kind = IMPORTED_SET if self.kind == "synthetic" else QUERY_SETS[self.kind]
        text = (
            f"After adaptation: {gap.value:+.1f} points (95 % interval {gap.low:+.1f} to"
            f" {gap.high:+.1f}) on {self.queries:,} {kind}"
        )
        if gap.verdict == "no difference shown":
            text += ", which may be chance"
        return text


StepName = Literal["language-model", "lists", "judge", "encoder", "adapt", "search"]


@dataclass(frozen=True, slots=True)
class NextStep:
    """Something to do next: a sentence without its full stop, and shell commands in order.

    The app names its own keys for them, by `name`.
    """

    name: StepName
    what: str
    commands: tuple[str, ...] = ()

    def format_with(self, way: str) -> str:
        """Return the sentence with a way to do the step, such as a command or a key."""
        return f"{self.what}: {way}." if way else f"{self.what}."

    @property
    def format_for_shell(self) -> str:
        """The sentence with its commands."""
        return self.format_with(", then ".join(f"'{command}'" for command in self.commands))


@dataclass(frozen=True, slots=True)
class ReportVerdict:
    """What everyone should know about an evaluation; terminal, app and page show the same words.

    `modes`: the default one first. `notes`: what else there is to know. `next_steps`: the least
    effort first.
    """

    modes: tuple[ModeVerdict, ...] = ()
    notes: tuple[str, ...] = ()
    next_steps: tuple[NextStep, ...] = ()

    @property
    def to_do(self) -> tuple[str, ...]:
        """The next steps as sentences with shell commands."""
        return tuple(step.format_for_shell for step in self.next_steps)

    @property
    def default(self) -> ModeVerdict | None:
        """The verdict for the default search mode, None if there is none."""
        return next(iter(self.modes), None)

    @property
    def only_unproved(self) -> SearchMode | None:
        """The search mode that alone has no proved gain, None if none or both have none."""
        unproved = [verdict.mode for verdict in self.modes if verdict.outcome != "proved"]
        if len(unproved) == 1:
            return unproved[0]
        return None


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What is in use in each search mode, and what was measured.

    `folder`: that of report.json. `own_systems`: the systems in use, by the names of their rows.
    """

    semantic: str
    hybrid: str
    query_sets: tuple[QuerySetReport, ...]
    folder: Path
    verdict: ReportVerdict = field(default_factory=ReportVerdict)
    own_systems: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadReport(Request[EvaluationReport], method="report"):
    """Read what the last evaluation found; NotBuiltError before the first."""
