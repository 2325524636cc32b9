"""The lab's page and JSON: the figures of `LabFigures` with charts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from engine.core.disk import disk_errors, write_text
from engine.core.systems import ADAPTED, BASE, IN_USE, INTERPOLATED, find_twins, label_of
from engine.evaluation.reporting.charts import Line, line_chart
from engine.evaluation.reporting.page import MAIN, build_environment, label_systems, without
from engine.evaluation.reporting.report import read_report, to_json_types, write_page
from engine.evaluation.reporting.verdict import own_systems_of
from engine.lab.checks.diagnostics import KINDS
from engine.lab.checks.measuring import LabFigures
from engine.project.folder import ProjectFolder
from engine.version import __version__

NAME = "lab"
SCHEMA = 1
PERTURBED = {
    # Kind of condition → title and axis of its chart.
    "typo": "mistyped words",
    "mask": "masked words",
    "substitute": "words replaced",
    "corrupt": "words mistyped or replaced",
}


def write_lab(
    project: ProjectFolder,
    figures: LabFigures,
    report_folder: Path,
) -> dict[str, Any]:
    """Write lab.json and lab.html into the project's `studies`, and return the JSON.

    The report in `report_folder`, of the same encoders, gets a link to the page.
    """
    report = read_report(report_folder)
    data = build_data(
        project.name,
        report,
        figures,
    )
    folder = project.path / "studies"
    with disk_errors("The lab's page could not be written."):
        folder.mkdir(mode=0o700, exist_ok=True)
        text = json.dumps(
            data,
            ensure_ascii=False,
            indent=1,
            allow_nan=False,
        )
        write_text(folder / f"{NAME}.json", text)
        write_text(folder / f"{NAME}.html", render_lab(data, report))
        address = f"../../{folder.name}/{NAME}.html"
        write_page(
            report_folder,
            project=project.argument,
            lab=address,
        )
    return {**data, "folder": str(folder)}


def build_data(
    name: str,
    report: Mapping[str, Any],
    figures: LabFigures,
) -> dict[str, Any]:
    """Return the lab's JSON of the project called `name`; `report` is that of its evaluation."""
    data = {
        "schema": SCHEMA,
        "project": name,
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "hyperbolic": report["settings"]["training"].get("similarity") == "lorentz",
        **asdict(figures),
    }
    json_data: dict[str, Any] = to_json_types(data)
    return json_data


def render_lab(data: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """Return the page of the lab's JSON; `report` is the report of the evaluation."""
    from markupsafe import Markup

    from engine.core.text import about_count, metric_name

    # Twins (systems that equal another one) and interpolations have no columns.
    twins = find_twins(own_systems_of(report))
    names = set(data["diagnostics"])
    for part in ("similarities", "sentences"):
        if data[part]:
            names |= set(data[part]["systems"])
    hidden = twins | {name for name in names if name.startswith(INTERPOLATED)}
    # The figures that any system has, in order.
    diagnosed: dict[str, None] = {}
    for figures in data["diagnostics"].values():
        diagnosed |= dict.fromkeys(figures)
    label = label_systems(report)
    environment = build_environment()
    environment.filters |= {
        "about": about_count,
        "metric": metric_name,
        "system": label,
    }
    # Charts are safe to insert, because charts.py escapes every label.
    return environment.get_template("lab.html.j2").render(
        lab=data,
        hidden=hidden,
        main=MAIN,
        perturbed={
            kind: Markup(svg) for kind, svg in _robustness_charts(data, label, twins).items()
        },
        densities=[(name, Markup(svg)) for name, svg in _density_charts(data, twins)],
        distances=Markup(_distance_chart(data, label)),
        diagnosed=list(diagnosed),
    )


def _robustness_charts(
    data: Mapping[str, Any], label: Callable[[str], str], twins: set[str]
) -> dict[str, str]:
    """Return charts of every system's nDCG@10 by number of changed words, by kind of change."""
    robustness = data["robustness"]
    if not robustness:
        return {}
    charts = {}
    for kind, change in PERTURBED.items():
        rows = [row for row in robustness["rows"] if row["kind"] in ("clean", kind)]
        # Without rows of this kind, only the row of unchanged queries is left.
        if len(rows) == 1:
            continue
        lines = []
        for number, system in enumerate(without(rows[0]["systems"], twins)):
            points = []
            whiskers = []
            for row in rows:
                cell = row["systems"][system]["ndcg@10"]
                points.append((row["words"], cell["value"]))
                whiskers.append((cell["low"], cell["high"]))
            lines.append(Line(label(system), points, number, whiskers))
        title = f"nDCG@10 by {change} per query"
        charts[kind] = line_chart(
            title,
            lines,
            f"{change} per query",
            "nDCG@10, percent",
        )
    return charts


def _density_charts(data: Mapping[str, Any], twins: set[str]) -> list[tuple[str, str]]:
    """Return (system, chart of its similarities) of base and of the encoder after adaptation."""
    if not data["similarities"]:
        return []
    systems = without(data["similarities"]["systems"], twins)
    labels = {BASE: label_of(BASE)}
    for name in (IN_USE, ADAPTED):
        if name in systems:
            labels[name] = label_of(name)
            break
    return density_charts(data["similarities"], labels)


def density_charts(
    densities: Mapping[str, Any], labels: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return (system, chart of its three densities), with the same axes for all systems.

    `densities` is the result of `diagnostics.densities`; `labels` maps each system to show to its
    label.
    """
    names = {
        "correct": "correct chunks",
        "top": f"best {densities['k']} chunks",
        "random": "random chunks",
    }
    colours = {
        "correct": 1,
        "top": 2,
        "random": 0,
    }
    systems = densities["systems"]
    highest = 0.0
    for name in labels:
        highest = max(highest, *(max(systems[name][kind]["density"]) for kind in KINDS))
    charts = []
    for name, label in labels.items():
        lines = []
        for kind in KINDS:
            density = systems[name][kind]["density"]
            points = list(zip(densities["cosines"], density, strict=True))
            lines.append(Line(names[kind], points, colours[kind]))
        title = f"Density of similarities to correct, best and random chunks: {label}"
        charts.append((name, line_chart(title, lines, "cosine with the query", "density", highest)))
    return charts


def _distance_chart(data: Mapping[str, Any], label: Callable[[str], str]) -> str:
    """Return the `distance_chart` of all encoders but interpolations, empty without distances."""
    distances = (data["general"] or {}).get("distances")
    if not distances:
        return ""
    names = [name for name in distances["systems"] if not name.startswith(INTERPOLATED)]
    return distance_chart(distances, {name: label(name) for name in names})


def distance_chart(distances: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """Return a chart of the chunks' distances to general knowledge.

    `labels` maps each encoder to show to its label.
    """
    lines = []
    for number, (name, label) in enumerate(labels.items()):
        density = distances["systems"][name]["density"]
        points = list(zip(distances["axis"], density, strict=True))
        lines.append(Line(label, points, number))
    title = "Density of distances to general knowledge"
    return line_chart(title, lines, "distance to the nearest passage", "density")
