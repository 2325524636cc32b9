"""What a change of search gains on a set of queries, to decide whether it is taken over."""

from __future__ import annotations

from engine.core.figures import Difference
from engine.evaluation.query_sets import QuerySet
from engine.evaluation.selection import MIN_QUERIES as MIN_JUDGED
from engine.evaluation.studies.fusion import MIN_QUERIES as MIN_HELD_OUT
from engine.evaluation.studies.fusion import format_points
from engine.evaluation.studies.hybrid import Measure, Rankings
from engine.metrics.differences import paired_difference
from engine.settings.schema import Settings

Gain = tuple[Difference, int]
"""A difference in nDCG@10, in percent, and the number of its queries."""


def measured_gain(
    one: QuerySet, ranking: Rankings, before: Rankings, measure: Measure, settings: Settings
) -> Gain | None:
    """What `ranking` gains over `before` in nDCG@10, both (q, depth); None where no query can be measured.

    Extractive queries do not count: what they show does not hold for questions. Nor do judged ones that no person has asked.
    """
    usable = one.deciding()
    if not usable:
        return None
    judgments = [one.judgments[row] for row in usable]
    gap = paired_difference(
        measure(ranking[usable], judgments), measure(before[usable], judgments),
        settings.evaluation.bootstrap_samples, settings.training.seed,
    )  # fmt: skip
    return gap.percent(), len(usable)


def reason_against(what: str, held_out: Gain | None, judged: Gain | None) -> str:
    """Why a change is not taken over; empty where it does not seem to harm judged queries, nor held-out ones (`Difference.harms`).

    `what`: its name, a plural, as the sentence has it.
    """
    if held_out is None or held_out[1] < MIN_HELD_OUT:
        return f"there are fewer than {MIN_HELD_OUT} held-out queries to try {what} on"
    if why := harm_on_judged(what, judged):
        return why
    if held_out[0].harms:
        return _harm(what, held_out, "held-out")
    return ""


def harm_on_judged(what: str, judged: Gain | None) -> str:
    """Why a change is not taken over where it seems to harm judged queries; empty where it does not, or they are too few."""
    if judged is None or judged[1] < MIN_JUDGED or not judged[0].harms:
        return ""
    return _harm(what, judged, "judged")


def _harm(what: str, gap: Gain, kind: str) -> str:
    return f"{what} {'are' if gap[0].verdict == 'worse' else 'seem to be'} worse on {format_gain(gap, kind)}"


def format_gain(gap: Gain, kind: str) -> str:
    """As a sentence has it: the number of queries, the difference, its interval, and the p of the randomisation test."""
    return f"{gap[1]} {kind} queries, {format_points(gap[0])}"


def held_out_and_judged(gaps: dict[str, Gain | None], settings: Settings) -> tuple[Gain | None, Gain | None]:
    """The gaps on held-out and on judged queries, by kind of the sets; the latter only where they may veto."""
    return gaps.get("synthetic"), gaps.get("judged") if settings.evaluation.veto else None
