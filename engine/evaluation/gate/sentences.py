"""Sentences that explain a decision of the gate to users."""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.core.figures import Difference
from engine.core.messages.report import EVIDENCE, FLATTERING, Expectation, GateRow
from engine.core.systems import ADAPTED, BASE
from engine.core.text import about_count
from engine.evaluation.gate.decision import Decision, RungResult
from engine.evaluation.gate.rules import TOLERANCE, USEFUL_GAIN, find_shortfall
from engine.evaluation.rungs import (
    CERTIFYING,
    DIFFERENCE,
    MIN_TO_PROVE,
    PreferenceEvidence,
    RungName,
)
from engine.metrics.differences import MIN_QUERIES

NUMBERS = (
    "none",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)
SUBJECTS = {"semantic": "Semantic search", "hybrid": "Hybrid search"}

OTHER_TRAINING = "with another encoder or another amount of training"
"""How experience was gathered if it differs from the project's training (`Prior.widened`)."""

Label = Callable[[GateRow], str]
"""Returns what sentences call a candidate."""


def label_of_row(row: GateRow) -> str:
    """Return a candidate's label, such as "the adapted encoder (60 % meaning, 40 % keywords)"."""
    encoder = label_of_encoder(row.encoder)
    if row.share is None:
        return encoder
    meaning = round(100 * row.share)
    return f"{encoder} ({meaning} % meaning, {100 - meaning} % keywords)"


def label_of_encoder(name: str) -> str:
    """Return what a sentence calls an encoder."""
    labels = {BASE: "the base encoder", ADAPTED: "the adapted encoder"}
    return labels.get(name, "a mix of the base and the adapted encoder")


def explain_decision(
    decision: Decision, reference: str = "the base encoder", label: Label = label_of_row
) -> str:
    """Say which encoder a search mode uses and why. `reference` is what to call the reference."""
    subject = SUBJECTS[decision.mode]
    row = decision.row
    if row is None:
        return f"{subject} keeps {reference}: {why_kept(decision, label)}."
    if decision.standing == "proved" and decision.rung is not None:
        count = decision.queries
        detail = format_gain(row)
        if decision.preferences is not None:
            count = decision.preferences.count
            detail = format_preferences(decision.preferences)
        evidence = f"{count:,} {EVIDENCE[decision.rung]}"
        return f"{subject} uses {label(row)}: proved on {evidence}{detail}."
    expectation = row.expectation
    assert expectation is not None, "a candidate that is not proved is in use by experience"
    return (
        f"{subject} uses {label(row)} because it {format_experience(expectation)}; not yet proved"
        f" on your documents{format_measured(decision, row)}."
    )


def format_experience(expectation: Expectation) -> str:
    """Return words such as "helped on five of six public collections (+4.0 points on average)"."""
    helped = _spell_number(expectation.helped)
    collections = _spell_number(expectation.collections)
    text = (
        f"helped on {helped} of {collections} public collections"
        f" ({expectation.average:+.1f} points on average)"
    )
    if expectation.widened:
        text += f", {OTHER_TRAINING}"
    return text


def format_gain(row: GateRow) -> str:
    """Return words such as ", better by 6.7 points (95 % interval 3.9 to 9.6)".

    Empty if nothing was measured.
    """
    gap = row.difference
    if gap is None:
        return ""
    return f", better by {gap.value:.1f} points (95 % interval {gap.low:.1f} to {gap.high:.1f})"


def format_preferences(preferences: PreferenceEvidence) -> str:
    """Return words such as " (30 for it, 6 against it, 4 undecided)"."""
    text = f"{preferences.wins:,} for it, {preferences.losses:,} against it"
    undecided = preferences.count - preferences.wins - preferences.losses
    if undecided:
        text += f", {undecided:,} undecided"
    return f" ({text})"


def format_measured(decision: Decision, row: GateRow) -> str:
    """Say what a candidate measured on the documents, if that does not prove it."""
    if row.difference is None or decision.measured_on not in CERTIFYING:
        return ""
    evidence = f"{decision.queries:,} {EVIDENCE[decision.measured_on]}"
    text = f"on {evidence}: {format_points(row.difference)}"
    if row.difference.low > 0:
        text += f"; {why_not_enough(decision.measured_on, decision.queries)}"
    return f" ({text})"


