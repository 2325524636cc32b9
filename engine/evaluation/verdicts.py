"""Sentences about what the gate decided."""

from __future__ import annotations

from collections.abc import Callable

from engine.core.figures import Difference
from engine.core.messages.report import EVIDENCE, GateRow
from engine.core.systems import system_of
from engine.core.text import about_count
from engine.evaluation.evidence import CERTIFYING, DIFFERENCE, RungName
from engine.evaluation.gate import MAX_RISK, TOLERANCE, Decision

JUDGE = "'engine judge' collects judged questions."


def verdict(
    decision: Decision, kept: str, mode: str, label: Callable[[str], str] = lambda name: system_of(name).what
) -> str:
    """What is in use and why. `kept` names the reference, as in "The base encoder"; `mode` is the default search mode; `label`
    names the candidates."""
    if not decision.candidates:
        return f"{kept} is in use: there are no queries to compare it on."
    chosen = next((one for one in decision.candidates if one.name == decision.chosen), None)
    measured = f"on {decision.queries:,} {EVIDENCE[decision.rung or decision.ladder[0].rung]}"
    if chosen is not None:
        what = label(chosen.name)
        return f"{what[0].upper()}{what[1:]} is in use: {measured}, {_figures(chosen, mode)}."
    if decision.rung is None:
        return f"{kept} stays in use: {_missing(decision)}. {JUDGE}"
    best = max(decision.candidates, key=lambda one: one.default.value)
    why = {
        "not shown": "is worse" if best.default.verdict == "worse" else "shows no gain", "risky": "may make search worse",
        "excluded": f"is worse on {EVIDENCE[best.excluded_by or 'judged']}",
    }[best.outcome]  # fmt: skip
    count = about_count(decision.judged_needed or 0)
    needed = f" About {count} {EVIDENCE['judged']} would probably show a gain of {DIFFERENCE:g} points. {JUDGE}"
    more = "" if decision.rung == "judged" else needed
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
    return f"{parts}, p = {one.p:.3f} after correction for the number of comparisons{risk}"


def _missing(decision: Decision) -> str:
    able = {one.rung: one for one in decision.ladder if one.rung in CERTIFYING}
    needed: dict[RungName, int] = {"judged": decision.judged_needed or 0}
    needed |= {rung: one.needed for rung, one in able.items() if rung != "judged"}
    there = {rung: f" (there are {one.queries:,})" for rung, one in able.items()}
    short = [f"about {about_count(count)} {EVIDENCE[rung]}{there.get(rung, '')}" for rung, count in needed.items()]
    only = "" if able else "; extractive queries prove nothing"
    return f"there are too few queries to show a gain of {DIFFERENCE:g} points of nDCG@10. That takes {' or '.join(short)}{only}"
