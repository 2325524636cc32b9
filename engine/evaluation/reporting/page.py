"""The page of a report: what report.json says, with charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.core.assets import asset_path
from engine.core.messages.report import EVIDENCE, SCALE
from engine.core.systems import (
    ADAPTED,
    BASE,
    IN_USE,
    INTERPOLATED,
    WAYS,
    label_of,
    ordered,
    system_of,
    twins,
)
from engine.evaluation.reporting.charts import Bar, Line, bar_chart, change_chart, line_chart
from engine.evaluation.reporting.diagnostics import KINDS
from engine.evaluation.reporting.verdict import gates_of, own_systems_of, query_sets_of, verdict_of

if TYPE_CHECKING:
    from jinja2 import Environment

MAIN = ("ndcg@10", "hit@1", "hit@10", "mrr@10")
"""Metrics whose differences are shown at once; those of the others are folded up."""
PERTURBED = {
    "typo": "mistyped words",
    "mask": "masked words",
    "substitute": "words replaced",
    "corrupt": "words mistyped or replaced",
}
_TEMPLATE = "report/report.html.j2"


def render(
    report: Mapping[str, Any], template: Path | None = None, project: str = "PROJECT"
) -> str:
    """The HTML page of a report as `read_report` gives it. `project`: what commands call it."""
    from markupsafe import Markup

    from engine.core.text import about_count, metric_name

    source = (template or asset_path(_TEMPLATE)).read_text(encoding="utf-8")
    own = own_systems_of(report)
    hidden = twins(own) | _interpolated(report)
    hidden |= {
        f"{way}{IN_USE} − {way}{BASE}" for way in WAYS if f"{way}{BASE}" in own
    }  # nothing differs from itself
    measured = {name for part in report["query_sets"] for name in part["comparison"]["systems"]}
    environment = pages()
    environment.filters |= {
        "about": about_count,
        "metric": metric_name,
        "system": _names(report),
        "label": label_of,
    }
    return environment.from_string(source).render(
        report=report,
        gates=gates_of(report),
        headline=verdict_of(report, project=project),
        scale=SCALE,
        hidden=hidden,
        main=MAIN,
        rungs=EVIDENCE,
        charts={
            name: Markup(svg) for name, svg in _curves(report).items()
        },  # charts.py escapes every label
        flattering={one.kind for one in query_sets_of(report) if one.comparison.synthetic},
        lopsided=[one.comparison.format_lopsided for one in query_sets_of(report)],
        bars=[Markup(_bars(part, report)) for part in report["query_sets"]],
        shifts=[Markup(_shift(part, report)) for part in report["query_sets"]],
        blows={name: Markup(svg) for name, svg in _robustness(report).items()},
        densities=[(name, Markup(svg)) for name, svg in _densities(report)],
        distances=Markup(_distances(report)),
        known=[system_of(name) for name in ordered(measured - hidden)],
        diagnosed=list(
            dict.fromkeys(figure for row in report["diagnostics"].values() for figure in row)
        ),
    )


def pages() -> Environment:
    """What renders pages: all text escaped, templates of assets/report, `figure` for numbers."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(asset_path("report")),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["figure"] = _figure
    found.filters["commas"] = "{:,}".format
    return found


def _interpolated(report: Mapping[str, Any]) -> set[str]:
    """Interpolations, which stand where the gate's choice is explained alone."""
    parts = (
        report["diagnostics"],
        *((report[name] or {}).get("systems", {}) for name in ("similarities", "sentences")),
    )
    return {name for part in parts for name in part if name.startswith(INTERPOLATED)}


