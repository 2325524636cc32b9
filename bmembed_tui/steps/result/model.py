"""The engine's report, as what the Result step shows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from engine.core.messages.project import EvaluationReport

METRICS = ("ndcg@10", "hit@1", "hit@10", "mrr@10", "recall@10")
VERDICT_SIGNS = {"better": "▲", "worse": "▼", "no difference shown": "="}
MILLION = 1_000_000
FEW = 200  # queries under which a difference of some points may be chance


@dataclass(frozen=True)
class Figure:
    """A system's figure in percent with its 95 % interval; `gap`: the same of its difference to base, with a verdict
    and the randomisation test's p, None in reports of before. `needed`: where no difference is shown, at how many queries one as
    large would be; None where that is not known.

    `name`: how the engine calls the system where there is little room.
    """

    system: str
    value: float
    low: float
    high: float
    gap: float | None = None
    gap_low: float = 0.0
    gap_high: float = 0.0
    verdict: str = ""
    p_value: float | None = None
    needed: int | None = None
    name: str = ""


@dataclass(frozen=True)
class Change:
    """A query that is answered better or worse than by base: nDCG@10 before and after, in percent."""

    text: str
    before: float
    after: float


@dataclass(frozen=True)
class QuerySet:
    """One set of queries with known answers. `kind`: judged or synthetic, and `synthetic`: how many are. `fusion`: how hybrid
    search joins its rankings.

    `names`: system → what the engine calls it, in the order in which they are shown.
    `pairs`: "one system − another" → metric → difference. `better`, `worse` and `counts` are of the system `changed` against
    base: the adapted one where base is served.
    """

    name: str
    kind: str
    queries: int
    left_out: int
    systems: Mapping[str, Any]
    differences: Mapping[str, Any]
    better: tuple[Change, ...]
    worse: tuple[Change, ...]
    counts: tuple[int, int, int]
    fusion: str = "rrf"
    changed: str = "served"
    names: Mapping[str, str] = field(default_factory=dict)
    synthetic: int = 0
    pairs: Mapping[str, Any] = field(default_factory=dict)

    def figures(self, metric: str) -> list[Figure]:
        """Every system that was measured, in a fixed order; hybrid ones as search fuses the rankings."""
        other = "rrf_" if self.fusion == "weighted" else "weighted_"
        names = [name for name in {**self.names, **self.systems} if not name.startswith(other)]
        return [self._figure(name, metric) for name in names if metric in self.systems.get(name, {})]

    def _figure(self, name: str, metric: str) -> Figure:
        own, gap = self.systems[name][metric], self.differences.get(name, {}).get(metric)
        found = Figure(name, own["value"], own["low"], own["high"], name=self.names.get(name, name))
        if gap is None:
            return found
        shown = {"gap": gap["value"], "gap_low": gap["low"], "gap_high": gap["high"], "p_value": gap.get("p_value"),
                 "needed": gap.get("needed")}  # fmt: skip
        return replace(found, **shown, verdict=str(gap["verdict"]))

    @property
    def caution(self) -> str:
        if self.kind != "judged":
            return "Made from your documents by the same generator as the training queries: they flatter the adapted encoder."
        if self.synthetic:
            return f"{self.synthetic} of these queries were made from your documents: they are easier than what people ask."
        if self.queries < FEW:
            return f"Only {self.queries} judged queries: small differences cannot be told from chance."
        return ""


@dataclass(frozen=True)
class Result:
    """What was found, what is served, and why. `plain`: the system that is what is served without taking off what makes chunks near
    to every query; empty where search does not take that off. `advice`: what to set otherwise, if there is something."""

    served: str
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


def hybrid_of(queries: QuerySet, served_name: str) -> str:
    """One sentence on hybrid search, the usual mode: with the served encoder and with base. Empty where it was not measured."""
    found = {figure.system: figure for figure in queries.figures("ndcg@10")}
    base, served = found.get(f"{queries.fusion}_base"), found.get(f"{queries.fusion}_served")
    if base is None or served is None:
        return ""
    if served_name == "base":
        return f"Hybrid search, with BM25: {served.value:.1f} nDCG@10."
    found_gap = queries.pairs.get(f"{queries.fusion}_served − {queries.fusion}_base", {}).get("ndcg@10")
    text = f"Hybrid search, with BM25: {served.value:.1f} nDCG@10 with what is served, {base.value:.1f} with base"
    return f"{text}: {_format_gap(found_gap)}." if found_gap else f"{text}."


def _format_gap(gap: Mapping[str, Any]) -> str:
    chance = _chance(gap.get("p_value"))
    return f"{gap['verdict']}, {gap['value']:+.1f} ({gap['low']:+.1f} to {gap['high']:+.1f}{chance})" + _needed(
        gap.get("needed")
    )


def _query_set(data: Mapping[str, Any], fusion: str, names: Mapping[str, str]) -> QuerySet:
    comparison, changes = data["comparison"], data["changes"]
    return QuerySet(
        str(data["name"]), str(data["kind"]), int(comparison["queries"]), int(comparison.get("left_out", 0)),
        comparison["systems"], comparison["differences"], _changes(changes["better"]), _changes(changes["worse"]),
        (int(changes["count_better"]), int(changes["count_worse"]), int(changes["count_equal"])), fusion,
        str(data.get("changed_system") or "served"), names, int(comparison["synthetic"]),
        comparison.get("pairs") or {},
    )  # fmt: skip


def _changes(rows: Any) -> tuple[Change, ...]:
    return tuple(Change(str(row["text"]), float(row["before"]), float(row["after"])) for row in rows)


def verdict_of(result: Result) -> tuple[str, str]:
    """(sign, sentence): whether adaptation helped, on the judged queries where there are some, else on the held-out ones."""
    sign, sentence = _verdict(result)
    return sign, sentence + (" Chunks that are near to every query count less." if result.plain else "")


def _chance(p_value: float | None) -> str:
    return "" if p_value is None else ", p < 0.001" if p_value < 0.001 else f", p = {p_value:.3f}"


def _needed(queries: int | None) -> str:
    if queries is None:
        return ""
    return f"; {'over a million' if queries > MILLION else f'about {queries:,}'} queries would show one as large"


def _verdict(result: Result) -> tuple[str, str]:
    judged = next((one for one in result.sets if one.kind == "judged" and one.queries), None)
    measured = judged or next(iter(result.sets), None)
    if result.served == "base":
        served = "the base encoder" if result.plain else "the base encoder, untouched"
        return "=", f"The adapted encoder was not shown to be better: search serves {served}."
    system = result.plain or "served"
    figure = next((one for one in measured.figures("ndcg@10") if one.system == system), None) if measured else None
    if measured is None or figure is None or figure.gap is None:
        return "=", f"Search serves {result.served}."
    needed = _needed(figure.needed)
    interval = f"95 % interval {figure.gap_low:+.1f} to {figure.gap_high:+.1f}{_chance(figure.p_value)}"
    by = f"{figure.gap:+.1f} nDCG@10 ({interval}) on {measured.queries} {measured.name}"
    if measured.kind == "judged" and figure.verdict == "no difference shown":
        shown = "Search serves {}: better on held-out queries. On {} judged ones no difference is shown: {:+.1f} nDCG@10 ({}){}."
        text = shown.format(result.served, measured.queries, figure.gap, interval, needed)
        return VERDICT_SIGNS[figure.verdict], text
    words = {"better": "Adaptation helped", "worse": "Adaptation made it worse"}
    word = words.get(figure.verdict, "No difference shown")
    return VERDICT_SIGNS.get(figure.verdict, "="), f"{word}: {by}{needed}. Search serves {result.served}."
