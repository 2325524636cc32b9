"""The trials of all rungs, from the highest down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.evaluation.gate.decision import Option, RungResult
from engine.evaluation.gate.trial import Trial
from engine.evaluation.rungs import RUNGS, Evidence, RungName, choose_shown, sort_from_top
from engine.metrics.differences import MIN_FOR_SPREAD

PLANNED_GAIN = 3.5
"""Gain in points that the requested number of judged questions would show.

It is smaller than `DIFFERENCE`, by which they decide, because their variance is only known once
they have been judged.
"""


class Ladder:
    """The candidates against the reference on every rung with queries.

    There may be two trials of judged questions: one for the candidate that the questions were
    focused on, and one for the others.
    """

    def __init__(
        self,
        ladder: Sequence[Evidence],
        reference: str,
        candidates: Sequence[Option],
        samples: int,
        seed: int,
    ) -> None:
        self._reference = reference
        from_top = sort_from_top(ladder)
        self.trials = [Trial(rung, reference, candidates, samples, seed) for rung in from_top]
        # The evidence whose figures are shown.
        self.shown_evidence: Evidence | None = None
        if from_top:
            self.shown_evidence = choose_shown(from_top, reference)

    def find_trial(self, rung: RungName, name: str) -> Trial | None:
        """Return the trial of a rung that measures a candidate."""
        for trial in self.trials:
            if trial.rung == rung and trial.has(name):
                return trial
        return None

    def find_last_word(self) -> RungName | None:
        """Return the highest rung with enough queries to decide."""
        for trial in self.trials:
            if trial.evidence.suffices(self._reference):
                return trial.rung
        return None

    def find_proving_trials(self) -> list[Trial]:
        """Return the trials that may prove a gain, down to the first rung with the last word."""
        lowest = RUNGS.index(self.find_last_word() or RUNGS[-1])
        proving = []
        for trial in self.trials:
            if RUNGS.index(trial.rung) <= lowest and trial.evidence.may_prove:
                proving.append(trial)
        return proving

    def results(self) -> tuple[RungResult, ...]:
        """Return one result for each rung.

        If judged questions have two trials, it is that of the first, which has more queries.
        """
        results: dict[RungName, RungResult] = {}
        for trial in self.trials:
            evidence = trial.evidence
            needed = evidence.count_needed(self._reference)
            result = RungResult(
                evidence.rung,
                evidence.queries,
                needed,
                evidence.independent,
            )
            results.setdefault(evidence.rung, result)
        return tuple(results.values())

    def count_judged_needed(self) -> int | None:
        """Return how many judged questions would show a gain of `PLANNED_GAIN` points.

        Estimated from the spread of the judged questions or, while they are too few, of the
        evidence that is shown. None without any evidence.
        """
        if self.shown_evidence is None:
            return None
        judged = next((trial for trial in self.trials if trial.rung == "judged"), None)
        if judged is not None and judged.evidence.queries >= MIN_FOR_SPREAD:
            return judged.evidence.count_needed(self._reference, PLANNED_GAIN)
        # The documents of future questions are unknown, so the questions count as independent.
        return replace(self.shown_evidence, clusters=None).count_needed(
            self._reference, PLANNED_GAIN
        )
