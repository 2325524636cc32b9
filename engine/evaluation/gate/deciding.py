"""The decision: which candidate replaces the reference, and what is reported of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from engine.core.messages.report import GateRow, SearchMode, Standing
from engine.evaluation.gate.decision import NO_PRIOR_KNOWLEDGE, Decision, Option, PriorKnowledge
from engine.evaluation.gate.ladder import Ladder
from engine.evaluation.gate.rules import Rules
from engine.evaluation.gate.trial import Trial
from engine.evaluation.rungs import Evidence, PreferenceEvidence, RungName
from engine.metrics.bootstrap import SAMPLES


def decide(
    mode: SearchMode,
    ladder: Sequence[Evidence],
    reference: Option,
    candidates: Sequence[Option],
    *,
    prior_knowledge: PriorKnowledge = NO_PRIOR_KNOWLEDGE,
    preferences: Mapping[str, PreferenceEvidence] | None = None,
    samples: int = SAMPLES,
    seed: int = 0,
) -> Decision:
    """Choose between the reference and the candidates, listed nearest to the reference first.

    `preferences` maps a candidate to what people said of its lists and those of the reference.
    Without `prior_knowledge` only a proof counts. Raises ValueError if the arrays of a rung differ
    in length or hold NaN.
    """
    preferences = preferences or {}
    rungs = Ladder(
        ladder,
        reference.name,
        candidates,
        samples,
        seed,
    )
    has_evidence = rungs.trials or preferences or prior_knowledge.priors
    if not candidates or not has_evidence:
        return Decision(
            mode=mode,
            chosen=reference.name,
            reference=reference.name,
            standing="base",
            rung=None,
            queries=0,
        )
    rules = Rules(
        mode,
        rungs,
        candidates,
        prior_knowledge,
        preferences,
    )
    rows = [rules.judge(candidate) for candidate in candidates]
    chosen = _choose(rows, rules)
    name = reference.name
    standing: Standing = "base"
    proof: RungName | None = None
    if chosen is not None:
        name = chosen.name
        standing = "expected"
        if chosen.outcome == "proved":
            standing = "proved"
            proof = rules.proofs[name]
    shown = _find_describing_trial(rungs, chosen, proof)
    decision = Decision(
        mode=mode,
        chosen=name,
        reference=reference.name,
        standing=standing,
        rung=proof or rungs.find_last_word(),
        queries=0 if shown is None else shown.evidence.queries,
        candidates=tuple(_describe_row(row, rungs, shown, row is chosen) for row in rows),
        ladder=rungs.results(),
        judged_needed=rungs.count_judged_needed(),
        measured_on=None if shown is None else shown.rung,
        preferences=preferences[name] if proof == "preferred" else None,
    )
    contender = decision.contender
    if contender is None:
        return decision
    return replace(decision, wealth_needed=rules.wealth_needed(contender.name))


def _choose(rows: Sequence[GateRow], rules: Rules) -> GateRow | None:
    """Return the candidate that comes into use, or None for the reference.

    With experience, this is the one with the largest expected gain. Without, it is the one nearest
    to the reference whose measured gain lies within one standard error of the largest (Breiman et
    al. 1984). Some proofs do not enter expected gains (`Rules.has_separate_proof`): if there is
    one, only proved candidates are considered.
    """
    admitted = [row for row in rows if row.outcome in ("proved", "expected")]
    if any(rules.has_separate_proof(row.name) for row in admitted):
        admitted = [row for row in admitted if row.outcome == "proved"]
    if not admitted:
        return None
    if any(row.expectation is not None for row in admitted):
        return max(admitted, key=lambda row: _expected_gain(row, rules))
    trial = rules.find_proving_trial(admitted[0].name)
    if trial is None:
        return admitted[0]
    measured = [row for row in admitted if trial.has(row.name)]
    best = max(measured, key=lambda row: trial.mean(row.name))
    for row in measured:
        lead, error = trial.lead(best.name, row.name)
        if lead <= error:
            return row
    return best


def _expected_gain(row: GateRow, rules: Rules) -> float:
    """Return a candidate's expected gain in points, else the gain that its proof measured."""
    if row.expectation is not None:
        return row.expectation.mean
    trial = rules.find_proving_trial(row.name)
    if trial is not None:
        return trial.mean(row.name)
    return 0.0


def _find_describing_trial(
    ladder: Ladder, chosen: GateRow | None, proof: RungName | None
) -> Trial | None:
    """Return the trial whose figures describe the decision.

    This is the one that proved the chosen candidate. For a candidate that is only expected, it is
    the highest with enough queries, since lower rungs may flatter. Else it is the one on the rung
    that is shown.
    """
    if chosen is not None and proof is not None:
        trial = ladder.find_trial(proof, chosen.name)
        if trial is not None:
            return trial
    elif chosen is not None:
        for trial in ladder.trials:
            if trial.describes(chosen.name):
                return trial
    return next((trial for trial in ladder.trials if trial.evidence is ladder.shown_evidence), None)


def _describe_row(
    row: GateRow,
    ladder: Ladder,
    shown: Trial | None,
    in_use: bool,
) -> GateRow:
    """Return a candidate's row with its figures on the rung of the trial that is shown, if any."""
    row = replace(row, in_use=in_use)
    trial = None
    if shown is not None:
        trial = ladder.find_trial(shown.rung, row.name)
    if trial is None:
        return row
    return replace(
        row,
        difference=trial.difference(row.name),
        p=trial.p(row.name),
    )
