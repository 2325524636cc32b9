"""The gate: whether a candidate encoder replaces the reference in one search mode.

A candidate is used if a rung of the ladder (evidence.py) proves it better, or if experience with
public collections (experience.py) expects a gain and nothing on the project shows harm.
A rung that shows a candidate to be worse excludes it, unless a higher rung proves it.
"""

# A proof takes three things: a one-sided p corrected for the number of candidates (single-step
# max-T, Westfall & Young 1993) and for the number of rungs that may prove something; a gain by the
# two-sided test that all tables use; and a gain that remains if one more query lost everything,
# since a small sample seldom holds rare losses. Queries of a kind that was trained on must also
# show more than they may flatter by. Rungs are consulted from the top down to the first that would
# show a gain if there were one. Queries of one document are resampled and permuted together, since
# they are not independent.
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.core.figures import Difference
from engine.core.messages.report import (
    LEVEL,
    Expectation,
    GateOutcome,
    GateRow,
    SearchMode,
    Standing,
)
from engine.core.systems import BASE
from engine.evaluation.evidence import (
    CERTIFYING,
    DIFFERENCE,
    RUNGS,
    Evidence,
    PreferenceEvidence,
    RungName,
    choose_shown,
    sort_from_top,
)
from engine.evaluation.experience import Prior
from engine.metrics.bootstrap import SAMPLES, bootstrap_means, bounds
from engine.metrics.differences import MIN_FOR_SPREAD, MIN_QUERIES, spread, tested_difference
from engine.metrics.randomisation import max_t_p, randomisation_p

TOLERANCE = 0.3
"""Points of nDCG@10 that an expected candidate may lose."""
MAX_RISK = 0.2
"""Maximum probability that an expected candidate loses more than `TOLERANCE`."""
PLANNED = 3.5
"""Gain in points that the requested number of judged questions would show.

It is smaller than `DIFFERENCE`, by which they decide, because their variance is only known once
they have been judged.
"""
Z = 1.959963984540054
RUNG_ERRORS: Mapping[RungName, Mapping[SearchMode, float]] = {
    "document": {"semantic": 2.0, "hybrid": 0.7},
    "model": {"semantic": 4.5, "hybrid": 1.1},
    "imported": {"semantic": 4.5, "hybrid": 1.1},
}
"""Points by which a kind of queries differs from judged questions, if experience does not say.

Measured in docs/log/evaluation.md.
"""
FLATTERING: tuple[RungName, ...] = ("model", "imported")
"""Kinds of queries that may flatter an encoder trained on queries of the same kind."""


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate or the reference: an encoder and its share of the hybrid score (None: RRF)."""

    name: str
    encoder: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Prior knowledge: the prior of each candidate, and the error in points of each rung."""

    priors: Mapping[str, Prior]
    rung_errors: Mapping[str, float]


NOTHING_FORESEEN = Foreseen({}, {})


@dataclass(frozen=True, slots=True)
class RungResult:
    """A rung of the ladder: its queries, how many it needs to decide, and their documents."""

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

    @property
    def row(self) -> GateRow | None:
        """The row of the candidate in use, or None if the reference stays in use."""
        return next((row for row in self.candidates if row.in_use), None)

    @property
    def contender(self) -> GateRow | None:
        """The adapted encoder most worth comparing with the reference, or None if all are excluded.

        This is the one in use, else the one with the largest expected (or else measured) gain.
        """
        remaining = [
            row for row in self.candidates if row.outcome != "excluded" and row.encoder != BASE
        ]
        return max(remaining, key=_promise_of, default=None)


def _promise_of(row: GateRow) -> tuple[bool, bool, float]:
    """Return a sort key: rows in use first, then expected gains, then measured ones."""
    gain = 0.0
    if row.expectation is not None:
        gain = row.expectation.mean
    if not gain and row.difference is not None:
        gain = row.difference.value
    return row.in_use, row.expectation is not None, gain


