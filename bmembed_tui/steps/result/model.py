"""The engine's report, as what the Result step shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.figures import Difference, FigureTable, Interval
from engine.core.messages.project import ProjectStatus
from engine.core.messages.report import EVIDENCE, EvaluationReport, GateTable, QuerySetKind, QuerySetReport
from engine.core.systems import BASE, IN_USE, is_own, ordered, system_of, twins

METRICS = ("ndcg@10", "hit@1", "hit@10", "mrr@10", "recall@10")
VERDICT_SIGNS = {"better": "▲", "worse": "▼", "no difference shown": "=", "proves nothing": "·"}
SET_OF: dict[str, QuerySetKind] = {
    "judged": "judged", "document": "document", "model": "synthetic", "extractive": "synthetic",
}  # fmt: skip
"""Rung of the ladder of evidence → the set that its queries are in."""
FEW = 200  # queries under which a difference of some points may be chance


@dataclass(frozen=True)
class Figure:
    """What a system reaches, in percent, its `gap` to base, and whether it is what is in use."""

    system: str
    interval: Interval
    gap: Difference | None = None
    in_use: bool = False

    @property
    def name(self) -> str:
        """How it is called where there is little room."""
        return system_of(self.system).short


def figures(table: FigureTable, metric: str, own: str = IN_USE) -> list[Figure]:
    """Every system that was measured, once, in a fixed order. `own`: the encoder whose rows are those of what is in use."""
    return [
        Figure(name, table.systems[name][metric], table.differences.get(name, {}).get(metric), is_own(name, own))
        for name in ordered(table.systems.keys() - twins(own))
        if metric in table.systems[name]
    ]


def gate_lines(gate: GateTable, *, short: bool) -> str:
    """What was compared with base to decide what comes into use, a line for each candidate."""

    def gap(found: Difference) -> str:
        return f"{found.value:+.1f}" if short else f"{found.value:+.1f} ({found.low:+.1f} to {found.high:+.1f})"

    lines = [f"Compared with base on {gate.queries} {EVIDENCE[gate.rung]}, in points of nDCG@10:"]
    for row in gate.candidates:
        gaps = {"semantic": gap(row.semantic), gate.mode: gap(row.default)}
        shown = ", ".join(f"{mode} {text}" for mode, text in gaps.items())
        lines.append(f"  {system_of(row.name).short:<10} {shown}: {row.outcome}")
    return "\n".join(lines)


def outdated_because(status: ProjectStatus) -> str:
    """Why the figures, or what search uses, are not those of now; empty where they are."""
    evaluated, embedded = status.stage("evaluate"), status.stage("embed")
    if evaluated.state == "stale":
        return f"To be measured again: {evaluated.reason}."
    if evaluated.state == "done" and embedded.state != "done":
        return f"Search does not use this yet: {embedded.reason}."
    return ""


def caution(queries: QuerySetReport) -> str:
    """Why the figures of these queries may mislead; empty where nothing is known against them."""
    table = queries.comparison
    if queries.kind == "document":
        return "Titles, headings and the like, taken out of the documents before they were asked; nothing was trained on them."
    if queries.kind == "synthetic":
        return (
            "Made from your documents by the same generator as the training queries: they flatter the adapted encoder."
        )
    if table.synthetic:
        return (
            f"{table.synthetic} of these queries were made from your documents: they are easier than what people ask."
        )
    if table.queries < FEW:
        return f"Only {table.queries} judged queries: small differences may be chance."
    return ""


def _decisive(report: EvaluationReport) -> QuerySetReport | None:
    """The queries that the gate went by; the first ones where there was nothing to compare."""
    kind = SET_OF[report.gate.rung] if report.gate else None
    measured = (one for one in report.query_sets if one.kind == kind)
    return next(measured, next(iter(report.query_sets), None))


def hybrid_of(report: EvaluationReport) -> str:
    """One sentence on hybrid search, the usual mode: as it is in use and with base. Empty where it was not measured."""
    measured = _decisive(report)
    if measured is None:
        return ""
    table, names = measured.comparison, (f"{report.fusion}_{BASE}", f"{report.fusion}_{IN_USE}")
    base, own = (table.systems.get(name, {}).get("ndcg@10") for name in names)
    if base is None or own is None:
        return ""
    if report.in_use == BASE:
        return f"Hybrid search, with BM25: {own.value:.1f} nDCG@10."
    text = f"Hybrid search, with BM25: {own.value:.1f} nDCG@10 with what is in use, {base.value:.1f} with base"
    gap = table.gap(names[1], names[0])
    if gap is None:
        return f"{text}."
    return f"{text}: {gap.verdict}, {gap.value:+.1f} ({gap.low:+.1f} to {gap.high:+.1f}, {gap.format_p}){gap.format_needed}."


def verdict_of(report: EvaluationReport) -> tuple[str, str]:
    """(sign, sentence): whether adaptation helped, on the queries that decided what is in use."""
    measured = _decisive(report)
    if report.in_use == BASE:
        now = "search uses the base encoder, untouched."
        if report.gate is None:
            return "=", now.capitalize()
        risky = any(row.outcome == "risky" for row in report.gate.candidates)
        why = "may make search worse" if risky else "was not shown to be better"
        return "=", f"The adapted encoder {why}: {now}"
    gap = measured.comparison.gap(IN_USE, BASE) if measured else None
    if measured is None or gap is None:
        return "=", f"Search uses {system_of(report.in_use).what}."
    interval = f"95 % interval {gap.low:+.1f} to {gap.high:+.1f}, {gap.format_p}"
    by = f"{gap.value:+.1f} nDCG@10 ({interval}) on {measured.comparison.queries} {measured.name}"
    word = {"better": "Adaptation helped", "worse": "Adaptation made it worse"}.get(gap.verdict, "No difference shown")
    now = f"Search uses {system_of(report.in_use).what}."
    return VERDICT_SIGNS[gap.verdict], f"{word}: semantic search {by}{gap.format_needed}. {now}"
