"""What proves a candidate, what excludes it, and when experience is enough to use it.

A candidate is used if a rung of the ladder (rungs.py) proves it better, or if experience with
public collections (experience.py) expects a gain and nothing on the project shows harm.
A rung that shows a candidate to be worse excludes it, unless a higher rung proves it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from engine.core.figures import Difference
from engine.core.messages.report import (
    FLATTERING,
    LEVEL,
    Expectation,
    GateOutcome,
    GateRow,
    SearchMode,
)
from engine.core.systems import BASE
from engine.evaluation.gate.decision import Option, PriorKnowledge
from engine.evaluation.gate.ladder import Ladder
from engine.evaluation.gate.trial import Trial, Z
from engine.evaluation.rungs import RUNGS, PreferenceEvidence, RungName

USEFUL_GAIN = 0.5
"""Minimum expected gain in points of nDCG@10: a smaller one is within the differences of priors."""
TOLERANCE = 0.3
"""Loss in points of nDCG@10 that does not count as harm by an expected candidate."""
MAX_RISK = 0.2
"""Maximum probability that an expected candidate loses more than `TOLERANCE`."""
RUNG_ERRORS: Mapping[RungName, Mapping[SearchMode, float]] = {
    "document": {"semantic": 2.0, "hybrid": 0.7},
    "model": {"semantic": 4.5, "hybrid": 1.1},
    "imported": {"semantic": 4.5, "hybrid": 1.1},
}
"""Standard deviation, in points, of a rung's gains from those on judged questions.

Used if experience has no figure of its own for the rung.