def decide(
    mode: SearchMode,
    ladder: Sequence[Evidence],
    reference: Option,
    candidates: Sequence[Option],
    *,
    foreseen: Foreseen = NOTHING_FORESEEN,
    preferences: Mapping[str, PreferenceEvidence] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Decision:
    """Choose between the reference and the candidates, listed nearest to the reference first.

    `preferences` maps a candidate to what people said of its lists and those of the reference.
    Without priors in `foreseen` only a proof counts. Raises ValueError if the arrays of a rung
    differ in length or hold NaN.
    """
    rungs = sort_from_top(ladder)
    has_evidence = bool(rungs) or bool(preferences) or bool(foreseen.priors)
    if not candidates or not has_evidence:
        return Decision(mode, reference.name, reference.name, "base", None, 0)
    trials = [_Trial(rung, reference.name, candidates, samples, seed) for rung in rungs]
    gate = _Gate(mode, trials, reference.name, candidates, foreseen, preferences or {})
    rows = [gate.judge(candidate) for candidate in candidates]
    chosen = gate.choose(rows)
    return gate.build_decision(rows, chosen)


class _Trial:
    """The candidates against the reference on one rung, with shared resamples and permutations."""

    def __init__(
        self,
        evidence: Evidence,
        reference: str,
        candidates: Sequence[Option],
        samples: int,
        seed: int,
    ) -> None:
        self.evidence = evidence
        self.rung = evidence.rung
        names = [option.name for option in candidates if option.name in evidence.systems]
        self._column = {name: column for column, name in enumerate(names)}
        if not names:
            return
        clusters = evidence.clusters
        gaps = [evidence.gaps(name, reference) for name in names]
        self._gaps = np.stack(gaps, axis=1)  # (q, c)
        self._means = bootstrap_means(self._gaps, samples, seed, clusters)  # (samples, c)
        self._p = max_t_p(self._gaps, samples, seed, clusters)
        self._two_sided = randomisation_p(self._gaps, samples, seed, clusters)

    def has(self, name: str) -> bool:
        """Tell whether the candidate was measured."""
        return name in self._column

    def describes(self, name: str) -> bool:
        """Tell whether the rung has figures of the candidate that describe it, proved or not."""
        enough = self.evidence.queries >= MIN_FOR_SPREAD
        return self.rung in CERTIFYING and enough and self.has(name)

    def gap(self, name: str) -> NDArray[np.float64]:
        """Return the candidate's lead per query (q,)."""
        lead: NDArray[np.float64] = self._gaps[:, self._column[name]]
        return lead

    def p(self, name: str) -> float:
        """Return the one-sided p, corrected for the number of candidates."""
        return float(self._p[self._column[name]])

    def difference(self, name: str) -> Difference:
        """Return the mean difference in percent."""
        column = self._column[name]
        p_value = float(self._two_sided[column])
        means = self._means[:, column]
        difference = tested_difference(self.gap(name), means, p_value, self.evidence.clusters)
        if self.rung in CERTIFYING:
            return difference
        return difference.unproven()

    def proves(self, name: str, level: float) -> bool:
        """Tell whether the candidate is shown to be better."""
        if not self.has(name) or self.p(name) > level:
            return False
        return self.difference(name).verdict == "better" and self._survives_a_loss(name)

    def harms(self, name: str) -> bool:
        """Tell whether the whole confidence interval lies below 0.

        Two judged questions are enough for this, even about one document.
        """
        enough = self.evidence.independent >= MIN_QUERIES
        if self.rung == "judged":
            enough = self.evidence.queries >= 2
        if not enough or not self.has(name) or self.rung not in CERTIFYING:
            return False
        means = self._means[:, self._column[name]]
        _, high = bounds(means)
        return high < 0

    def error(self, name: str) -> float:
        """Return the standard error of the mean in points, as if one more query lost everything."""
        count = self.evidence.queries
        deviation = spread(self.gap(name), self.evidence.clusters)
        variance = deviation**2 + 1 / count
        return 100 * float(np.sqrt(variance / count))

    def lead(self, best: str, other: str) -> tuple[float, float]:
        """Return the mean lead of one candidate over another, and its standard error."""
        first = self._column[best]
        second = self._column[other]
        lead = float((self._gaps[:, first] - self._gaps[:, second]).mean())
        error = float((self._means[:, first] - self._means[:, second]).std())
        return lead, error

    def mean(self, name: str) -> float:
        """Return the mean lead in points."""
        return 100 * float(self.gap(name).mean())

    def _survives_a_loss(self, name: str) -> bool:
        """Tell whether the gain stays significant if one more query lost everything."""
        gap = np.append(self.gap(name), -1.0)
        clusters = self.evidence.clusters
        if clusters is not None:
            clusters = np.append(clusters, clusters.max() + 1)
        error = spread(gap, clusters) / np.sqrt(len(gap))
        return bool(gap.mean() - Z * error > 0)


class _Gate:
    """What the trials of all rungs, preferences and experience say of each candidate."""

    def __init__(
        self,
        mode: SearchMode,
        trials: Sequence[_Trial],
        reference: str,
        candidates: Sequence[Option],
        foreseen: Foreseen,
        preferences: Mapping[str, PreferenceEvidence],
    ) -> None:
        self._mode: SearchMode = mode
        self._trials = trials
        self._reference = reference
        self._adapted = [option.name for option in candidates if option.encoder != BASE]
        self._foreseen = foreseen
        self._preferences = preferences
        self._proving = self._find_proving_trials()
        tests = len(self._proving) + bool(preferences)
        self._level = LEVEL / max(1, tests)
        self._shown: Evidence | None = None
        if trials:
            self._shown = choose_shown([trial.evidence for trial in trials], reference)
        self._proofs = {option.name: self._find_proof(option.name) for option in candidates}

    def _find_proving_trials(self) -> list[_Trial]:
        """Return the trials that may prove a gain, down to the first rung with the last word.

        There may be two trials of judged questions: one for the candidate that the questions were
        focused on, and one for the others.
        """
        proving = []
        last: RungName | None = None
        for trial in self._trials:
            if last is not None and trial.rung != last:
                break
            if trial.evidence.may_prove:
                proving.append(trial)
            if trial.evidence.suffices(self._reference):
                last = trial.rung
        return proving

    def judge(self, option: Option) -> GateRow:
        """Return a candidate's figures and outcome."""
        name = option.name
        difference = None
        p_value = 1.0
        if self._shown is not None:
            trial = self._find_trial(self._shown.rung, name)
            if trial is not None:
                difference = trial.difference(name)
                p_value = trial.p(name)
        expectation = self._build_expectation(name)
        excluded_by = self._find_exclusion(name)
        outcome: GateOutcome = "not shown"
        if excluded_by is not None:
            outcome = "excluded"
        elif self._proofs[name] is not None:
            outcome = "proved"
        elif option.encoder != BASE and self._is_expected(name, expectation):
            outcome = "expected"
        return GateRow(
            name,
            option.encoder,
            option.share,
            difference,
            p_value,
            outcome,
            excluded_by=excluded_by,
            expectation=expectation,
        )

    def _is_expected(self, name: str, expectation: Expectation | None) -> bool:
        """Tell whether experience expects a gain that no evidence on the project contradicts."""
        return self._is_promising(expectation) and not self._is_doubtful(name)

    def _is_promising(self, expectation: Expectation | None) -> bool:
        """Tell whether experience expects a gain at an acceptable risk.

        The public collections themselves must agree: a gain that only the project's own queries
        promise has to be proved.
        """
        if expectation is None or expectation.average <= 0:
            return False
        if 2 * expectation.helped <= expectation.collections:
            return False
        return expectation.mean > 0 and expectation.risk < MAX_RISK

    def _is_doubtful(self, name: str) -> bool:
        """Tell whether a rung without figures of this candidate found all other adapted ones worse.

        People compare one candidate with the reference. If that candidate is worse, experience is
        wrong about this adaptation, which is no reason to use it at another weight or share.
        """
        preferred = [candidate for candidate in self._adapted if candidate in self._preferences]
        if preferred and name not in preferred and all(map(self._is_disliked, preferred)):
            return True
        for rung in dict.fromkeys(trial.rung for trial in self._trials):
            if self._find_trial(rung, name) is None and self._harms_all_measured(rung):
                return True
        return False

    def _harms_all_measured(self, rung: RungName) -> bool:
        """Tell whether a rung measured adapted candidates and found every one of them worse."""
        harms = []
        for name in self._adapted:
            trial = self._find_trial(rung, name)
            if trial is not None:
                harms.append(trial.harms(name))
        return bool(harms) and all(harms)

    def _is_disliked(self, name: str) -> bool:
        """Tell whether people prefer the reference's lists."""
        preference = self._preferences.get(name)
        return preference is not None and preference.wealth_worse >= 1 / LEVEL

    def _find_proof(self, name: str) -> RungName | None:
        """Return the highest rung that shows a candidate to be better."""
        proofs: list[RungName] = []
        for trial in self._proving:
            if trial.proves(name, self._level) and self._is_beyond_flattery(trial, name):
                proofs.append(trial.rung)
        preference = self._preferences.get(name)
        needed_wealth = len(self._preferences) / self._level
        if preference is not None and preference.wealth_better >= needed_wealth:
            proofs.append("preferred")
        return min(proofs, key=RUNGS.index, default=None)

    def _is_beyond_flattery(self, trial: _Trial, name: str) -> bool:
        """Tell whether a gain exceeds what queries of a kind that was trained on may pretend."""
        if trial.rung not in FLATTERING:
            return True
        error = float(np.hypot(trial.error(name), self._rung_error(trial.rung)))
        return trial.mean(name) > Z * error

    def _rung_error(self, rung: RungName) -> float:
        """Return the points by which a kind of queries may differ from judged questions."""
        if rung == "judged":
            return 0.0
        return self._foreseen.rung_errors.get(rung, RUNG_ERRORS[rung][self._mode])

    def _find_exclusion(self, name: str) -> RungName | None:
        """Return the highest rung that shows a candidate to be worse and outranks its proof."""
        harms: list[RungName] = [trial.rung for trial in self._trials if trial.harms(name)]
        if self._is_disliked(name):
            harms.append("preferred")
        proof = self._proofs[name]
        if proof is not None:
            harms = [rung for rung in harms if RUNGS.index(rung) < RUNGS.index(proof)]
        return min(harms, key=RUNGS.index, default=None)

    def _build_expectation(self, name: str) -> Expectation | None:
        """Update a candidate's prior by every rung, each with its sampling error and rung error."""
        prior = self._foreseen.priors.get(name)
        if prior is None:
            return None
        effect = prior.effect
        for trial in self._trials:
            if trial.describes(name):
                error = float(np.hypot(trial.error(name), self._rung_error(trial.rung)))
                effect = effect.update(trial.mean(name), error)
        reach = Z * effect.deviation
        return Expectation(
            effect.mean,
            effect.mean - reach,
            effect.mean + reach,
            effect.below(-TOLERANCE),
            prior.collections,
            prior.helped,
            prior.average,
            prior.widened,
        )

    def choose(self, rows: Sequence[GateRow]) -> GateRow | None:
        """Return the candidate that comes into use, or None for the reference.

        The best candidate is the one with the largest expected gain, or without experience the
        largest proved gain. Of all within one standard error of it the first is returned, which is
        nearest to the reference (Breiman et al. 1984).
        """
        admitted = [row for row in rows if row.outcome in ("proved", "expected")]
        if not admitted:
            return None
        if any(row.expectation is not None for row in admitted):
            return self._first_within_one_error(admitted)
        trial = self._find_proving_trial(admitted[0].name)
        if trial is None:
            return admitted[0]
        measured = [row for row in admitted if trial.has(row.name)]
        best = max(measured, key=lambda row: trial.mean(row.name))
        for row in measured:
            lead, error = trial.lead(best.name, row.name)
            if lead <= error:
                return row
        return best

    def _first_within_one_error(self, admitted: Sequence[GateRow]) -> GateRow:
        """Return the first candidate within one standard deviation of the best expected gain."""
        best = max(admitted, key=self._expected_gain)
        deviation = 0.0
        if best.expectation is not None:
            deviation = (best.expectation.high - best.expectation.low) / (2 * Z)
        lowest = self._expected_gain(best) - deviation
        return next(row for row in admitted if self._expected_gain(row) >= lowest)

    def _expected_gain(self, row: GateRow) -> float:
        """Return a candidate's expected gain in points, or what its proof measured without one."""
        if row.expectation is not None:
            return row.expectation.mean
        trial = self._find_proving_trial(row.name)
        if trial is not None:
            return trial.mean(row.name)
        return 0.0

    def _find_trial(self, rung: RungName, name: str) -> _Trial | None:
        """Return the trial of a rung that measures a candidate."""
        for trial in self._trials:
            if trial.rung == rung and trial.has(name):
                return trial
        return None

    def _find_proving_trial(self, name: str) -> _Trial | None:
        """Return the trial that proves a candidate, or None if none or preferences do."""
        proof = self._proofs[name]
        if proof is None:
            return None
        return self._find_trial(proof, name)

    def build_decision(self, rows: Sequence[GateRow], chosen: GateRow | None) -> Decision:
        """Return the decision, with rows that show the figures of the rung it rests on."""
        name = self._reference
        standing: Standing = "base"
        proof: RungName | None = None
        if chosen is not None:
            name = chosen.name
            standing = "expected"
            if chosen.outcome == "proved":
                standing = "proved"
                proof = self._proofs[name]
        preferences = None
        if proof == "preferred":
            preferences = self._preferences[name]
        trial = self._find_describing_trial(chosen, proof)
        queries = 0
        measured_rung = proof
        if trial is not None:
            queries = trial.evidence.queries
            measured_rung = proof or trial.rung
        if preferences is not None:
            queries = preferences.count
        described = [self._describe_row(row, trial, row is chosen) for row in rows]
        return Decision(
            self._mode,
            name,
            self._reference,
            standing,
            proof or self._find_last_word(),
            queries,
            tuple(described),
            self._build_ladder(),
            self._count_judged_needed(),
            measured_on=measured_rung,
            preferences=preferences,
        )

    def _find_last_word(self) -> RungName | None:
        """Return the highest rung with enough queries to decide."""
        for trial in self._trials:
            if trial.evidence.suffices(self._reference):
                return trial.rung
        return None

    def _find_describing_trial(
        self, chosen: GateRow | None, proof: RungName | None
    ) -> _Trial | None:
        """Return the trial whose figures describe the decision.

        This is the one that proved the candidate; for an expected candidate the highest with
        enough queries, since lower kinds may flatter; else the one on the rung that is shown.
        """
        trial = None
        if chosen is not None and proof is not None:
            trial = self._find_trial(proof, chosen.name)
        elif chosen is not None:
            describing = (trial for trial in self._trials if trial.describes(chosen.name))
            trial = next(describing, None)
        if trial is not None:
            return trial
        return next((trial for trial in self._trials if trial.evidence is self._shown), None)

    def _build_ladder(self) -> tuple[RungResult, ...]:
        """Return each rung once; of two trials of judged questions, the larger one."""
        results: dict[RungName, RungResult] = {}
        for trial in self._trials:
            evidence = trial.evidence
            result = RungResult(
                evidence.rung,
                evidence.queries,
                evidence.count_needed(self._reference),
                evidence.independent,
            )
            results.setdefault(evidence.rung, result)
        return tuple(results.values())

    def _describe_row(self, row: GateRow, described: _Trial | None, in_use: bool) -> GateRow:
        """Return a row with the figures of the described rung, as far as it measured it."""
        row = replace(row, in_use=in_use)
        trial = None
        if described is not None:
            trial = self._find_trial(described.rung, row.name)
        if trial is None:
            return row
        return replace(row, difference=trial.difference(row.name), p=trial.p(row.name))

    def _count_judged_needed(self) -> int | None:
        """Return how many judged questions would show a gain of `PLANNED` points."""
        if self._shown is None:
            return None
        judged = next((trial for trial in self._trials if trial.rung == "judged"), None)
        if judged is not None and judged.evidence.queries >= MIN_FOR_SPREAD:
            return judged.evidence.count_needed(self._reference, PLANNED)
        # The documents of future questions are unknown, so the questions count as independent.
        return replace(self._shown, clusters=None).count_needed(self._reference, PLANNED)
