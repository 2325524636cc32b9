"""What the gate compares, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.messages.report import LEVEL, GateRow, SearchMode, Standing
from engine.core.systems import BASE
from engine.evaluation.experience import Prior
from engine.evaluation.rungs import DIFFERENCE, PreferenceEvidence, RungName
from engine.metrics.differences import MIN_QUERIES


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate or the reference: an encoder and its share of the hybrid score (None: RRF)."""

    name: str
    encoder: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class PriorKnowledge:
    """What experience says: the prior of each candidate, and the error in points of each rung."""

    priors: Mapping[str, Prior]
    rung_errors: Mapping[str, float]


NO_PRIOR_KNOWLEDGE = PriorKnowledge({}, {})


@dataclass(frozen=True, slots=True)
class RungResult:
    """The number of queries that a rung of the ladder has and needs."""

    rung: RungName
    queries: int
    needed: int
    """Number of queries from which the rung has the last word."""
    texts: int = MIN_QUERIES
    """Number of independent texts that the queries are about."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of the gate in one search mode: the chosen system and the evidence for it."""

    mode: SearchMode
    chosen: str
    """Name of a candidate or of the reference."""
    reference: str
    standing: Standing
    rung: RungName | None
    """The rung that proved the candidate, else the one with the last word; None if none decides."""
    queries: int
    """Number of queries of the rung `measured_on`."""
    candidates: tuple[GateRow, ...] = ()
    """A row for each candidate, with figures of the rung `measured_on`."""
    ladder: tuple[RungResult, ...] = ()
    judged_needed: int | None = None
    """Number of judged questions that would show a gain of `judged_points`; None: unknown."""
    judged_points: float = DIFFERENCE
    measured_on: RungName | None = None
    """The rung whose figures describe the decision; None if nothing was measured."""
    preferences: PreferenceEvidence | None = None
    """People's preferences, if they proved the candidate."""
    wealth_needed: float = 1 / LEVEL
    """Wealth from which preferences would prove the `contender`."""

    @property
    def row(self) -> GateRow | None:
        """The row of the candidate in use, or None if the reference stays in use."""
        return next((row for row in self.candidates if row.in_use), None)

    @property
    def contender(self) -> GateRow | None:
        """The adapted encoder most worth comparing with the reference, or None if all are excluded.

        This is the one in use, else the one with the largest expected (or else measured) gain.
        """
        adapted = [row for row in self.candidates if row.encoder != BASE]
        remaining = [row for row in adapted if row.outcome != "excluded"]
        return max(
            remaining,
            key=_rank_contender,
            default=None,
        )


def _rank_contender(row: GateRow) -> tuple[bool, bool, float]:
    """Return a sort key: rows in use first, then expected gains, then measured ones."""
    gain = 0.0
    if row.expectation is not None:
        gain = row.expectation.mean
    if not gain and row.difference is not None:
        gain = row.difference.value
    return row.in_use, row.expectation is not None, gain
