"""The engine's report in the form that step Evaluate shows, made by pure functions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.core.figures import Difference, FigureTable, Interval
from engine.core.messages.project import ProjectStatus
from engine.core.messages.report import Outcome, QuerySetReport
from engine.core.systems import ADAPTED, IN_USE, IN_USE_ALONE, find_twins, sort_systems, system_of

FLATTERING = (
    "Made from your documents: they are easier than what people ask, and flatter the adapted"
    " encoder."
)
STRICTER = (
    "▲ is of one line by itself. What is in use is decided by a stricter test, which allows for the"
    " number of encoders compared and for rare losses."
)
METRICS = (
    "ndcg@10",
    "hit@1",
    "hit@10",
    "mrr@10",
    "recall@10",
)
# By the verdict on a difference.
VERDICT_SIGNS = {
    "better": "▲",
    "worse": "▼",
    "no difference shown": "=",
    "proves nothing": "·",
}


@dataclass(frozen=True)
class Figure:
    """A system's value of a metric, in percent."""

    system: str  # its name in the report, such as `adapted`
    interval: Interval  # the value with its confidence interval
    difference: Difference | None = None  # to the base encoder
    in_use: bool = False  # whether search uses this system

    @property
    def name(self) -> str:
        """The short name, for narrow columns."""
        return system_of(self.system).short


def list_figures(
    table: FigureTable, metric: str, in_use: Collection[str] = IN_USE_ALONE
) -> list[Figure]:
    """Return a figure for every measured system, in a fixed order.

    `in_use`: the names under which `table` has what search uses.
    """
    figures = []
    for name in sort_systems(table.systems.keys() - find_twins(in_use)):
        interval = table.systems[name].get(metric)
        if interval is not None:
            difference = table.differences.get(name, {}).get(metric)
            is_in_use = name in in_use or name.endswith(IN_USE)
            figures.append(Figure(name, interval, difference, is_in_use))
    return figures


def explain_outdated(status: ProjectStatus) -> str:
    """Return why the figures, or what search uses, are out of date; empty where they are not."""
    evaluated = status.stage("evaluate")
    embedded = status.stage("embed")
    if evaluated.state == "stale":
        return f"Out of date: {evaluated.reason}."
    if evaluated.state == "done" and embedded.state != "done":
        return f"Search does not use this yet: {embedded.reason}."
    return ""


def format_caution(queries: QuerySetReport, outcomes: Collection[Outcome]) -> str:
    """Return why the figures of these queries may mislead or look odd; else empty.

    `outcomes`: the outcomes of the verdict's search modes.
    """
    table = queries.comparison
    notes = []
    if table.synthetic:
        notes.append(FLATTERING)
    differences = table.differences.get(ADAPTED, {}).values()
    has_gain = any(difference.verdict == "better" for difference in differences)
    if has_gain and "stays" in outcomes:
        notes.append(STRICTER)
    if table.lopsided_text:
        notes.append(table.lopsided_text)
    return " ".join(notes)
