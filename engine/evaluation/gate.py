"""The gate: whether something new comes into use in one search mode.

A candidate is *proved* where a rung of the ladder (engine/evaluation/evidence.py) shows it to be
better than the reference, which is what comes into use otherwise: one-sided p, corrected for the
number of candidates (single-step max-T, Westfall & Young 1993) and for the number of rungs that may
prove something; better by the two-sided test of all tables, too; and better still if one query more
lost everything, since a small sample seldom holds rare losses. Queries of a kind that was trained
on have to show more than they may flatter by. Rungs are asked from the top down to the first that
would show a gain if there were one. Queries of one document are tossed and drawn together, since
they are not independent.

A candidate is *expected* to be better where nothing on the project shows harm, and experience with
public collections, updated by what the project measured, foresees a gain and a small risk
(engine/evaluation/experience.py).

What a rung shows to be worse is excluded: a proof counts only against the rungs above it, an
expectation against none.
"""

from __future__ import annotations

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
    from_top,
    measured_on,
)
from engine.evaluation.experience import Prior
from engine.metrics.bootstrap import SAMPLES, bootstrap_means, bounds
from engine.metrics.differences import MIN_FOR_SPREAD, MIN_QUERIES, spread, tested_difference
from engine.metrics.randomisation import max_t_p, randomisation_p

TOLERANCE = 0.3
"""Points of nDCG@10 that an expected candidate may lose."""
MAX_RISK = 0.2
"""Probability, at most, of its losing more."""
PLANNED = 3.5
"""Points that the judged questions asked for would show: somewhat fewer than `DIFFERENCE`, by
which they decide, because how much they vary is known only once they are there.
"""
Z = 1.959963984540054
RUNG_ERRORS: Mapping[RungName, Mapping[SearchMode, float]] = {
    "document": {"semantic": 2.0, "hybrid": 0.7},
    "model": {"semantic": 4.5, "hybrid": 1.1},
    "imported": {"semantic": 4.5, "hybrid": 1.1},
}
"""Points by which a kind of queries differs from judged questions, where experience does not say
(docs/log/evaluation.md).
"""
FLATTERING: tuple[RungName, ...] = ("model", "imported")
"""Kinds of queries that may flatter an encoder that was trained on their like."""


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate, or the reference: an `encoder`, in hybrid search with its `share` of the
    score (None: RRF).
    """

    name: str
    encoder: str
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is known before anything is measured: candidate → its prior; kind of evidence → by
    how many points it is off.
    """

    priors: Mapping[str, Prior]
    rung_errors: Mapping[str, float]


NOTHING_FORESEEN = Foreseen({}, {})


@dataclass(frozen=True, slots=True)
class RungResult:
    """A rung of the ladder: its queries, how many it would need for the last word, and about how
    many `texts` they are.
    """

    rung: RungName
    queries: int
    needed: int
    texts: int = MIN_QUERIES


