"""The verdict of a report: for each search mode what is in use and why, in words for everyone.

It reads the parts of report.json that it is based on as the dataclasses that wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.figures import FigureTable
from engine.core.messages.report import (
    FLATTERING,
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
"""The query set of each rung of the ladder of evidence."""
SEARCH_BY_KEYWORDS = (
    "To search so by default: engine config set PROJECT search.mode keywords (in the app: Ctrl+S,"
    " search.mode)."
)


def query_sets_of(report: Mapping[str, Any]) -> tuple[QuerySetReport, ...]:
    """Return the query sets of a report that `read_report` returned."""
    return from_json(tuple[QuerySetReport, ...], report["query_sets"])


def tables_of(report: Mapping[str, Any]) -> dict[str, FigureTable]:
    """Return the table of each kind of queries (`judged`, `synthetic`) of a report."""
    return {queries.kind: queries.comparison for queries in query_sets_of(report)}


def own_systems_of(report: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the systems of a report that are in use, in semantic and hybrid search."""
    selection = report["selection"]
    return own_systems(selection["semantic"]["system"], selection["hybrid"]["system"])


def gates_of(report: Mapping[str, Any]) -> dict[SearchMode, GateTable]:
    """Return what the gate compared with the reference in each mode of a report."""
    gates = {}
    for mode in SEARCH_MODES:
        decision = report["selection"][mode]["decision"]
        if not decision or not decision["candidates"]:
            continue
        rows = from_json(tuple[GateRow, ...], decision["candidates"])
        gates[mode] = GateTable(
            mode=mode,
            rung=decision["measured_on"] or "",
            queries=decision["queries"],
            candidates=rows,
            decided=decision["rung"] is not None,
        )
    return gates


def deciding_rung(report: Mapping[str, Any], mode: SearchMode) -> str:
    """Return the kind of evidence that had the last word in a mode, empty if none had."""
    decision = report["selection"][mode]["decision"] or {}
    return decision.get("rung") or ""


def verdict_of(
    report: Mapping[str, Any], mode: str = "", project: str = "PROJECT"
) -> ReportVerdict:
    """Return the verdict on a report that `read_report` returned.

    `mode` is the present default search mode, if known; advice already followed is left out.
    `project` is what commands call it.
    """
    default = mode or report["settings"].get("search", {}).get("mode")
    modes: list[SearchMode] = ["hybrid", "semantic"]
    if default == "semantic":
        modes.reverse()
    notes = []
    if report["advice"] and mode != BM25:
        notes.append(str(report["advice"]).replace("PROJECT", project))
    if report.get("reranker"):
        notes.append(str(report["reranker"]["reason"]))
    # All sets are ranked among the same passages.
    query_sets = query_sets_of(report)
    samples = dict.fromkeys(queries.comparison.sample_text for queries in query_sets)
    notes += filter(None, samples)
    return ReportVerdict(
        tuple(_judge_mode(report, query_sets, name) for name in modes),
        tuple(notes),
        _list_next_steps(report, project),
    )


def _judge_mode(
    report: Mapping[str, Any], query_sets: Sequence[QuerySetReport], mode: SearchMode
) -> ModeVerdict:
    """Return the verdict on one search mode, with the figures of the queries it is based on."""
    chosen = report["selection"][mode]
    gate = gates_of(report).get(mode)
    measured = _find_measured_set(query_sets, gate)
    is_adapted = chosen["standing"] != "base"
    outcome: Outcome = "not measured"
    if is_adapted:
        outcome = chosen["standing"]
    elif gate is not None:
        outcome = "stays"
    if measured is None:
        return ModeVerdict(
            mode,
            outcome,
            chosen["encoder"],
            chosen["reason"],
        )
    prefix = ""
    if mode == "hybrid":
        prefix = f"{report['fusion'].get('method', 'weighted')}_"
    bars: tuple[Bar, ...] = ()
    if not measured.comparison.synthetic:
        bars = _build_bars(
            measured,
            prefix,
            is_adapted=is_adapted,
        )
    after = IN_USE if is_adapted else ADAPTED
    return ModeVerdict(
        mode=mode,
        outcome=outcome,
        encoder=chosen["encoder"],
        sentence=chosen["reason"],
        kind=measured.kind,
        queries=measured.comparison.queries,
        bars=bars,
        difference=measured.comparison.gap(f"{prefix}{after}", f"{prefix}{BASE}"),
    )


def _find_measured_set(
    query_sets: Sequence[QuerySetReport], gate: GateTable | None
) -> QuerySetReport | None:
    """Return the queries that had no part in the choice, else the deciding ones, else the first."""
    wanted = ["measuring"]
    if gate is not None and gate.rung in SET_OF:
        wanted.append(SET_OF[gate.rung])
    for kind in wanted:
        for queries in query_sets:
            if queries.kind == kind:
                return queries
    return next(iter(query_sets), None)


