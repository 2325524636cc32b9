"""The engine's report, as what the step Evaluate shows. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.core.figures import Difference, FigureTable, Interval
from engine.core.messages.project import ProjectStatus
from engine.core.messages.report import Outcome, QuerySetReport
from engine.core.systems import ADAPTED, IN_USE, IN_USE_ALONE, ordered, system_of, twins

FLATTERING = (
    "Made from your documents: they are easier than what people ask, and flatter the adapted"
    " encoder."
)
STRICTER = (
    "▲ is of one line by itself. What is in use is decided by a stricter test, which allows for the"
    " number of encoders compared and for rare losses."
)
METRICS = ("ndcg@10", "hit@1", "hit@10", "mrr@10", "recall@10")
VERDICT_SIGNS = {"better": "▲", "worse": "▼", "no difference shown": "=", "proves nothing": "·"}


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


def figures(table: FigureTable, metric: str, own: Collection[str] = IN_USE_ALONE) -> list[Figure]:
    """Every system that was measured, once, in a fixed order.

    `own`: the systems whose rows are those of what is in use.
    """
    return [
        Figure(
            name,
            table.systems[name][metric],
            table.differences.get(name, {}).get(metric),
            _is_in_use(name, own),
        )
        for name in ordered(table.systems.keys() - twins(own))
        if metric in table.systems[name]
    ]


def _is_in_use(name: str, own: Collection[str]) -> bool:
    return name in own or name.endswith(IN_USE)


def outdated_because(status: ProjectStatus) -> str:
    """Why the figures, or what search uses, are not those of now; empty where they are."""
    evaluated = status.stage("evaluate")
    embedded = status.stage("embed")
    if evaluated.state == "stale":
        return f"Out of date: {evaluated.reason}."
    if evaluated.state == "done" and embedded.state != "done":
        return f"Search does not use this yet: {embedded.reason}."
    return ""


def caution(queries: QuerySetReport, outcomes: Collection[Outcome]) -> str:
    """Why the figures of these queries may mislead or look odd; empty where nothing is known
    against them.

    `outcomes`: of the verdict, by search mode.
    """
    table = queries.comparison
    flatters = table.synthetic
    gained = any(gap.verdict == "better" for gap in table.differences.get(ADAPTED, {}).values())
    strict = STRICTER if gained and "stays" in outcomes else ""
    return " ".join(filter(None, (FLATTERING if flatters else "", strict, table.format_lopsided)))