@dataclass(frozen=True, slots=True)
class Decision:
    """`chosen`: a candidate, or the reference, and its `standing`.

    `rung`: the one that proved it, or that had the last word; None where none could decide.

    `candidates` are those `measured_on` a rung with so many `queries` (None: nothing was measured).
    `judged_needed`: judged questions that would decide, and show a gain of `judged_points`; None
    where nothing was measured. `preferences`: those that proved it.
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
        """That of the candidate in use; None where the reference stays."""
        return next((one for one in self.candidates if one.in_use), None)

    @property
    def contender(self) -> GateRow | None:
        """The adapted encoder most worth comparing with the reference: the one in use, else what
        will probably gain most, as far as that is known; None where all are excluded.
        """

        def promise(row: GateRow) -> tuple[bool, bool, float]:
            if row.expectation is not None:
                expected = row.expectation.mean
            else:
                expected = 0.0
            if row.difference is not None:
                measured = row.difference.value
            else:
                measured = 0.0
            return row.in_use, row.expectation is not None, expected or measured

        left = [one for one in self.candidates if one.outcome != "excluded" and one.encoder != BASE]
        return max(left, key=promise, default=None)


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
    """Choose between the `reference` and the `candidates`, the one nearest to the reference
    first.

    `preferences`: candidate → what people said of its lists and those of the reference. Without
        `foreseen` priors only a proof
    counts. ValueError where the arrays of a rung differ in length or hold NaN.
    """
    measured = from_top(ladder)
    known = bool(measured) or bool(preferences) or bool(foreseen.priors)
    if not candidates or not known:
        return Decision(mode, reference.name, reference.name, "base", None, 0)
    trials = [_Trial(rung, reference.name, candidates, samples, seed) for rung in measured]
    work = _Gate(mode, trials, reference.name, candidates, foreseen, preferences or {})
    rows = [work.row(one) for one in candidates]
    chosen = work.choose(rows)
    return work.decision(rows, chosen)


class _Trial:
    """The candidates against the reference on one rung, from the same resamples and the same
    tosses.
    """

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
        names = [one.name for one in candidates if one.name in evidence.systems]
        self._column = {name: place for place, name in enumerate(names)}
        if not names:
            return
        clusters = evidence.clusters
        self._gaps = np.stack([evidence.gaps(name, reference) for name in names], axis=1)  # (q, c)
        self._means = bootstrap_means(self._gaps, samples, seed, clusters)  # (samples, c)
        self._p = max_t_p(self._gaps, samples, seed, clusters)
        self._two_sided = randomisation_p(self._gaps, samples, seed, clusters)

    def has(self, name: str) -> bool:
        """Tell whether the candidate was measured."""
        return name in self._column

    def describes(self, name: str) -> bool:
        """Tell whether it says something of a candidate, be it proved or not."""
        return (
            self.rung in CERTIFYING and self.evidence.queries >= MIN_FOR_SPREAD and self.has(name)
        )

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
        found = tested_difference(
            self.gap(name), self._means[:, column], p_value, self.evidence.clusters
        )
        if self.rung in CERTIFYING:
            return found
        return found.unproven()

    def proves(self, name: str, level: float) -> bool:
        """Tell whether the candidate is shown to be better."""
        if not self.has(name) or self.p(name) > level:
            return False
        return self.difference(name).verdict == "better" and self._survives_a_loss(name)

    def harms(self, name: str) -> bool:
        """Tell whether the whole interval lies below 0.

        Judged questions may be as few as two, and about one document.
        """
        enough = self.evidence.independent >= MIN_QUERIES
        if self.rung == "judged":
            enough = self.evidence.queries >= 2
        if not enough or not self.has(name) or self.rung not in CERTIFYING:
            return False
        return bounds(self._means[:, self._column[name]])[1] < 0

    def error(self, name: str) -> float:
        """Return the standard error of the mean in points, had one query more lost everything."""
        count = self.evidence.queries
        variance = spread(self.gap(name), self.evidence.clusters) ** 2
        return 100 * float(np.sqrt((variance + 1 / count) / count))

    def lead(self, best: str, other: str) -> tuple[float, float]:
        """Return by how much one candidate leads another, and the standard error of that."""
        columns = self._column[best], self._column[other]
        lead = float((self._gaps[:, columns[0]] - self._gaps[:, columns[1]]).mean())
        error = float((self._means[:, columns[0]] - self._means[:, columns[1]]).std())
        return lead, error

    def mean(self, name: str) -> float:
        """Return the mean lead in points."""
        return 100 * float(self.gap(name).mean())

    def _survives_a_loss(self, name: str) -> bool:
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
        self._adapted = [one.name for one in candidates if one.encoder != BASE]
        self._foreseen = foreseen
        self._preferences = preferences
        self._proving = self._rungs_that_may_prove()
        asked = len(self._proving) + bool(preferences)
        self._level = LEVEL / max(1, asked)
        rungs = [one.evidence for one in trials]
        self._shown = measured_on(rungs, reference) if rungs else None
        self._proofs = {one.name: self._find_proof(one.name) for one in candidates}

    def _rungs_that_may_prove(self) -> list[_Trial]:
        """From the top down to the first rung that has the last word.

        Judged questions may be there twice: those that measure one candidate, and those that
        measure the others.
        """
        found = []
        last: RungName | None = None
        for trial in self._trials:
            if last is not None and trial.rung != last:
                break
            if trial.evidence.may_prove:
                found.append(trial)
            if trial.evidence.suffices(self._reference):
                last = trial.rung
        return found

    def row(self, option: Option) -> GateRow:
        """Judge one candidate."""
        name = option.name
        if self._shown is not None:
            shown = self._trial_of(self._shown.rung, name)
        else:
            shown = None
        proof = self._proofs[name]
        expectation = self._expectation(name)
        excluded_by = self._excluded_by(name, proof)
        outcome: GateOutcome = "not shown"
        if excluded_by is not None:
            outcome = "excluded"
        elif proof is not None:
            outcome = "proved"
        elif (
            option.encoder != BASE
            and self._is_promising(expectation)
            and not self._is_doubtful(name)
        ):
            outcome = "expected"
        return GateRow(
            name,
            option.encoder,
            option.share,
            shown.difference(name) if shown is not None else None,
            shown.p(name) if shown is not None else 1.0,
            outcome,
            excluded_by=excluded_by,
            expectation=expectation,
        )

    def _is_promising(self, found: Expectation | None) -> bool:
        """Tell whether a gain is to be expected, and by experience: what own evidence alone
        promises is to be proved.
        """
        if found is None or found.average <= 0 or 2 * found.helped <= found.collections:
            return False
        return found.mean > 0 and found.risk < MAX_RISK

    def _is_doubtful(self, name: str) -> bool:
        """Tell whether a kind of evidence that says nothing of a candidate found every other
        adapted one worse.

        People compare one candidate with the reference. If that one is worse, experience is wrong
        about this adaptation, and no reason to use it at another weight or share.
        """
        preferred = [one for one in self._adapted if one in self._preferences]
        if preferred and name not in preferred and all(map(self._is_disliked, preferred)):
            return True
        for rung in dict.fromkeys(trial.rung for trial in self._trials):
            measured = {one: self._trial_of(rung, one) for one in self._adapted}
            harmed = [trial.harms(one) for one, trial in measured.items() if trial is not None]
            if harmed and all(harmed) and measured[name] is None:
                return True
        return False

    def _is_disliked(self, name: str) -> bool:
        """Tell whether people prefer the reference's lists."""
        found = self._preferences.get(name)
        return found is not None and found.wealth_worse >= 1 / LEVEL

    @property
    def _trial_shown(self) -> _Trial | None:
        return next((one for one in self._trials if one.evidence is self._shown), None)

    def _find_proof(self, name: str) -> RungName | None:
        """Return the highest rung that shows a candidate to be better."""
        proofs: list[RungName] = [
            one.rung
            for one in self._proving
            if one.proves(name, self._level) and self._is_beyond_flattery(one, name)
        ]
        preferred = self._preferences.get(name)
        if (
            preferred is not None
            and preferred.wealth_better >= len(self._preferences) / self._level
        ):
            proofs.append("preferred")
        return min(proofs, key=RUNGS.index, default=None)

    def _is_beyond_flattery(self, trial: _Trial, name: str) -> bool:
        """Tell whether a gain is larger than what queries of a kind that was trained on may
        pretend.
        """
        if trial.rung not in FLATTERING:
            return True
        return trial.mean(name) > Z * float(
            np.hypot(trial.error(name), self._rung_error(trial.rung))
        )

    def _rung_error(self, rung: RungName) -> float:
        """Return by how many points a kind of queries is off."""
        if rung == "judged":
            return 0.0
        return self._foreseen.rung_errors.get(rung, RUNG_ERRORS[rung][self._mode])

    def _excluded_by(self, name: str, proof: RungName | None) -> RungName | None:
        """Return the highest rung that shows a candidate to be worse; of one that is proved,
        only if it is above the proof.
        """
        harms: list[RungName] = [one.rung for one in self._trials if one.harms(name)]
        if self._is_disliked(name):
            harms.append("preferred")
        if proof is not None:
            harms = [rung for rung in harms if RUNGS.index(rung) < RUNGS.index(proof)]
        return min(harms, key=RUNGS.index, default=None)

    def _expectation(self, name: str) -> Expectation | None:
        """Update the prior by what every kind of evidence says, each with its own error and that
        of its kind.
        """
        prior = self._foreseen.priors.get(name)
        if prior is None:
            return None
        effect = prior.effect
        for trial in self._trials:
            if trial.describes(name):
                off = self._rung_error(trial.rung)
                effect = effect.updated(trial.mean(name), float(np.hypot(trial.error(name), off)))
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
        """Return the candidate that comes into use; None for the reference.

        The best is what will probably gain most, as far as that is foreseen; without experience the
        best of those proved. Of all within one standard error of it the first is taken, which is
        nearest to the reference (Breiman et al. 1984).
        """
        admitted = [one for one in rows if one.outcome in ("proved", "expected")]
        if any(one.expectation is not None for one in admitted):
            return self._first_within_one_error(admitted)
        if admitted:
            shown = self._proving_trial(admitted[0].name)
        else:
            shown = None
        if shown is None:
            return admitted[0] if admitted else None
        measured = [one for one in admitted if shown.has(one.name)]
        best = max(measured, key=lambda one: shown.mean(one.name))
        for one in measured:
            lead, error = shown.lead(best.name, one.name)
            if lead <= error:
                return one
        return best

    def _first_within_one_error(self, admitted: Sequence[GateRow]) -> GateRow:
        """Return the first candidate whose foreseen gain lies within one standard deviation of
        the best one's.
        """
        best = max(admitted, key=self._foreseen_gain)
        reach = 0.0
        if best.expectation is not None:
            reach = (best.expectation.high - best.expectation.low) / (2 * Z)
        least = self._foreseen_gain(best) - reach
        return next(one for one in admitted if self._foreseen_gain(one) >= least)

    def _foreseen_gain(self, row: GateRow) -> float:
        """Return what a candidate will probably gain; what its proof measured where experience
        does not know it.
        """
        if row.expectation is not None:
            return row.expectation.mean
        trial = self._proving_trial(row.name)
        if trial is not None:
            return trial.mean(row.name)
        return 0.0

    def _trial_of(self, rung: RungName, name: str) -> _Trial | None:
        """Return the trial of a rung that measures a candidate."""
        return next((one for one in self._trials if one.rung == rung and one.has(name)), None)

    def _proving_trial(self, name: str) -> _Trial | None:
        """Return the trial that shows a candidate to be better; None where none, or preferences
        do.
        """
        proof = self._proofs[name]
        if proof is not None:
            return self._trial_of(proof, name)
        return None

    def decision(self, rows: Sequence[GateRow], chosen: GateRow | None) -> Decision:
        """Sum up; the rows are of the rung that proved the candidate in use, else of the one
        that is shown.
        """
        if chosen is not None and chosen.outcome == "proved":
            proof = self._proofs[chosen.name]
        else:
            proof = None
        last_word = next(
            (one for one in self._trials if one.evidence.suffices(self._reference)), None
        )
        rung = proof or (last_word.rung if last_word is not None else None)
        trial = self._described_by(chosen, proof)
        standing: Standing = "base"
        if chosen is not None:
            if chosen.outcome == "proved":
                standing = "proved"
            else:
                standing = "expected"
        shown = [self._as_shown(row, trial, chosen) for row in rows]
        return Decision(
            self._mode,
            chosen.name if chosen is not None else self._reference,
            self._reference,
            standing,
            rung,
            self._queries(proof, trial, chosen),
            tuple(shown),
            self._ladder(),
            self._judged_needed(),
            measured_on=proof or (trial.rung if trial is not None else None),
            preferences=(
                self._preferences[chosen.name]
                if chosen is not None and proof == "preferred"
                else None
            ),
        )

    def _described_by(self, chosen: GateRow | None, proof: RungName | None) -> _Trial | None:
        """Return the trial whose figures describe the decision: the one that proved it; of a
        candidate that is only expected, the highest with enough queries, as lower kinds may
        flatter; else the one that is shown.
        """
        if chosen is None:
            return self._trial_shown
        if proof is not None:
            return self._trial_of(proof, chosen.name) or self._trial_shown
        for trial in self._trials:
            if trial.describes(chosen.name):
                return trial
        return self._trial_shown

    def _ladder(self) -> tuple[RungResult, ...]:
        """Return each rung once, judged questions as those of the candidate that has most of
        them.
        """
        found: dict[RungName, RungResult] = {}
        for trial in self._trials:
            evidence = trial.evidence
            result = RungResult(
                evidence.rung,
                evidence.queries,
                evidence.needed(self._reference),
                evidence.independent,
            )
            found.setdefault(evidence.rung, result)
        return tuple(found.values())

    def _as_shown(self, row: GateRow, described: _Trial | None, chosen: GateRow | None) -> GateRow:
        row = replace(row, in_use=row is chosen)
        if described is not None:
            trial = self._trial_of(described.rung, row.name)
        else:
            trial = None
        if trial is None:
            return row
        return replace(row, difference=trial.difference(row.name), p=trial.p(row.name))

    def _queries(self, proof: RungName | None, trial: _Trial | None, chosen: GateRow | None) -> int:
        if proof == "preferred" and chosen is not None:
            return self._preferences[chosen.name].count
        return trial.evidence.queries if trial is not None else 0

    def _judged_needed(self) -> int | None:
        if self._shown is None:
            return None
        judged = next((one for one in self._trials if one.rung == "judged"), None)
        if judged is not None and judged.evidence.queries >= MIN_FOR_SPREAD:
            return judged.evidence.needed(self._reference, PLANNED)
        # Nobody knows how many of the questions to come a document will have.
        return replace(self._shown, clusters=None).needed(self._reference, PLANNED)
