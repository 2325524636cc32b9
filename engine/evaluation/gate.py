"""The gate: something new comes into use only where evidence shows that it helps, and does not make it likely that it harms.

A candidate is admitted where, on the rung that decides (engine/evaluation/evidence.py), semantic search or search in the
project's default mode is shown to be better than with the reference, which is what comes into use otherwise, and search in
the default mode is not likely to lose more than `TOLERANCE` points. p is corrected for the number of candidates and of modes
(single-step max-T, Westfall & Young 1993), and one of both differences is better by the two-sided test, too, which all tables go
by; the risk is the share of bootstrap resamples that lose more. Queries of one document are tossed and drawn together, since
they are not independent. Queries of a higher rung, too few to decide, exclude a candidate that they show to be worse. Of
those admitted the best in the default mode counts, and of all within one standard error of it the first in the given order,
which begins next to the reference (Breiman et al. 1984).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from engine.core.figures import Difference
from engine.core.messages.report import EVIDENCE, LEVEL, GateOutcome, GateRow
from engine.core.systems import system_of
from engine.core.text import about_count
from engine.evaluation.evidence import CERTIFYING, DIFFERENCE, Evidence, RungName, from_top, measured_on
from engine.metrics.bootstrap import SAMPLES, bootstrap_means, bounds
from engine.metrics.differences import MIN_FOR_SPREAD, tested_difference
from engine.metrics.differences import MIN_QUERIES as MIN_TO_EXCLUDE
from engine.metrics.randomisation import max_t_p, randomisation_p

JUDGE = "'engine judge' collects judged questions."
TOLERANCE = 0.3
MAX_RISK = 0.2
PLANNED = 3.5
"""Points that the judged questions asked for would show: somewhat fewer than `DIFFERENCE`, by which they decide, because how much
they vary is known only once they are there."""


@dataclass(frozen=True, slots=True)
class RungResult:
    """A rung of the ladder: its queries, how many it would need to decide, and about how many `texts` they are."""

    rung: RungName
    queries: int
    needed: int
    texts: int = MIN_TO_EXCLUDE


@dataclass(frozen=True, slots=True)
class Decision:
    """`chosen`: a candidate, or the reference. `rung`: the one that decided; None where none has enough queries.

    `candidates` are `measured_on` it, else on one with too few (`evidence.measured_on`). `judged_needed`: judged questions
    that would decide, and show a gain of `judged_points`; None where nothing was measured.
    """

    chosen: str
    reference: str
    rung: RungName | None
    queries: int
    candidates: tuple[GateRow, ...] = ()
    ladder: tuple[RungResult, ...] = ()
    judged_needed: int | None = None
    judged_points: float = DIFFERENCE
    measured_on: RungName | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """The encoder in use: the candidate's name, its interpolation `weight`, and why in a sentence."""

    in_use: str
    weight: float
    reason: str
    decision: Decision


def decide(
    ladder: Sequence[Evidence], reference: str, candidates: Sequence[str], samples: int = SAMPLES, seed: int = 0
) -> Decision:
    """Choose between the `reference` and the `candidates`, the one nearest to the reference first. ValueError where a rung lacks
    one of them, or its arrays differ in length or hold NaN."""
    measured = from_top(ladder)
    if not measured or not candidates:
        return Decision(reference, reference, None, 0)
    rungs = tuple(RungResult(one.rung, one.queries, one.needed(reference), one.independent) for one in measured)
    shown = measured_on(measured, reference)
    decides = shown.suffices(reference)
    comparison = _Comparison(shown, reference, candidates, samples, seed)
    excluded = {
        name: rung.rung
        for rung in reversed([*takewhile(lambda one: one is not shown, measured)])
        for name in candidates
        if rung.independent >= MIN_TO_EXCLUDE and _harms(rung, name, reference, samples, seed)
    }
    results = [comparison.result(name, excluded.get(name), certified=decides) for name in candidates]
    admitted = [one.name for one in results if one.outcome == "admitted"]
    chosen = comparison.first_within_one_error(admitted) if admitted else reference
    outcomes = [replace(one, outcome="in use") if one.name == chosen else one for one in results]
    judged = next((one for one in measured if one.rung == "judged" and one.queries >= MIN_FOR_SPREAD), None)
    asked = judged or replace(shown, clusters=None)  # of the questions to come, nobody knows how many a document has
    return Decision(
        chosen, reference, shown.rung if decides else None, shown.queries, tuple(outcomes), rungs,
        asked.needed(reference, PLANNED), measured_on=shown.rung,
    )  # fmt: skip


