"""What the gate compares, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.messages.report import LEVEL, GateRow, SearchMode, Standing
from engine.core.systems import BASE
from engine.evaluation.evidence import DIFFERENCE, PreferenceEvidence, RungName
from engine.evaluation.experience import Prior
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
    """A rung of the ladder: how many `queries` it has, of how many `texts`, and needs to decide."""

    rung: RungName
    queries: int
    needed: int
    texts: int = MIN_QUERIES


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of the gate in one search mode: the chosen system and the evidence for it.

    `chosen` names a candidate or the reference. `rung` is the rung that proved it, else the rung
    that had the last word, or None if no rung could decide. The rows of `candidates` hold figures
    of the rung `measured_on` with that many `queries` (None: nothing was measured).
    `judged_needed` is the number of judged questions that would show a gain of `judged_points`,
    None if nothing was measured. `preferences` are set if they proved the candidate.
    `wealth_needed` is that from which preferences would prove the `contender`.
    """

    mode: SearchMode
    chosen: str
    reference: str
    standing: Standing
    rung: RungName | None
    queries: int
    candidates: tuple[GateRow, ...] = ()
    ladder: tuple[RungResult, ...] = ()
    judged_needed: int | None = None
    judged_points: float = DIFFERENCE
    measured_on: RungName | None = None
    preferences: PreferenceEvidence | None = None
    wealth_needed: float = 1 / LEVEL

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
        return max(remaining, key=_rank_contender, default=None)


def _rank_contender(row: GateRow) -> tuple[bool, bool, float]:
    """Return a sort key: rows in use first, then expected gains, then measured ones."""
    gain = 0.0
    if row.expectation is not None:
        gain = row.expectation.mean
    if not gain and row.difference is not None:
        gain = row.difference.value
    return row.in_use, row.expectation is not None, gain
