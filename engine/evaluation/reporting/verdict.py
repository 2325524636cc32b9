"""The verdict of a report: for each search mode what is in use and why, on the best evidence
there is, in words for everyone; and the parts of report.json that it goes by, in the form in
which they were measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.core.figures import FigureTable
from engine.core.messages.report import (
    SEARCH_MODES,
    Bar,
    GateRow,
    GateTable,
    ModeVerdict,
    NextStep,
    Outcome,
    QuerySetKind,
    QuerySetReport,
    ReportVerdict,
    SearchMode,
)
from engine.core.messages.wire import from_json
from engine.core.systems import ADAPTED, BASE, BM25, IN_USE, own_systems
from engine.core.text import about_count

SET_OF: Mapping[str, QuerySetKind] = {
    "judged": "judged",
    "preferred": "judged",
    "document": "document",
    "model": "synthetic",
    "imported": "synthetic",
    "extractive": "synthetic",
}
"""Rung of the ladder of evidence → the set that its queries are in."""
HOW = (
    "To search so by default: engine config set PROJECT search.mode keywords (in the app: Ctrl+S,"
    " search.mode)."
)


def query_sets_of(report: Mapping[str, Any]) -> tuple[QuerySetReport, ...]:
    """Of what `read_report` gave."""
    return from_json(tuple[QuerySetReport, ...], report["query_sets"])


def tables_of(report: Mapping[str, Any]) -> dict[str, FigureTable]:
    """Kind of queries (`judged`, `synthetic`) → table, of what `read_report` gave."""
    return {one.kind: one.comparison for one in query_sets_of(report)}


def own_systems_of(report: Mapping[str, Any]) -> tuple[str, ...]:
    """The systems whose rows are those of what is in use, of what `read_report` gave."""
    selection = report["selection"]
    return own_systems(selection["semantic"]["system"], selection["hybrid"]["system"])


def gates_of(report: Mapping[str, Any]) -> dict[SearchMode, GateTable]:
    """What the gate compared with the reference in each mode, of what `read_report` gave."""
    found = {}
    for mode in SEARCH_MODES:
        decision = report["selection"][mode]["decision"]
        if not decision or not decision["candidates"]:
            continue
        rung = decision["rung"] or decision["measured_on"] or ""
        rows = from_json(tuple[GateRow, ...], decision["candidates"])
        found[mode] = GateTable(mode, rung, decision["queries"], rows, decision["rung"] is not None)
    return found


def rung_of(report: Mapping[str, Any], mode: SearchMode) -> str:
    """The kind of evidence that decided in a mode; empty where none did."""
    decision = report["selection"][mode]["decision"] or {}
    return decision.get("rung") or ""


def verdict_of(
    report: Mapping[str, Any], mode: str = "", project: str = "PROJECT"
) -> ReportVerdict:
    """The verdict on what `read_report` gave.

    `mode`: the default search mode now, where it is known; advice that is followed is left out.
        `project`: what commands call it.
    """
    default = mode or report["settings"].get("search", {}).get("mode")
    first: SearchMode = "semantic" if default == "semantic" else "hybrid"
    modes = sorted(SEARCH_MODES, key=lambda one: one != first)
    if report.get("reranker"):
        notes = [str(report["reranker"]["reason"])]
    else:
        notes = []
    if report["advice"] and mode != BM25:
        notes.insert(0, str(report["advice"]).replace("PROJECT", project))
    return ReportVerdict(
        tuple(_mode_verdict(report, one) for one in modes),
        tuple(notes),
        _next_steps(report, project),
    )


def _mode_verdict(report: Mapping[str, Any], mode: SearchMode) -> ModeVerdict:
    """What became of one search mode, with the figures of the queries that it goes by."""
    chosen = report["selection"][mode]
    gate = gates_of(report).get(mode)
    measured = _measured(report, gate)
    outcome: Outcome = "not measured"
    if chosen["standing"] != "base":
        outcome = chosen["standing"]
    elif gate is not None:
        outcome = "stays"
    if measured is None:
        return ModeVerdict(mode, outcome, chosen["encoder"], chosen["reason"])
    if mode == "semantic":
        way = ""
    else:
        way = f"{report['fusion'].get('method', 'weighted')}_"
    adapted = chosen["standing"] != "base"
    bars: tuple[Bar, ...] = ()
    if not measured.comparison.synthetic:
        bars = _bars(measured, way, adapted=adapted)
    after = IN_USE if adapted else ADAPTED
    return ModeVerdict(
        mode,
        outcome,
        chosen["encoder"],
        chosen["reason"],
        measured.kind,
        measured.comparison.queries,
        bars,
        measured.comparison.gap(f"{way}{after}", f"{way}{BASE}"),
    )


def _measured(report: Mapping[str, Any], gate: GateTable | None) -> QuerySetReport | None:
    """The queries that had no part in the choice; else those that the gate went by, or the first
    ones.
    """
    sets = query_sets_of(report)
    apart = next((one for one in sets if one.kind == "measuring"), None)
    if apart is not None:
        return apart
    decisive = SET_OF.get(gate.rung if gate else "")
    return next((one for one in sets if one.kind == decisive), next(iter(sets), None))


def _bars(measured: QuerySetReport, way: str, *, adapted: bool) -> tuple[Bar, ...]:
    """Keywords, before, and now; where the adapted encoder is not used, what it would have
    given.
    """
    after = {BASE: "Before adaptation", IN_USE: "Now in use"}
    if not adapted:
        after = {BASE: "Now in use", ADAPTED: "Adapted, not in use"}
    names = {BM25: "Keywords", **{f"{way}{name}": label for name, label in after.items()}}
    systems = measured.comparison.systems
    return tuple(
        Bar(label, name, systems[name]["ndcg@10"])
        for name, label in names.items()
        if name in systems
    )


def _next_steps(report: Mapping[str, Any], project: str) -> tuple[NextStep, ...]:
    """What to do next, the least effort first."""
    unproved = [mode for mode in SEARCH_MODES if report["selection"][mode]["standing"] != "proved"]
    if not unproved:
        return (
            NextStep("search", "Search as usual, and adapt again when many documents have changed"),
        )
    if not gates_of(report):
        return ()
    # more questions would hardly say anything else
    if all(rung_of(report, mode) == "judged" for mode in unproved):
        what = "Try another encoder, measured on your documents first"
        return (
            NextStep(
                "encoder", what, ("engine encoders", f"engine encoders compare {project} NAME")
            ),
        )
    steps = []
    if not any(row["rung"] in ("model", "imported") for row in _ladder(report)):
        what = (
            "Let a local language model write the training queries, which teach more than sentences"
            " of the documents"
        )
        choose = f"engine config set {project} queries.backend auto"
        steps.append(NextStep("language-model", what, ("engine models add FILE", choose)))
    lists = "Take ten minutes to say which of two lists is better"
    steps.append(NextStep("lists", lists, (f"engine judge {project} --lists",)))
    judge = f"Judge the hits of your own questions{_judged_needed(report)}"
    steps.append(NextStep("judge", judge, (f"engine judge {project} --query QUESTION",)))
    steps.append(NextStep("adapt", "After that, compare again", (f"engine adapt {project}",)))
    return tuple(steps)


def _ladder(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rungs that had queries, of both modes."""
    decisions = [report["selection"][mode]["decision"] or {} for mode in SEARCH_MODES]
    return [row for decision in decisions for row in decision.get("ladder", ())]


