"""The files of a study.

NAME.json holds everything, NAME.html shows it in one self-contained page, and NAME.csv and NAME.tex
hold its table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import StatisticsError, correlation
from typing import Any

from engine.core.disk import disk_errors, write_text
from engine.evaluation.reporting.charts import Bar, Line, gap_chart, line_chart
from engine.evaluation.reporting.page import build_environment
from engine.evaluation.reporting.report import to_json_types
from engine.lab.checks.page import density_charts, distance_chart
from engine.lab.study.catalogue import STEP, UNTRAINED, Chart, Study
from engine.lab.study.grid import Cell
from engine.lab.study.measures import (
    ALL,
    SUBSTITUTE,
    WIDTH,
    Values,
    number,
    over_seeds,
    value_of,
)
from engine.lab.study.tables import column_name, shown, write_csv, write_latex
from engine.version import __version__

SCHEMA = 2
COLOURS = {"better": 3, "worse": 2}
OF_SIMILARITIES = ("alignment", "accuracy@", "nDCG@", "COE", "ROE", "threshold", "ψ of τ")
"""Prefixes of columns that cover the same queries as densities."""
MASKED_ONLY = (
    "Masking only: no language model could be asked for synonyms. "
    "Set queries.backend to one that writes queries, and repeat."
)
SHIPPED_TEXT = "the passages that ship with the program"
MeasuredCells = Sequence[tuple[Cell, Mapping[str, Any], Mapping[str, Any] | None]]
"""Cells, each with its facts for the page, and its figures if it is finished."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Base `model`, `training` and `system` are empty if there is only one. `changes` are those of the
    training, `values` are by column, and `reason` says why values are missing.
    """

    model: str
    training: str
    system: str
    changes: Mapping[str, Any]
    values: Values
    reason: str = ""

    @property
    def label(self) -> str:
        """The label in tables and charts."""
        return _joined(self.model, self.training, self.system)


def _joined(*parts: str) -> str:
    return " · ".join(filter(None, parts))


def rows_of(study: Study, cells: MeasuredCells) -> list[Row]:
    """Return a row for each system of each training, averaged over its seeds.

    Systems that no training changes have one row for each model.
    """
    trainings: dict[tuple[str, str], list[tuple[Cell, Mapping[str, Values]]]] = {}
    reasons: dict[tuple[str, str], str] = {}
    for cell, _, kept in cells:
        if kept:
            trainings.setdefault((cell.model, cell.label), []).append((cell, kept["rows"]))
            if kept.get("reason"):
                reasons[cell.model, cell.label] = kept["reason"]
    many = len({cell.model for cell, _, _ in cells}) > 1
    rows: dict[tuple[str, str, str], Row] = {}
    for (model, training), seeds in trainings.items():
        for system, label in study.systems.items():
            untrained = system.partition(",")[0] in UNTRAINED
            own = "" if untrained else training
            values = [found[system] for _, found in seeds if system in found]
            if not values and (untrained or "," in system or study.by == "black box"):
                continue
            if untrained:
                reason = ""
            else:
                reason = reasons.get((model, training), "")
            if values:
                mean = over_seeds(values)
            else:
                mean = {}
            shown = {column: value_of(mean, column) for column in study.measures}
            if shown.get(STEP) is None and STEP not in study.columns:
                shown.pop(STEP, None)
            row = rows.setdefault(
                (model, own, system),
                Row(model if many else "", own, label, seeds[0][0].changes, shown, reason),
            )
            # A cell without an adapter measures less about base.
            row.values.update(
                {name: one for name, one in shown.items() if row.values.get(name) is None}
            )
    return list(rows.values())


def write_study(
    folder: Path, project: str, study: Study, facts: Mapping[str, Values], cells: MeasuredCells
) -> dict[str, Any]:
    """Write NAME.json, .html, .csv and .tex into `folder`; return the JSON, with its `folder`.

    `general_text`: the name of the general text, if the study measures with it. `rows`: the parts
    of each row, its `label`, and `values`: column → {value, low, high}, with a verdict for a
    difference; intervals are over queries or, if there are `seeds`, over trainings. The `reason` of
    a row says why nothing was trained. `facts`: rows about the project as it is. `cells`: `number`,
    `label`, `model`, `seed`, `changes`, `same_as` (the cell that trains exactly the same), `error`
    and, for a finished cell, `seconds` by stage and `reason`. Raises ResourceError if the disk is
    full.
    """
    rows = [Row("", "", label, {}, values) for label, values in facts.items()] + rows_of(
        study, cells
    )
    basis = next(
        (kept["similarities"] for _, _, kept in cells if kept and kept.get("similarities")), None
    )
    general_text = next(
        (kept.get("general_text") for _, _, kept in cells if kept and "general_text" in kept), None
    )
    kept_keys = ("seconds", "reason")
    columns = [
        one for one in study.measures if any(row.values.get(one) is not None for row in rows)
    ]
    data = {
        "schema": SCHEMA,
        "project": project,
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **study.model_dump(include={"name", "source", "shows", "differs"}),
        "columns": columns,
        "finished": sum(kept is not None for _, _, kept in cells),
        "rows": [{**asdict(row), "label": row.label} for row in rows],
        "correlations": [
            {"of": pair, "r": _correlation(rows, pair)} for pair in study.correlations
        ],
        "similarities_of": (
            basis
            and {
                "columns": [
                    one
                    for one in columns
                    if one.startswith(OF_SIMILARITIES) and not one.endswith((WIDTH, ALL))
                ],
                "name": basis["name"],
                "queries": basis["queries"],
            }
        ),
        "notes": [MASKED_ONLY] if _lacks_synonyms(study, rows) else [],
        "general_text": (
            (general_text or SHIPPED_TEXT) if _uses_general_text(study) and cells else None
        ),
        "cells": [
            {**asdict(cell), **known, **{key: (kept or {}).get(key) for key in kept_keys}}
            for cell, known, kept in cells
        ],
    }
    found: dict[str, Any] = to_json_types(data)
    charts = [svg for chart in study.charts for svg in _drawn(chart, study, rows, cells) if svg]
    with disk_errors("The page of the study could not be written."):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(
            folder / f"{study.name}.json",
            json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False),
        )
        write_text(folder / f"{study.name}.html", _render(found, charts))
        write_text(folder / f"{study.name}.csv", write_csv(found))
        write_text(folder / f"{study.name}.tex", write_latex(found))
    return {**found, "folder": str(folder)}


def _lacks_synonyms(study: Study, rows: Sequence[Row]) -> bool:
    """Return whether the study has columns for synonyms but no synonyms were available."""
    labels = {label for system, label in study.systems.items() if f", {SUBSTITUTE}" in system}
    measured = any(row.system in labels or row.values.get("substituted") for row in rows)
    return bool(labels or study.facts == "perturbed") and bool(rows) and not measured


def _uses_general_text(study: Study) -> bool:
    """Return whether questions or passages of general knowledge are measured."""
    names = [*study.columns, *(chart.kind for chart in study.charts)]
    return any(name.removeprefix("Δ ").startswith(("general ", "distance")) for name in names)


def _correlation(rows: Sequence[Row], pair: Sequence[str]) -> float | None:
    """Return Pearson's r of two columns, or None for fewer than three rows."""
    points = [[number(row.values[name]) for name in pair] for row in rows]
    known = [point for point in points if None not in point]
    if len(known) < 3:
        return None
    try:
        return correlation(*zip(*known, strict=True))
    except StatisticsError:
        # A column is constant.
        return 0.0