def _without(rows: Mapping[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: row for name, row in rows.items() if name not in names}


def _names(report: Mapping[str, Any]) -> Callable[[str], str]:
    """System → how the page calls it."""
    own = own_systems_of(report)

    def name(system: str) -> str:
        marked = system in own and not system.endswith(IN_USE)
        if marked:
            return f"{label_of(system)} (in use)"
        return label_of(system)

    return name


def _bars(query_set: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """nDCG@10: a bar for each system."""
    systems = _without(query_set["comparison"]["systems"], twins(own_systems_of(report)))
    named = _names(report)
    cells = [(name, figures["ndcg@10"]) for name, figures in systems.items()]
    bars = [
        Bar(named(name), cell["value"], cell["low"], cell["high"], _colour(name))
        for name, cell in cells
    ]
    return bar_chart(f"nDCG@10 on {query_set['name']}, percent", bars)


def _shift(query_set: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """How each query's nDCG@10 changed, from the largest gain to the largest loss."""
    base = query_set["comparison"]["base"]
    named = _names(report)
    title = (
        f"Change of nDCG@10 from {named(base)} to {named(query_set['changed_system'])} in semantic"
        " search, query by query"
    )
    order = "queries, from the largest gain to the largest loss"
    return change_chart(
        title, query_set["changes"]["differences"], order, "change of nDCG@10, points"
    )


def _colour(name: str) -> int:
    """BM25, encoders, and each way of fusing them have a colour each."""
    return next(
        (number for number, way in enumerate(("bm25", *WAYS[1:])) if name.startswith(way)), 3
    )


def _curves(report: Mapping[str, Any]) -> dict[str, str]:
    training = report["training"]
    losses = Line("loss", _drawable(training["losses"]), 0)
    held_out = Line("nDCG@10", _drawable(training["held_out"]), 1)
    return {
        "loss": line_chart("Training loss by step", [losses], "step", "loss"),
        "held_out": line_chart("nDCG@10 by step", [held_out], "step", "nDCG@10, percent"),
    }


def _robustness(report: Mapping[str, Any]) -> dict[str, str]:
    """What was done to the queries → nDCG@10 of every system by the number of words that it was
    done to.
    """
    found = report["robustness"]
    named = _names(report)
    charts = {}
    for kind, what in PERTURBED.items() if found else ():
        rows = [row for row in found["rows"] if row["kind"] in ("clean", kind)]
        if len(rows) == 1:
            continue
        lines = []
        for number, system in enumerate(
            _without(rows[0]["systems"], twins(own_systems_of(report)))
        ):
            cells = [(row["words"], row["systems"][system]["ndcg@10"]) for row in rows]
            ends = [(cell["low"], cell["high"]) for _, cell in cells]
            lines.append(
                Line(named(system), [(words, cell["value"]) for words, cell in cells], number, ends)
            )
        charts[kind] = line_chart(
            f"nDCG@10 by {what} per query", lines, f"{what} per query", "nDCG@10, percent"
        )
    return charts


def _densities(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Before and after."""
    if not report["similarities"]:
        return []
    systems = _without(report["similarities"]["systems"], twins(own_systems_of(report)))
    shown = [BASE, *[name for name in (IN_USE, ADAPTED) if name in systems][:1]]
    return density_charts(report["similarities"], {name: label_of(name) for name in shown})


def density_charts(found: Mapping[str, Any], shown: Mapping[str, str]) -> list[tuple[str, str]]:
    """System → its three densities, on axes that all share.

    `found`: as `densities` gave it; `shown`: systems with their names.
    """
    names = {
        "correct": "correct chunks",
        "top": f"best {found['k']} chunks",
        "random": "random chunks",
    }
    systems = found["systems"]
    most = max(max(systems[name][kind]["density"]) for name in shown for kind in KINDS)
    charts = []
    for name, named in shown.items():
        lines = [
            Line(
                names[kind],
                list(zip(found["cosines"], systems[name][kind]["density"], strict=True)),
                colour,
            )
            for kind, colour in zip(KINDS, (1, 2, 0), strict=True)
        ]
        title = f"Density of similarities to correct, best and random chunks: {named}"
        charts.append((name, line_chart(title, lines, "cosine with the query", "density", most)))
    return charts


def _distances(report: Mapping[str, Any]) -> str:
    found = (report["general"] or {}).get("distances")
    if found:
        return distance_chart(found, {name: _names(report)(name) for name in found["systems"]})
    return ""


def distance_chart(found: Mapping[str, Any], shown: Mapping[str, str]) -> str:
    """Densities of the chunks' distances to general knowledge, by the encoders that are `shown`,
    with their names.
    """
    lines = [
        Line(
            named, list(zip(found["axis"], found["systems"][name]["density"], strict=True)), number
        )
        for number, (name, named) in enumerate(shown.items())
    ]
    return line_chart(
        "Density of distances to general knowledge",
        lines,
        "distance to the nearest passage",
        "density",
    )


def _drawable(points: Sequence[Sequence[Any]]) -> list[tuple[float, float]]:
    return [(x, y) for x, y in points if x is not None and y is not None]


def _figure(value: Any, digits: int = 1) -> str:
    """A number for reading; a dash for null."""
    return "–" if value is None else f"{value:.{digits}f}"