def format_points(gap: Difference) -> str:
    """Return a difference in nDCG@10 with its interval."""
    return f"{gap.value:+.1f} points, 95 % interval {gap.low:+.1f} to {gap.high:+.1f}"


def why_kept(decision: Decision, label: Label = label_of_row) -> str:
    """Say why the reference stays in use."""
    if not decision.candidates:
        return "there is nothing to compare it with"
    best = _best_candidate(decision)
    if best.outcome == "excluded" and best.excluded_by is not None:
        return f"{label(best)} did worse on {EVIDENCE[best.excluded_by]}"
    if decision.rung is None:
        return describe_missing(decision)
    why = (
        f"{label(best)} is not proved to be better on {decision.queries:,}"
        f" {EVIDENCE[decision.rung]}"
    )
    gap = best.difference
    if gap is not None:
        why += f" ({format_points(gap)})"
    if gap is not None and gap.low > 0:
        why += f": {why_not_enough(decision.rung, decision.queries)}"
    shortfall = _explain_shortfall(best)
    if shortfall:
        why += f", and {shortfall}"
    for row in decision.candidates:
        if row.excluded_by is not None and row.encoder != BASE:
            return f"{why}; {label(row)} did worse on {EVIDENCE[row.excluded_by]}"
    return why


def _explain_shortfall(row: GateRow) -> str:
    """Say why experience does not bring a candidate into use.

    Empty for the base encoder with another share, since experience is about adaptation, and if
    evidence about another candidate is the reason.
    """
    expectation = row.expectation
    if expectation is None or row.encoder == BASE:
        return ""
    match find_shortfall(expectation):
        case "risk":
            risk = 100 * expectation.risk
            text = f"the risk of losing more than {TOLERANCE:g} points is {risk:.0f} %"
        case "collections":
            helped = _spell_number(expectation.helped)
            collections = _spell_number(expectation.collections)
            text = f"it helped on only {helped} of {collections} public collections"
        case "average":
            text = "public collections did not gain by it on average"
        case "gain":
            text = f"less than {USEFUL_GAIN:g} points are expected of it"
        case None:
            return ""
    if expectation.widened:
        text += f" (experience was gathered {OTHER_TRAINING})"
    return text


def _best_candidate(decision: Decision) -> GateRow:
    """Return the first candidate that people dislike, else the one that measured best."""
    best = decision.candidates[-1]
    best_gain = -math.inf
    for row in decision.candidates:
        if row.excluded_by == "preferred":
            return row
        if row.difference is not None and row.difference.value > best_gain:
            best = row
            best_gain = row.difference.value
    return best


def why_not_enough(rung: RungName, queries: int) -> str:
    """Say why a gain whose interval lies above 0 proves nothing."""
    if queries < MIN_TO_PROVE:
        return f"fewer than {MIN_TO_PROVE} prove nothing"
    if rung in FLATTERING:
        return "queries of a kind that was trained on may flatter by as much"
    return "several candidates were compared, of which one may be ahead by chance"


def describe_missing(decision: Decision) -> str:
    """Say how many queries of which kinds would decide.

    Queries that may flatter are left out: no number of them would prove a gain of that size.
    """
    results = {result.rung: result for result in decision.ladder if result.rung in CERTIFYING}
    needed: dict[RungName, int] = {"judged": decision.judged_needed or 0}
    for rung, result in results.items():
        if rung != "judged" and rung not in FLATTERING:
            needed[rung] = result.needed
    wanted = []
    for rung, count in needed.items():
        wanted.append(
            f"about {about_count(count)} {EVIDENCE[rung]}{_format_existing(results.get(rung))}"
        )
    text = (
        f"there are too few queries to show a gain of {DIFFERENCE:g} points, which would take"
        f" {' or '.join(wanted)}"
    )
    if not results:
        text += "; extractive queries prove nothing"
    return text


def _format_existing(result: RungResult | None) -> str:
    """Say how many queries of a rung exist, and of how many documents if these are too few."""
    if result is None:
        return ""
    verb = "is" if result.queries == 1 else "are"
    text = f" (there {verb} {result.queries:,}"
    if result.queries >= MIN_QUERIES > result.texts:
        plural = "s" * (result.texts > 1)
        text += f", on only {result.texts} document{plural}; {MIN_QUERIES} documents are needed"
    return f"{text})"


def _spell_number(count: int) -> str:
    """Return a number in words up to twelve, else in digits."""
    if count < len(NUMBERS):
        return NUMBERS[count]
    return str(count)