def _build_bars(
    measured: QuerySetReport,
    prefix: str,
    *,
    is_adapted: bool,
) -> tuple[Bar, ...]:
    """Return bars of keyword search, and of a mode's encoders before and after adaptation.

    `prefix` begins the names of the systems of the search mode, such as `weighted_`. `is_adapted`:
    the adapted encoder is in use.
    """
    labels = {BM25: "Keywords"}
    if is_adapted:
        labels[f"{prefix}{BASE}"] = "Before adaptation"
        labels[f"{prefix}{IN_USE}"] = "Now in use"
    else:
        labels[f"{prefix}{BASE}"] = "Now in use"
        labels[f"{prefix}{ADAPTED}"] = "Adapted, not in use"
    systems = measured.comparison.systems
    bars = []
    for name, label in labels.items():
        if name in systems:
            bars.append(Bar(label, name, systems[name]["ndcg@10"]))
    return tuple(bars)


def _list_next_steps(report: Mapping[str, Any], project: str) -> tuple[NextStep, ...]:
    """Return what to do next, the least effort first."""
    unproved = [mode for mode in SEARCH_MODES if report["selection"][mode]["standing"] != "proved"]
    if not unproved:
        what = "Search as usual, and adapt again when many documents have changed"
        return (NextStep("search", what),)
    if not gates_of(report):
        return ()
    # If judged questions have decided, more of them would hardly say anything else.
    if all(deciding_rung(report, mode) == "judged" for mode in unproved):
        what = "Try another encoder, measured on your documents first"
        commands = ("engine encoders", f"engine encoders compare {project} NAME")
        return (NextStep("encoder", what, commands),)
    steps = []
    # A language model's queries, or imported ones, would be on the ladder.
    if not any(row["rung"] in FLATTERING for row in _list_rungs(report)):
        what = (
            "Let a local language model write the training queries, which teach more than sentences"
            " of the documents"
        )
        choose = f"engine config set {project} queries.backend auto"
        steps.append(NextStep("language-model", what, ("engine models add FILE", choose)))
    lists = "Take ten minutes to say which of two lists is better, for questions of your own"
    compare = f"engine judge {project} --lists"
    if len(unproved) == 1:
        compare += f" --mode {unproved[0]}"
    steps.append(NextStep("lists", lists, (f"{compare} --queries FILE",)))
    judge = f"Judge the hits of your own questions{_format_needed(report)}"
    steps.append(NextStep("judge", judge, (f"engine judge {project} --query QUESTION",)))
    steps.append(NextStep("adapt", "After that, compare again", (f"engine adapt {project}",)))
    return tuple(steps)


def _list_rungs(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the rungs that had queries, of both modes."""
    rows: list[Mapping[str, Any]] = []
    for mode in SEARCH_MODES:
        decision = report["selection"][mode]["decision"] or {}
        rows += decision.get("ladder", ())
    return rows


def _format_needed(report: Mapping[str, Any]) -> str:
    """Say how many judged questions would decide, in the undecided mode that needs fewest."""
    points_by_count: dict[int, float] = {}
    for mode in SEARCH_MODES:
        chosen = report["selection"][mode]
        decision = chosen["decision"] or {}
        is_decided = chosen["standing"] == "proved" or decision.get("rung") == "judged"
        needed = decision.get("judged_needed")
        if needed and not is_decided:
            points_by_count[int(needed)] = decision["judged_points"]
    if not points_by_count:
        return ""
    fewest = min(points_by_count)
    points = points_by_count[fewest]
    return f" (about {about_count(fewest)} in all would show a gain of {points:g} points)"


def advice(
    judged: FigureTable | None,
    method: str,
    mode: str,
) -> str:
    """Return the advice to search by keywords if judged queries show that BM25 alone is better.

    `judged` is the table of judged queries; held-out ones repeat words of the documents and flatter
    BM25. `method` is how hybrid search fuses (`rrf` or `weighted`), `mode` the default search mode.
    """
    system = {"hybrid": f"{method}_{IN_USE}", "semantic": IN_USE}.get(mode)
    if judged is None or system is None:
        return ""
    gap = judged.gap(system, BM25)
    if gap is None or gap.verdict != "worse":
        return ""
    keywords = judged.systems[BM25]["ndcg@10"].value
    present = judged.systems[system]["ndcg@10"].value
    return (
        f"On {judged.queries:,} judged questions keywords alone do better: {keywords:.1f} of 100,"
        f" {mode} search {present:.1f}. {SEARCH_BY_KEYWORDS}"
    )
