"""The engine's report, as what the Result step shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.core.figures import Difference, FigureTable, Interval
from engine.core.messages.project import EvaluationReport
from engine.core.systems import BASE, IN_USE

METRICS = ("ndcg@10", "hit@1", "hit@10", "mrr@10", "recall@10")
VERDICT_SIGNS = {"better": "▲", "worse": "▼", "no difference shown": "="}
FEW = 200  # queries under which a difference of some points may be chance


@dataclass(frozen=True)
class Figure:
    """What a system reaches, in percent, and its `gap` to base. `name`: how the engine calls it where there is little room."""

    system: str
    interval: Interval
    gap: Difference | None = None
    name: str = ""


@dataclass(frozen=True)
class Change:
    """A query that is answered better or worse than by base: nDCG@10 before and after, in percent."""

    text: str
    before: float
    after: float


@dataclass(frozen=True)
class QuerySet:
    """One set of queries with known answers. `kind`: judged or synthetic. `fusion`: how hybrid search fuses its rankings.

    `names`: system → what the engine calls it, in the order in which they are shown. `better`, `worse` and `counts` are of the
    system `changed` against base: the adapted one where base is in use.
    """

    name: str
    kind: str
    table: FigureTable
    better: tuple[Change, ...]
    worse: tuple[Change, ...]
    counts: tuple[int, int, int]
    fusion: str = "rrf"
    changed: str = IN_USE
    names: Mapping[str, str] = field(default_factory=dict)

    def figures(self, metric: str) -> list[Figure]:
        """Every system that was measured, in a fixed order; hybrid ones as search fuses the rankings."""
        other, systems = "rrf_" if self.fusion == "weighted" else "weighted_", self.table.systems
        return [
            Figure(
                name,
                systems[name][metric],
                self.table.differences.get(name, {}).get(metric),
                self.names.get(name, name),
            )
            for name in {**self.names, **systems}
            if not name.startswith(other) and metric in systems.get(name, {})
        ]

    @property
    def caution(self) -> str:
        if self.kind != "judged":
            return "Made from your documents by the same generator as the training queries: they flatter the adapted encoder."
        if self.table.synthetic:
            return f"{self.table.synthetic} of these queries were made from your documents: they are easier than what people ask."
        if self.table.queries < FEW:
            return f"Only {self.table.queries} judged queries: small differences cannot be told from chance."
        return ""


@dataclass(frozen=True)
class Result:
    """What was found, what is in use, and why. `plain`: the system that is what is in use, without hubness correction; empty where
    search has none. `advice`: what to set otherwise, if there is something."""

    in_use: str
    reason: str
    sets: tuple[QuerySet, ...]
    folder: str
    created: str
    plain: str = ""
    advice: str = ""


def result_from(answer: EvaluationReport) -> Result:
    """From the answer to the request `report`."""
    report = answer.report
    joined = report.get("fusion") or {}
    fusion = str(joined.get("method", "rrf"))
    names = {name: system.short for name, system in answer.systems.items()}
    sets = tuple(_query_set(one, fusion, names) for one in report["query_sets"])
    return Result(
        str(report["selection"]["in_use"]), answer.reason, sets, str(answer.folder), str(report["created"]),
        str(joined.get("plain_system") or ""), str(report.get("advice") or ""),
    )  # fmt: skip


def hybrid_of(queries: QuerySet, in_use: str) -> str:
    """One sentence on hybrid search, the usual mode: as it is in use and with base. Empty where it was not measured."""
    names = f"{queries.fusion}_{BASE}", f"{queries.fusion}_{IN_USE}"
    base, own = (queries.table.systems.get(name, {}).get("ndcg@10") for name in names)
    if base is None or own is None:
        return ""
    if in_use == BASE:
        return f"Hybrid search, with BM25: {own.value:.1f} nDCG@10."
    text = f"Hybrid search, with BM25: {own.value:.1f} nDCG@10 with what is in use, {base.value:.1f} with base"
    gap = queries.table.gap(names[1], names[0])
    if gap is None:
        return f"{text}."
    return f"{text}: {gap.verdict}, {gap.value:+.1f} ({gap.low:+.1f} to {gap.high:+.1f}, {gap.format_p}){gap.format_needed}."


def _query_set(data: Mapping[str, Any], fusion: str, names: Mapping[str, str]) -> QuerySet:
    changes = data["changes"]
    return QuerySet(
        str(data["name"]), str(data["kind"]), FigureTable.from_dict(data["comparison"]), _changes(changes["better"]),
        _changes(changes["worse"]), (int(changes["count_better"]), int(changes["count_worse"]), int(changes["count_equal"])),
        fusion, str(data.get("changed_system") or IN_USE), names,
    )  # fmt: skip


def _changes(rows: Any) -> tuple[Change, ...]:
    return tuple(Change(str(row["text"]), float(row["before"]), float(row["after"])) for row in rows)


def verdict_of(result: Result) -> tuple[str, str]:
    """(sign, sentence): whether adaptation helped, on the judged queries where there are some, else on the held-out ones."""
    sign, sentence = _verdict(result)
    return sign, sentence + (" Chunks that are near to every query count less." if result.plain else "")


def _verdict(result: Result) -> tuple[str, str]:
    judged = next((one for one in result.sets if one.kind == "judged" and one.table.queries), None)
    measured = judged or next(iter(result.sets), None)
    if result.in_use == BASE:
        encoder = "the base encoder" if result.plain else "the base encoder, untouched"
        return "=", f"The adapted encoder was not shown to be better: search uses {encoder}."
    gap = measured.table.gap(result.plain or IN_USE, BASE) if measured else None
    if measured is None or gap is None:
        return "=", f"Search uses {result.in_use}."
    count, interval = measured.table.queries, f"95 % interval {gap.low:+.1f} to {gap.high:+.1f}, {gap.format_p}"
    sign = VERDICT_SIGNS[gap.verdict]
    if measured.kind == "judged" and gap.verdict == "no difference shown":
        shown = (
            f"On {count} judged ones no difference is shown: {gap.value:+.1f} nDCG@10 ({interval}){gap.format_needed}."
        )
        return sign, f"Search uses {result.in_use}: better on held-out queries. {shown}"
    word = {"better": "Adaptation helped", "worse": "Adaptation made it worse"}.get(gap.verdict, "No difference shown")
    by = f"{gap.value:+.1f} nDCG@10 ({interval}) on {count} {measured.name}"
    return sign, f"{word}: {by}{gap.format_needed}. Search uses {result.in_use}."
