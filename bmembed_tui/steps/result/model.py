"""The engine's report, as what the Result step shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.figures import Difference, FigureTable, Interval
from engine.core.messages.project import ProjectStatus
from engine.core.messages.report import EVIDENCE, GateTable, QuerySetReport
from engine.core.systems import IN_USE, is_own, ordered, system_of, twins

METRICS = ("ndcg@10", "hit@1", "hit@10", "mrr@10", "recall@10")
VERDICT_SIGNS = {"better": "▲", "worse": "▼", "no difference shown": "=", "proves nothing": "·"}
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
