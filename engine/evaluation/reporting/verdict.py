"""The verdict of a report: whether adaptation helped, on the best evidence there is, in words for everyone; and the parts of
report.json that it goes by, in the form in which they were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.core.figures import FigureTable
from engine.core.messages.report import (
    EVIDENCE,
    KINDS,
    Bar,
    GateRow,
    GateTable,
    Outcome,
    QuerySetKind,
    QuerySetReport,
    ReportVerdict,
)
from engine.core.messages.wire import from_json
from engine.core.systems import ADAPTED, BASE, BM25, IN_USE
from engine.core.text import about_count

SET_OF: Mapping[str, QuerySetKind] = {
    "judged": "judged", "document": "document", "model": "synthetic", "imported": "synthetic", "extractive": "synthetic",
}  # fmt: skip
"""Rung of the ladder of evidence → the set that its queries are in."""
CHANGED: Mapping[str, str] = {
    "better": "search after adaptation is better than before",
    "as good": "no difference is shown between search before and after adaptation",
    "worse": "search after adaptation is worse than before",
}  # fmt: skip

NOT_USED = "The adapted encoder is not used."
HOW = "To search so by default: engine config set PROJECT search.mode keywords (in the app: Ctrl+S, search.mode)."


def query_sets_of(report: Mapping[str, Any]) -> tuple[QuerySetReport, ...]:
    """Of what `read_report` gave."""
    return from_json(tuple[QuerySetReport, ...], report["query_sets"])


def tables_of(report: Mapping[str, Any]) -> dict[str, FigureTable]:
    """Kind of queries (`judged`, `synthetic`) → table, of what `read_report` gave."""
    return {one.kind: one.comparison for one in query_sets_of(report)}


def rung_of(report: Mapping[str, Any]) -> str:
    """The kind of evidence that decided, of what `read_report` gave; empty where none did."""
    decision = (report["selection"] or {}).get("decision") or {}
    return decision.get("rung") or ""


def gate_of(report: Mapping[str, Any]) -> GateTable | None:
    """What the gate compared with base, of what `read_report` gave."""
    decision = (report["selection"] or {}).get("decision") or {}
    if not decision.get("candidates"):
        return None
    mode = (report["settings"].get("search") or {}).get("mode", "hybrid")
    rung = decision["rung"] or decision.get("measured_on") or decision["ladder"][0]["rung"]
    return GateTable(
        rung, decision["queries"], mode if mode == "semantic" else "hybrid",
        from_json(tuple[GateRow, ...], decision["candidates"]), decision["rung"] is not None,
    )  # fmt: skip


def verdict_of(report: Mapping[str, Any], mode: str = "", project: str = "PROJECT") -> ReportVerdict:
    """The verdict on what `read_report` gave. `mode`: the default search mode now, where it is known; advice that is followed is
    left out. `project`: what commands call it."""
    choice = report["selection"] or {}
    gate, sets = gate_of(report), query_sets_of(report)
    adapted = choice.get("in_use", BASE) != BASE
    # Those that the gate went by; the first ones where there was nothing to compare.
    decisive = SET_OF.get(gate.rung if gate else "")
    measured = next((one for one in sets if one.kind == decisive), next(iter(sets), None))
    if measured is None:
        return ReportVerdict(
            sentence="Nothing was measured: there are no questions to measure with.", in_use=_in_use(report),
            to_do=_to_do(report, mode, project),
        )  # fmt: skip
    semantic = not report["fusion"] or report["settings"].get("search", {}).get("mode") == "semantic"
    way = (
        "" if semantic else f"{report['fusion']['method']}_"
    )  # before the name of an encoder that searches in the default mode
    row = next((one for one in gate.candidates if one.name == ADAPTED), None) if gate else None
    outcome: Outcome = _changed(measured, way) if adapted else "stays" if row else "not measured"
    fair = not measured.comparison.synthetic
    bars = _bars(measured, way, adapted=adapted) if fair else ()
    return ReportVerdict(
        outcome, _sentence(outcome, measured, row, bars, rung_of(report)), _in_use(report),
        _to_do(report, mode, project), measured.kind, measured.comparison.queries, bars,
    )  # fmt: skip


def _changed(measured: QuerySetReport, way: str) -> Outcome:
    gap = measured.comparison.gap(f"{way}{IN_USE}", f"{way}{BASE}")
    return "better" if gap and gap.verdict == "better" else "worse" if gap and gap.harms else "as good"


def _bars(measured: QuerySetReport, way: str, *, adapted: bool) -> tuple[Bar, ...]:
    """Keywords, before, and now; where the adapted encoder is not used, what it would have given."""
    after = {BASE: "Before adaptation", IN_USE: "Now in use"}
    if not adapted:
        after = {BASE: "Now in use", ADAPTED: "Adapted, not in use"}
    names = {BM25: "Keywords", **{f"{way}{name}": label for name, label in after.items()}}
    systems = measured.comparison.systems
    return tuple(Bar(label, name, systems[name]["ndcg@10"]) for name, label in names.items() if name in systems)


def _sentence(outcome: Outcome, measured: QuerySetReport, row: GateRow | None, bars: Sequence[Bar], rung: str) -> str:
    figures = [f"{bar.figure.value:.1f}" for bar in bars if bar.system != BM25]
    points = f": {figures[0]} of 100 before, {figures[1]} after" if len(figures) > 1 else ""
    count = measured.comparison.queries
    kind = "imported" if measured.kind == "synthetic" else measured.kind  # others that are synthetic have no bars
    on = f"{count:,} {KINDS[rung or kind][count != 1]}" if bars or rung else ""
    if outcome == "not measured":
        return f"Search is not adapted. On {on} it scores {figures[0]} of 100." if figures else "Search is not adapted."
    if not bars and not rung:
        return "Nobody can say yet whether adaptation helps: there are no questions of your own to measure it with."
    if outcome != "stays" or row is None:
        return f"On {on}, {CHANGED[outcome]}{points}."
    if row.outcome == "not shown" and not rung:
        return f"{on} {'is' if count == 1 else 'are'} too few to say whether adaptation helps{points}. {NOT_USED}"
    if row.outcome == "excluded":
        shown = f" On {on}{points}." if points else ""
        few = EVIDENCE[row.excluded_by or "judged"]
        return f"Adaptation makes search worse on {few}, though they are few. {NOT_USED}{shown}"
    what = "is not shown to make search better" if row.outcome == "not shown" else "may make search worse"
    what = "makes search worse" if row.default.verdict == "worse" else what
    return f"On {on}, adaptation {what}{points}. {NOT_USED}"


def _in_use(report: Mapping[str, Any]) -> str:
    choice, gate = report["selection"] or {}, gate_of(report)
    judged = report["fusion"].get("decision")
    fusion = f" {report['fusion']['reason']}" if judged and judged["chosen"] != judged["reference"] else ""
    fusion += f" {report['reranker']['reason']}" if report.get("reranker") else ""
    if choice.get("in_use", BASE) == BASE:
        now = "Search uses the base encoder. An adapted one is used only once it is shown to be better."
        return (now if gate else str(choice.get("reason", ""))) + fusion
    what = "the adapted encoder" if choice["in_use"] == ADAPTED else "a mix of the encoder before and after adaptation"
    chosen = next((one for one in gate.candidates if one.name == choice["in_use"]), None) if gate else None
    if chosen is None:
        return f"Search uses {what}.{fusion}"
    where = "" if chosen.default.verdict == "better" else " in search by meaning"
    return f"Search uses {what}. It is shown to be better{where} and unlikely to do harm.{fusion}"


def _to_do(report: Mapping[str, Any], mode: str, project: str) -> str:
    decision = (report["selection"] or {}).get("decision") or {}
    if report["advice"] and mode != BM25:
        return str(report["advice"]).replace("PROJECT", project)
    if decision.get("chosen", BASE) != BASE:
        return "Search as usual, and adapt again when many documents have changed."
    if decision.get("rung") == "judged":
        return f"Try another encoder: 'engine encoders' lists them, 'engine encoders compare {project} NAME' compares them."
    count = decision.get("judged_needed")
    many = (
        f"About {about_count(count)} judged questions in all would show a gain of {decision.get('judged_points', 4):g} points"
        if count
        else "They can show whether adaptation helps"
    )
    more = "more questions" if any(one.kind == "judged" for one in query_sets_of(report)) else "questions"
    return (
        f"Judge {more} of your own: mark hits in the app, or run 'engine judge {project} --query QUESTION'. {many}. "
        f"'engine adapt {project}' then compares again."
    )


def advice(judged: FigureTable | None, method: str, mode: str) -> str:
    """That keywords be the default search mode, where judged queries show that BM25 alone is better; empty where they do not.

    `judged`: the table of judged queries; held-out ones repeat words of the documents and flatter BM25.
    `method`: how hybrid search fuses (`rrf` or `weighted`); `mode`: the default search mode.
    """
    system = {"hybrid": f"{method}_{IN_USE}", "semantic": IN_USE}.get(mode)
    gap = judged.gap(system, BM25) if judged and system else None
    if judged is None or system is None or gap is None or gap.verdict != "worse":
        return ""
    own, other = (judged.systems[name]["ndcg@10"].value for name in (BM25, system))
    return f"On {judged.queries:,} judged questions keywords alone do better: {own:.1f} of 100, {mode} search {other:.1f}. {HOW}"