class _Comparison:
    """All candidates against the reference on one rung, from the same resamples and the same tosses."""

    def __init__(self, evidence: Evidence, reference: str, names: Sequence[str], samples: int, seed: int) -> None:
        gaps = [evidence.gaps(name, reference) for name in names]
        self._gaps = np.stack([column for one in gaps for column in (one.semantic, one.default)], axis=1)  # (q, 2c)
        self._clusters, self._certifies = evidence.clusters, evidence.rung in CERTIFYING
        self._means = bootstrap_means(self._gaps, samples, seed, self._clusters)
        self._p = max_t_p(self._gaps, samples, seed, self._clusters)
        self._column = {name: 2 * place for place, name in enumerate(names)}
        self._tested = randomisation_p(self._gaps, samples, seed, self._clusters).tolist()

    def result(self, name: str, excluded_by: RungName | None, *, certified: bool) -> GateRow:
        column = self._column[name]
        semantic, default = (
            tested_difference(self._gaps[:, place], self._means[:, place], self._tested[place], self._clusters)
            for place in (column, column + 1)
        )
        if not self._certifies:
            semantic, default = semantic.unproven(), default.unproven()
        p = float(self._p[column : column + 2].min())
        risk = float(np.mean(100 * self._means[:, column + 1] < -TOLERANCE))
        outcome: GateOutcome = "admitted"
        if excluded_by is not None:
            outcome = "excluded"
        elif not certified or p > LEVEL or "better" not in (semantic.verdict, default.verdict):
            outcome = "not shown"
        elif risk >= MAX_RISK or default.harms:
            outcome = "risky"
        return GateRow(name, semantic, default, p, risk, outcome, excluded_by)

    def first_within_one_error(self, names: Sequence[str]) -> str:
        columns = [self._column[name] + 1 for name in names]
        best = max(columns, key=lambda column: float(self._gaps[:, column].mean()))
        for name, column in zip(names, columns, strict=True):
            lead, error = self._gaps[:, best] - self._gaps[:, column], self._means[:, best] - self._means[:, column]
            if float(lead.mean()) <= float(error.std()):
                return name
        raise AssertionError("the best lies within no error of itself")


def _harms(rung: Evidence, name: str, reference: str, samples: int, seed: int) -> bool:
    gaps = rung.gaps(name, reference)
    means = bootstrap_means(np.stack([gaps.semantic, gaps.default], axis=1), samples, seed, rung.clusters)
    return any(bounds(means[:, mode])[1] < 0 for mode in range(2))  # as `Difference.harms` has it


def verdict(
    decision: Decision, kept: str, mode: str, label: Callable[[str], str] = lambda name: system_of(name).what
) -> str:
    """What is in use and why. `kept` names the reference, as in "The base encoder"; `mode` is the default search mode; `label`
    names the candidates."""
    if not decision.candidates:
        return f"{kept} is in use: there are no queries to compare it on."
    if decision.rung is None:
        return f"{kept} stays in use: {_missing(decision)}. {JUDGE}"
    chosen = next((one for one in decision.candidates if one.name == decision.chosen), None)
    measured = f"on {decision.queries:,} {EVIDENCE[decision.rung]}"
    if chosen is not None:
        what = label(chosen.name)
        return f"{what[0].upper()}{what[1:]} is in use: {measured}, {_figures(chosen, mode)}."
    best = max(decision.candidates, key=lambda one: one.default.value)
    why = {
        "not shown": "is worse" if best.default.verdict == "worse" else "is not shown to be better",
        "risky": "may make search worse", "excluded": f"is worse on {EVIDENCE[best.excluded_by or 'judged']}",
    }[best.outcome]  # fmt: skip
    many = f"About {about_count(decision.judged_needed or 0)} {EVIDENCE['judged']}"
    gain = f" {many} would probably show a gain of {decision.judged_points:g} points. {JUDGE}"
    more = "" if decision.rung == "judged" else gain
    return f"{kept} stays in use: {label(best.name)} {why} ({measured}, {_figures(best, mode)}).{more}"


def format_points(gap: Difference) -> str:
    """As a sentence has it: a difference in nDCG@10 with its interval."""
    return f"{gap.value:+.1f} points (95 % interval {gap.low:+.1f} to {gap.high:+.1f})"


def _figures(one: GateRow, mode: str) -> str:
    shown = {"semantic": one.semantic, mode: one.default}
    if one.semantic.low == one.semantic.high == 0:  # fusions: the encoder is one and the same
        del shown["semantic"]
    parts = " and ".join(f"{name} search {format_points(gap)}" for name, gap in shown.items())
    risk = f", {100 * one.risk:.0f} % risk of losing more than {TOLERANCE:g} points" if one.risk >= MAX_RISK else ""
    tested = f"p = {one.p:.3f} after correction for the number of comparisons"
    if one.outcome == "not shown" and one.p <= LEVEL:
        tested += f", but {min(gap.p_value for gap in shown.values()):.3f} in the two-sided test"
    return f"{parts}, {tested}{risk}"


def _missing(decision: Decision) -> str:
    able = {one.rung: one for one in decision.ladder if one.rung in CERTIFYING}
    needed: dict[RungName, int] = {"judged": decision.judged_needed or 0}
    needed |= {rung: one.needed for rung, one in able.items() if rung != "judged"}
    there = {rung: f" (there are {one.queries:,}{_about(one)})" for rung, one in able.items()}
    short = [f"about {about_count(count)} {EVIDENCE[rung]}{there.get(rung, '')}" for rung, count in needed.items()]
    only = "" if able else "; extractive queries prove nothing"
    takes = "With the candidate and the mode that vary most, that takes"
    return f"there are too few queries to show a gain of {DIFFERENCE:g} points. {takes} {' or '.join(short)}{only}"


def _about(one: RungResult) -> str:
    if one.queries < MIN_TO_EXCLUDE or one.texts >= MIN_TO_EXCLUDE:
        return ""
    return f", about {one.texts} document{'s' * (one.texts > 1)}; {MIN_TO_EXCLUDE} are needed"