def _judged_needed(report: Mapping[str, Any]) -> str:
    """How many judged questions would decide in the mode that needs fewest of those that they
    have not decided in.
    """
    needed: dict[int, float] = {}
    for mode in SEARCH_MODES:
        chosen = report["selection"][mode]
        decision = chosen["decision"] or {}
        if (
            chosen["standing"] != "proved"
            and decision.get("rung") != "judged"
            and decision.get("judged_needed")
        ):
            needed[int(decision["judged_needed"])] = decision["judged_points"]
    if not needed:
        return ""
    fewest = min(needed)
    return f" (about {about_count(fewest)} in all would show a gain of {needed[fewest]:g} points)"


def advice(judged: FigureTable | None, method: str, mode: str) -> str:
    """That keywords be the default search mode, where judged queries show that BM25 alone is
    better; empty where they do not.

    `judged`: the table of judged queries; held-out ones repeat words of the documents and flatter
        BM25.
    `method`: how hybrid search fuses (`rrf` or `weighted`); `mode`: the default search mode.
    """
    system = {"hybrid": f"{method}_{IN_USE}", "semantic": IN_USE}.get(mode)
    if judged and system:
        gap = judged.gap(system, BM25)
    else:
        gap = None
    if judged is None or system is None or gap is None or gap.verdict != "worse":
        return ""
    own, other = (judged.systems[name]["ndcg@10"].value for name in (BM25, system))
    return (
        f"On {judged.queries:,} judged questions keywords alone do better: {own:.1f} of 100, {mode}"
        f" search {other:.1f}. {HOW}"
    )
