"""What a decision of the gate means, in a sentence."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.figures import Difference
from engine.core.messages.report import EVIDENCE, Expectation, GateRow
from engine.core.systems import ADAPTED, BASE
from engine.core.text import about_count
from engine.evaluation.evidence import CERTIFYING, DIFFERENCE, PreferenceEvidence, RungName
from engine.evaluation.gate import FLATTERING, TOLERANCE, Decision, RungResult
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

Label = Callable[[GateRow], str]


def label_of_row(row: GateRow) -> str:
    """Return what a sentence calls a candidate, such as "the adapted encoder (60 % meaning, 40 %
    keywords)".
    """
    what = label_of_encoder(row.encoder)
    if row.share is None:
        return what
    meaning = round(100 * row.share)
    return f"{what} ({meaning} % meaning, {100 - meaning} % keywords)"


def label_of_encoder(name: str) -> str:
    """Return what a sentence calls an encoder."""
    mixed = "a mix of the base and the adapted encoder"
    return {BASE: "the base encoder", ADAPTED: "the adapted encoder"}.get(name, mixed)


def reason(
    decision: Decision,
    kept: str = "the base encoder",
    subject: str = "",
    label: Label = label_of_row,
) -> str:
    """Say what is in use in a search mode and why.

    `kept` names the reference; `subject` begins the sentence.
    """
    subject = subject or SUBJECTS[decision.mode]
    row = decision.row
    if row is None:
        return f"{subject} keeps {kept}: {why_kept(decision, label)}."
    what = label(row)
    if decision.standing == "proved" and decision.rung is not None:
        proof = f"{decision.queries:,} {EVIDENCE[decision.rung]}"
        if decision.preferences is not None:
            return (
                f"{subject} uses {what}: proved on"
                f" {proof}{format_preferences(decision.preferences)}."
            )
        return f"{subject} uses {what}: proved on {proof}{format_gain(row)}."
    expectation = row.expectation
    assert expectation is not None, "a candidate that is not proved is in use by experience"
    return (
        f"{subject} uses {what} because it {format_experience(expectation)}; not yet proved on your"
        f" documents{format_measured(decision, row)}."
    )


def format_experience(found: Expectation) -> str:
    """Say what experience shows, such as "helped on five of six public collections (+4.0 points
    on average)".
    """
    many = _number(found.collections)
    text = (
        f"helped on {_number(found.helped)} of {many} public collections ({found.average:+.1f}"
        " points on average)"
    )
    if found.widened:
        text += ", with another encoder or another amount of training"
    return text


def format_gain(row: GateRow) -> str:
    """Return words such as ", better by 6.7 points (95 % interval 3.9 to 9.6)"; empty where
    nothing was measured.
    """
    gap = row.difference
    if gap is None:
        return ""
    return f", better by {gap.value:.1f} points (95 % interval {gap.low:.1f} to {gap.high:.1f})"


def format_preferences(found: PreferenceEvidence) -> str:
    """Return words such as " (30 for it, 6 against it, 4 undecided)"."""
    text = f"{found.wins:,} for it, {found.losses:,} against it"
    undecided = found.count - found.wins - found.losses
    if undecided:
        text += f", {undecided:,} undecided"
    return f" ({text})"


def format_measured(decision: Decision, row: GateRow) -> str:
    """Say what the documents say of a candidate that they do not prove."""
    if row.difference is None or decision.measured_on not in CERTIFYING:
        return ""
    return (
        f" (on {decision.queries:,} {EVIDENCE[decision.measured_on]}:"
        f" {format_points(row.difference)})"
    )


def format_points(gap: Difference) -> str:
    """Return a difference in nDCG@10 with its interval."""
    return f"{gap.value:+.1f} points, 95 % interval {gap.low:+.1f} to {gap.high:+.1f}"


def why_kept(decision: Decision, label: Label = label_of_row) -> str:
    """Say why the reference stays in use."""
    rows = [row for row in decision.candidates if row.difference is not None]
    if not decision.candidates:
        return "there is nothing to compare it with"
    best = max(
        rows,
        key=lambda row: row.difference.value if row.difference else 0.0,
        default=decision.candidates[-1],
    )
    disliked = [row for row in decision.candidates if row.excluded_by == "preferred"]
    if disliked:
        best = disliked[0]
    if best.outcome == "excluded" and best.excluded_by is not None:
        return f"{label(best)} is worse on {EVIDENCE[best.excluded_by]}"
    if decision.rung is None:
        return missing(decision)
    gap = best.difference
    if gap is not None:
        figures = f" ({format_points(gap)})"
    else:
        figures = ""
    why = (
        f"{label(best)} is not proved to be better on {decision.queries:,}"
        f" {EVIDENCE[decision.rung]}{figures}"
    )
    if gap is not None and gap.low > 0:
        why += f": {why_not_enough(decision.rung)}"
    if best.expectation is not None:
        why += (
            f", and the risk of losing more than {TOLERANCE:g} points is"
            f" {100 * best.expectation.risk:.0f} %"
        )
    return why


def why_not_enough(rung: RungName) -> str:
    """Say why a gain whose interval lies above 0 proves nothing."""
    if rung in FLATTERING:
        return "queries of a kind that was trained on may flatter by as much"
    return "several candidates were compared, of which one may be ahead by chance"


def missing(decision: Decision) -> str:
    """Say which queries a decision lacks."""
    able = {one.rung: one for one in decision.ladder if one.rung in CERTIFYING}
    needed: dict[RungName, int] = {"judged": decision.judged_needed or 0}
    needed |= {rung: one.needed for rung, one in able.items() if rung != "judged"}
    short = [
        f"about {about_count(count)} {EVIDENCE[rung]}{_there(able.get(rung))}"
        for rung, count in needed.items()
    ]
    if able:
        only = ""
    else:
        only = "; extractive queries prove nothing"
    return (
        f"there are too few queries to show a gain of {DIFFERENCE:g} points, which would take"
        f" {' or '.join(short)}{only}"
    )


def _there(one: RungResult | None) -> str:
    """Say how many queries of a rung there are."""
    if one is None:
        return ""
    text = f" (there are {one.queries:,}"
    if one.queries >= MIN_QUERIES > one.texts:
        text += f", about {one.texts} document{'s' * (one.texts > 1)}; {MIN_QUERIES} are needed"
    return f"{text})"


def _number(count: int) -> str:
    if count < len(NUMBERS):
        return NUMBERS[count]
    return str(count)