Measured in docs/log/evaluation.md.
"""

Shortfall = Literal["risk", "collections", "average", "gain"]
"""Why an expectation is not enough: too much risk, too few collections that the candidate helped
on, no gain in their mean, or too small a gain here.
"""


def find_shortfall(expectation: Expectation) -> Shortfall | None:
    """Return why a candidate is not expected to be better, None if it is.

    Public collections must have gained, too: a gain that only the project's queries suggest has to
    be proved.
    """
    if expectation.risk >= MAX_RISK:
        return "risk"
    if 2 * expectation.helped <= expectation.collections:
        return "collections"
    if expectation.average <= 0:
        return "average"
    if expectation.mean < USEFUL_GAIN:
        return "gain"
    return None


def find_rung_error(
    rung: RungName,
    mode: SearchMode,
    measured: Mapping[str, float],
) -> float:
    """Return the error of a rung of unjudged queries in points: `measured`, else `RUNG_ERRORS`."""
    return measured.get(rung, RUNG_ERRORS[rung][mode])


class Rules:
    """What the trials of all rungs, preferences and experience say of each candidate.

    A rung is a *proof* if a candidate passes three tests on it (`Trial.proves`): p ≤ 0.05 / R,
    one-sided and corrected for the number of candidates; "better" by the two-sided test that all
    tables use; a gain that remains if one more query lost everything. Queries of a kind that was
    trained on flatter the adapted encoder, so a fourth test on them is m > z e.

        m   mean lead in nDCG@10 over the reference on the N queries of a rung
        s²  variance of the lead between queries
        r   by how much queries of this kind are usually off; 0 for judged questions
        e   error of m: e² = (s² + 1/N) / N + r², where 1/N is for one more query that loses
            everything
        z   z₀.₉₇₅ = 1.96
        R   number of rungs that may prove something

    Code and reports give m, e and r in points, which are hundredths.

    The *expectation* of a candidate begins as the prior N(μ, σ²) of its gain on public collections.
    Each rung with enough queries updates it by the likelihood N(m, e²): the precision becomes
    1/σ² + 1/e², and the mean (μ/σ² + m/e²) / (1/σ² + 1/e²). METHODS.md §5, "The gate", says why.
    """

    def __init__(
        self,
        mode: SearchMode,
        ladder: Ladder,
        candidates: Sequence[Option],
        prior_knowledge: PriorKnowledge,
        preferences: Mapping[str, PreferenceEvidence],
    ) -> None:
        self._mode: SearchMode = mode
        self._ladder = ladder
        self._adapted = [option.name for option in candidates if option.encoder != BASE]
        self._prior_knowledge = prior_knowledge
        self._preferences = preferences
        self._proving = ladder.find_proving_trials()
        # Only preferences about people's own questions prove anything.
        self._compared = {name for name, answers in preferences.items() if answers.count}
        # Bonferroni's correction for R tests.
        tests = len(self._proving) + bool(self._compared)
        self._level = LEVEL / max(1, tests)
        # The highest rung that proves each candidate, None if none does.
        self.proofs = {option.name: self._find_proof(option.name) for option in candidates}

    def judge(self, option: Option) -> GateRow:
        """Return a candidate's outcome, with its figures on the rung that is shown."""
        name = option.name
        difference: Difference | None = None
        p_value = 1.0
        if self._ladder.shown_evidence is not None:
            trial = self._ladder.find_trial(self._ladder.shown_evidence.rung, name)
            if trial is not None:
                difference = trial.difference(name)
                p_value = trial.p(name)
        expectation = self._build_expectation(name)
        excluded_by = self._find_exclusion(name)
        outcome: GateOutcome = "not shown"
        if excluded_by is not None:
            outcome = "excluded"
        elif self.proofs[name] is not None:
            outcome = "proved"
        elif option.encoder != BASE and self._is_expected(name, expectation):
            outcome = "expected"
        return GateRow(
            name=name,
            encoder=option.encoder,
            share=option.share,
            difference=difference,
            p=p_value,
            outcome=outcome,
            excluded_by=excluded_by,
            expectation=expectation,
        )

    def find_proving_trial(self, name: str) -> Trial | None:
        """Return the trial that proves a candidate; None if unproved or proved by preferences."""
        proof = self.proofs[name]
        if proof is None:
            return None
        return self._ladder.find_trial(proof, name)

    def has_separate_proof(self, name: str) -> bool:
        """Return whether the evidence that proves a candidate does not enter its expected gain.

        Expected gains of others, which ignore this evidence, then do not compete with its proof.
        Preferences never enter it. Titles and headings do not either, if queries of a kind that was
        trained on were measured (`_list_informing_trials`).
        """
        proof = self.proofs[name]
        if proof is None:
            return False
        return all(trial.rung != proof for trial in self._list_informing_trials(name))

    def wealth_needed(self, name: str) -> float:
        """Return the wealth from which preferences prove a candidate: R K / 0.05.

        R counts preferences, too; K is the number of candidates that people have compared with the
        reference (METHODS.md §5, "Preferences").
        """
        tests = len(self._proving) + 1
        compared = self._compared | {name}
        return tests * len(compared) / LEVEL

    def _find_proof(self, name: str) -> RungName | None:
        """Return the highest rung that shows a candidate to be better."""
        proofs: list[RungName] = []
        for trial in self._proving:
            if trial.proves(name, self._level) and self._is_beyond_flattery(trial, name):
                proofs.append(trial.rung)
        preference = self._preferences.get(name)
        if preference is not None and preference.wealth_better >= self.wealth_needed(name):
            proofs.append("preferred")
        return min(
            proofs,
            key=RUNGS.index,
            default=None,
        )

    def _is_beyond_flattery(self, trial: Trial, name: str) -> bool:
        """Return whether m > z e, if the rung has queries of a kind that was trained on.

        Such queries favour the adapted encoder: they flatter it.
        """
        if trial.rung not in FLATTERING:
            return True
        return trial.mean(name) > Z * self._total_error(trial, name)

    def _total_error(self, trial: Trial, name: str) -> float:
        """Return e, a candidate's error in points: of the sample, and of its kind of queries."""
        rung_error = 0.0
        if trial.rung != "judged":
            rung_error = find_rung_error(
                trial.rung,
                self._mode,
                self._prior_knowledge.rung_errors,
            )
        return float(np.hypot(trial.error(name), rung_error))

    def _find_exclusion(self, name: str) -> RungName | None:
        """Return the highest rung that shows a candidate to be worse and outranks its proof."""
        harms: list[RungName] = [trial.rung for trial in self._ladder.trials if trial.harms(name)]
        if self._is_disliked(name):
            harms.append("preferred")
        proof = self.proofs[name]
        if proof is not None:
            harms = [rung for rung in harms if RUNGS.index(rung) < RUNGS.index(proof)]
        return min(
            harms,
            key=RUNGS.index,
            default=None,
        )

    def _is_disliked(self, name: str) -> bool:
        """Return whether people prefer the reference's lists."""
        preference = self._preferences.get(name)
        return preference is not None and preference.wealth_worse >= 1 / LEVEL

    def _build_expectation(self, name: str) -> Expectation | None:
        """Update a candidate's prior N(μ, σ²) by m and e of every rung that informs about it."""
        prior = self._prior_knowledge.priors.get(name)
        if prior is None:
            return None
        effect = prior.effect
        for trial in self._list_informing_trials(name):
            effect = effect.update(trial.mean(name), self._total_error(trial, name))
        reach = Z * effect.deviation
        return Expectation(
            mean=effect.mean,
            low=effect.mean - reach,
            high=effect.mean + reach,
            risk=effect.below(-TOLERANCE),
            collections=prior.collections,
            helped=prior.helped,
            average=prior.average,
            widened=prior.widened,
        )

    def _list_informing_trials(self, name: str) -> list[Trial]:
        """Return the trials that update a candidate's prior.

        Titles and headings are off by up to eight points for an encoder that was trained on a
        language model's or imported queries (docs/log/evaluation.md). If such queries were held
        out, only they update the prior; titles may still prove or exclude a candidate.
        """
        trials = [trial for trial in self._ladder.trials if trial.describes(name)]
        if any(trial.rung in FLATTERING for trial in trials):
            return [trial for trial in trials if trial.rung != "document"]
        return trials

    def _is_expected(self, name: str, expectation: Expectation | None) -> bool:
        """Return whether experience expects a gain that no evidence on the project contradicts."""
        if expectation is None or find_shortfall(expectation) is not None:
            return False
        return not self._is_doubtful(name)

    def _is_doubtful(self, name: str) -> bool:
        """Return whether evidence about other candidates speaks against this one.

        People compare only one candidate with the reference, and a rung may not measure all of
        them. If all adapted candidates that some evidence measures are worse, experience is wrong
        about this adaptation, at any weight or share. A trial does not count if another trial of
        its rung has at least as many queries about this candidate.
        """
        preferred = [candidate for candidate in self._adapted if candidate in self._preferences]
        if preferred and name not in preferred and all(map(self._is_disliked, preferred)):
            return True
        for trial in self._ladder.trials:
            own_trial = self._ladder.find_trial(trial.rung, name)
            # Judged questions may have two trials: about the contender, and about the others.
            if own_trial is not None and own_trial.evidence.queries >= trial.evidence.queries:
                continue
            measured = [adapted for adapted in self._adapted if trial.has(adapted)]
            if measured and all(map(trial.harms, measured)):
                return True
        return False