def _render(found: Mapping[str, Any], charts: Sequence[str]) -> str:
    from markupsafe import Markup

    page = build_environment()
    page.filters |= {"shown": shown, "measure": column_name}
    drawn = [Markup(svg) for svg in charts]  # The module charts escapes every label.
    return page.get_template("study.html.j2").render(study=found, charts=drawn)


def _drawn(chart: Chart, study: Study, rows: Sequence[Row], cells: MeasuredCells) -> Iterator[str]:
    """Yield the charts of a kind as SVG, empty if there is nothing to draw."""
    x_name = chart.x.partition("|")[0]
    y_name = chart.y.partition("|")[0]
    measured = [(row, y) for row in rows if (y := number(row.values.get(chart.y))) is not None]
    match chart.kind:
        case "line":
            inverse = "1/" if x_name.startswith("1/") else ""
            name = x_name.partition(".")[2].replace("_", " ")
            yield line_chart(
                f"{y_name} by {inverse}{name}", _series(chart, measured), inverse + name, y_name
            )
        case "scatter":
            points = [(row.label, number(row.values[chart.x]), y) for row, y in measured]
            dots = [
                Line(name, [(x, y)], at) for at, (name, x, y) in enumerate(points) if x is not None
            ]
            yield line_chart(f"{y_name} by {x_name}", dots, x_name, y_name)
        case "gap":
            gaps = [(row.label, row.values[chart.y]) for row, _ in measured if row.training]
            bars = [
                Bar(
                    label, gap["value"], gap["low"], gap["high"], COLOURS.get(gap.get("verdict"), 0)
                )
                for label, gap in gaps
            ]
            yield gap_chart(f"{y_name}, in points", bars)
        case kind:
            for cell, _, kept in cells:
                if curves := (kept or {}).get(kind):
                    names = {
                        one: _joined(cell.name, label)
                        for one, label in study.systems.items()
                        if one in curves["systems"]
                    }
                    if kind == "distances":
                        yield distance_chart(curves, names)
                    else:
                        yield from (svg for _, svg in density_charts(curves, names))


def _series(chart: Chart, measured: Sequence[tuple[Row, float]]) -> list[Line]:
    found: dict[str, list[tuple[float, float]]] = {}
    for row, y in measured:
        x = float(row.changes[chart.x.removeprefix("1/")])
        key = _joined(row.model, str(row.changes.get(chart.by, "")))
        found.setdefault(key, []).append((1 / x if chart.x.startswith("1/") else x, y))
    return [Line(key, sorted(points), at) for at, (key, points) in enumerate(found.items())]
