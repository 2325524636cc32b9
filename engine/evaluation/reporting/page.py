"""The HTML page of a report: what report.json says, with charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from engine.core.assets import asset_path
from engine.core.messages.report import EVIDENCE, SCALE
from engine.core.systems import (
    BASE,
    BM25,
    IN_USE,
    WAYS,
    find_twins,
    label_of,
    sort_systems,
    system_of,
)
from engine.evaluation.reporting.charts import Bar, Line, bar_chart, change_chart, line_chart
from engine.evaluation.reporting.verdict import gates_of, own_systems_of, query_sets_of, verdict_of

if TYPE_CHECKING:
    from jinja2 import Environment

MAIN = ("ndcg@10", "hit@1", "hit@10", "mrr@10")
"""Metrics whose differences are shown at once; those of other metrics are in a collapsed part."""


def render(
    report: Mapping[str, Any],
    project: str = "PROJECT",
    lab: str = "",
) -> str:
    """Return the HTML page of a report as `read_report` returns it.

    `project` is what commands call it, `lab` the address of the lab's page, empty without one.
    """
    from markupsafe import Markup

    from engine.core.text import about_count, metric_name

    used_systems = own_systems_of(report)
    hidden = find_twins(used_systems)
    for prefix in WAYS:
        # A base encoder that is in use does not differ from itself.
        if f"{prefix}{BASE}" in used_systems:
            hidden.add(f"{prefix}{IN_USE} − {prefix}{BASE}")
    query_sets = query_sets_of(report)
    measured: set[str] = set()
    for part in report["query_sets"]:
        measured.update(part["comparison"]["systems"])
    environment = build_environment()
    environment.filters |= {
        "about": about_count,
        "metric": metric_name,
        "system": label_systems(report),
        "label": label_of,
    }
    # Charts are safe to insert, because charts.py escapes every label.
    return environment.get_template("report.html.j2").render(
        report=report,
        gates=gates_of(report),
        headline=verdict_of(report, project=project),
        scale=SCALE,
        hidden=hidden,
        main=MAIN,
        rungs=EVIDENCE,
        charts={name: Markup(svg) for name, svg in _draw_training(report).items()},
        flattering={queries.kind for queries in query_sets if queries.comparison.synthetic},
        lopsided=[queries.comparison.lopsided_text for queries in query_sets],
        ranked=[queries.comparison.ranked for queries in query_sets],
        bars=[Markup(_draw_bars(part, report)) for part in report["query_sets"]],
        shifts=[Markup(_draw_changes(part, report)) for part in report["query_sets"]],
        known=[system_of(name) for name in sort_systems(measured - hidden)],
        lab=lab,
    )


@cache
def build_environment() -> Environment:
    """Return the environment of pages: escaped text, templates of assets/report, number filters.

    It is shared, so that a process compiles each template once. A page sets its own filters before
    it is rendered.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(asset_path("report")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    environment.filters["commas"] = "{:,}".format
    return environment


def without(rows: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    """Return `rows` (system → row) without the systems in `names`."""
    return {name: row for name, row in rows.items() if name not in names}


def label_systems(report: Mapping[str, Any]) -> Callable[[str], str]:
    """Return a function from a system to its label on the page."""
    used_systems = own_systems_of(report)

    def label(system: str) -> str:
        if system in used_systems and not system.endswith(IN_USE):
            return f"{label_of(system)} (in use)"
        return label_of(system)

    return label


def _draw_bars(query_set: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Return a chart of nDCG@10 with a bar for each system."""
    systems = without(query_set["comparison"]["systems"], find_twins(own_systems_of(report)))
    label = label_systems(report)
    bars = []
    for name, figures in systems.items():
        cell = figures["ndcg@10"]
        bars.append(Bar(label(name), cell["value"], cell["low"], cell["high"], _colour(name)))
    return bar_chart(f"nDCG@10 on {query_set['name']}, percent", bars)


def _draw_changes(query_set: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Return a chart of each query's change of nDCG@10, from the largest gain to the largest loss.

    The changes are those of the changed system against base.
    """
    label = label_systems(report)
    base = label(query_set["comparison"]["base"])
    changed = label(query_set["changed_system"])
    title = f"Change of nDCG@10 from {base} to {changed} in semantic search, query by query"
    order = "queries, from the largest gain to the largest loss"
    differences = query_set["changes"]["differences"]
    return change_chart(title, differences, order, "change of nDCG@10, points")


def _colour(name: str) -> int:
    """Return a colour for BM25, for each way of fusing it with encoders, and for encoders alone."""
    for number, prefix in enumerate((BM25, *WAYS[1:])):
        if name.startswith(prefix):
            return number
    return 3


def _draw_training(report: Mapping[str, Any]) -> dict[str, str]:
    """Return charts of the training's loss, and of its checks on held-out queries."""
    training = report["training"]
    losses = Line(
        "loss",
        _drawable(training["losses"]),
        0,
    )
    held_out = Line(
        "nDCG@10",
        _drawable(training["held_out"]),
        1,
    )
    return {
        "loss": line_chart("Training loss by step", [losses], "step", "loss"),
        "held_out": line_chart("nDCG@10 by step", [held_out], "step", "nDCG@10, percent"),
    }


def _drawable(points: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    """Return the points without those that have a null (a number that is not finite)."""
    return [(x, y) for x, y in points if x is not None and y is not None]


def _figure(value: Any, digits: int = 1) -> str:
    """Return a number for reading, a dash for null."""
    if value is None:
        return "–"
    return f"{value:.{digits}f}"
