"""The files of a study.

NAME.json holds everything, NAME.html shows it in one self-contained page, and NAME.csv and NAME.tex
hold its table. NAME-correlations.csv holds its correlations, if it has any.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import StatisticsError, correlation
from typing import Any

from engine.core.disk import disk_errors, write_text
from engine.core.text import metric_name
from engine.evaluation.reporting.charts import Bar, Line, gap_chart, line_chart
from engine.evaluation.reporting.page import build_environment
from engine.evaluation.reporting.report import to_json_types
from engine.lab.checks.page import density_charts, distance_chart
from engine.lab.study.catalogue import STEP, UNTRAINED, Chart, Correlation, Study
from engine.lab.study.grid import Cell
from engine.lab.study.measures import (
    ALL,
    SUBSTITUTE,
    WIDTH,
    Values,
    average_seeds,
    read_number,
    read_value,
)
from engine.lab.study.tables import format_figure, write_correlations, write_csv, write_latex
from engine.version import __version__

SCHEMA = 2
COLOURS = {"better": 3, "worse": 2}
OF_SIMILARITIES = (
    "alignment",
    "accuracy@",
    "nDCG@",
    "COE",
    "ROE",
    "threshold",
    "ψ of τ",
)
"""Prefixes of columns that are measured on the same queries as the densities."""
MASKED_ONLY = (
    "Masking only: no language model could be asked for synonyms. "
    "Set queries.backend to one that writes queries, and repeat."
)
SHIPPED_TEXT = "the passages that ship with the program"
MeasuredCells = Sequence[tuple[Cell, Mapping[str, Any], Mapping[str, Any] | None]]
"""For each cell: the cell, its state (`same_as`, `error`), and its figures, None if unfinished.

The figures are what `Workspace.figures` returns.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    The labels `model` (the base model), `training` and `system` are empty if there is only one.
    """

    model: str
    training: str
    system: str
    changes: Mapping[str, Any]
    """Settings of the training."""
    values: Values
    """Column → value."""
    reason: str = ""
    """Why values are missing."""

    @property
    def label(self) -> str:
        """The label in tables and charts."""
        return _join(
            self.model,
            self.training,
            self.system,
        )


Measured = Sequence[tuple[Row, float]]
"""Rows with the value that a chart shows."""


def _join(*parts: str) -> str:
    """Return the parts that are not empty as a label."""
    return " · ".join(filter(None, parts))


def rows_of(study: Study, cells: MeasuredCells) -> list[Row]:
    """Return a row for each system of each training, averaged over its seeds.

    Systems that no training changes have one row for each model.
    """
    # Cells that differ by their seed alone are one training.
    trainings: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    changes_of: dict[tuple[str, str], Mapping[str, Any]] = {}
    for cell, _, figures in cells:
        if figures:
            key = (cell.model, cell.label)
            changes_of.setdefault(key, cell.changes)
            trainings.setdefault(key, []).append(figures)
    has_many_models = len({cell.model for cell, _, _ in cells}) > 1
    rows: dict[tuple[str, str, str], Row] = {}
    for (model, training), figures_of_seeds in trainings.items():
        reasons = [figures["reason"] for figures in figures_of_seeds if figures.get("reason")]
        for system, label in study.systems.items():
            is_trained = system.partition(",")[0] not in UNTRAINED
            measured = []
            for figures in figures_of_seeds:
                if system in figures["rows"]:
                    measured.append(_read_columns(study, figures["rows"][system]))
            # A training that made no adapter still has a row, with the reason.
            may_lack_figures = is_trained and "," not in system and study.by != "black box"
            if not measured and not may_lack_figures:
                continue
            values = _average_columns(study, measured, is_trained)
            training_label = training if is_trained else ""
            row = rows.setdefault(
                (model, training_label, system),
                Row(
                    model=model if has_many_models else "",
                    training=training_label,
                    system=label,
                    changes=changes_of[model, training],
                    values=values,
                    reason=reasons[-1] if reasons and is_trained else "",
                ),
            )
            # A cell without an adapter lacks some values of base; take them from another cell.
            for column, value in values.items():
                if row.values.get(column) is None:
                    row.values[column] = value
    return list(rows.values())


def _read_columns(study: Study, figures: Values) -> Values:
    """Return the value of each column, given the figures of one training."""
    return {column: read_value(figures, column) for column in study.measures}


def _average_columns(
    study: Study,
    measured: Sequence[Values],
    is_trained: bool,
) -> Values:
    """Return the mean of each column over trainings that differ by seed, and their steps."""
    mean = average_seeds(measured, trained=is_trained)
    values = {column: mean.get(column) for column in study.measures}
    steps = [row[STEP] for row in measured if row.get(STEP) is not None]
    if len(set(steps)) > 1:
        # If each training kept another step, list the steps instead of their mean.
        values[STEP] = ", ".join(map(str, steps))
    if values.get(STEP) is None and STEP not in study.columns:
        values.pop(STEP, None)
    return values


def write_study(
    folder: Path, project: str, study: Study, facts: Mapping[str, Values], cells: MeasuredCells
) -> dict[str, Any]:
    """Write NAME.json, .html, .csv and .tex into `folder`; return the JSON, with its `folder`.

    `facts` are rows about the project as it is: label → value of each column. In the JSON:
    `general_text` is the name of the general text, if the study measures with it. `rows` have the
    parts of each row, its `label`, and `values`: column → {value, low, high}, with a verdict for a
    difference; intervals are over queries or, if there are `seeds`, over trainings. The `reason` of
    a row says why nothing was trained. `cells` have `number`, `label`, `model`, `seed`, `changes`,
    `same_as` (the number of the cell that is exactly the same), `error` and, if finished, `seconds`
    by stage and `reason`. Raises ResourceError if the disk is full.
    """
    study = study.with_measured_names(_find_measures(cells))
    rows = []
    for label, values in facts.items():
        rows.append(Row(model="", training="", system=label, changes={}, values=values))
    rows += rows_of(study, cells)
    data: dict[str, Any] = to_json_types(_build_data(project, study, rows, cells))
    charts: list[str] = []
    for chart in study.charts:
        charts += filter(None, _draw(chart, study, rows, cells))
    write_tables(folder, data, charts)
    return {**data, "folder": str(folder)}


def write_tables(
    folder: Path,
    study: Mapping[str, Any],
    charts: Sequence[str] = (),
) -> None:
    """Write the files of a study, as its JSON gives it, into `folder`, with `charts` as SVG.

    Raises ResourceError if the disk is full.
    """
    files = {
        "json": json.dumps(study, ensure_ascii=False, indent=1, allow_nan=False),
        "html": _render(study, charts),
        "csv": write_csv(study),
        "tex": write_latex(study),
    }
    with disk_errors("The page of the study could not be written."):
        folder.mkdir(
            mode=0o700,
            parents=True,
            exist_ok=True,
        )
        for ending, text in files.items():
            write_text(folder / f"{study['name']}.{ending}", text)
        if study["correlations"]:
            path = folder / f"{study['name']}-correlations.csv"
            write_text(path, write_correlations(study))


def _find_measures(cells: MeasuredCells) -> set[str]:
    """Return the names of all measures that any system of any cell has."""
    names: set[str] = set()
    for _, _, figures in cells:
        if figures:
            for values in figures["rows"].values():
                names.update(name for name, value in values.items() if value is not None)
    return names


def _build_data(
    project: str, study: Study, rows: Sequence[Row], cells: MeasuredCells
) -> dict[str, Any]:
    """Return what the JSON of a study holds, as `write_study` describes it."""
    columns = []
    for column in study.measures:
        if any(row.values.get(column) is not None for row in rows):
            columns.append(column)
    finished = [figures for _, _, figures in cells if figures]
    described = []
    for cell, state, figures in cells:
        outcome = {name: (figures or {}).get(name) for name in ("seconds", "reason")}
        described.append({**asdict(cell), **state, **outcome})
    return {
        "schema": SCHEMA,
        "project": project,
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **study.model_dump(include={"name", "source", "shows", "differs"}),
        "columns": columns,
        "finished": sum(figures is not None for _, _, figures in cells),
        "rows": [{**asdict(row), "label": row.label} for row in rows],
        "correlations": [_correlate(study, rows, wanted) for wanted in study.correlations],
        "similarities_of": _describe_similarities(columns, finished),
        "notes": [MASKED_ONLY] if _lacks_synonyms(study, rows) else [],
        "general_text": _name_general_text(study, cells),
        "cells": described,
    }


def _describe_similarities(
    columns: Sequence[str], finished: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the query set of the densities, and the columns measured on the same queries."""
    of_similarities = []
    for column in columns:
        if column.startswith(OF_SIMILARITIES) and not column.endswith((WIDTH, ALL)):
            of_similarities.append(column)
    for figures in finished:
        if densities := figures.get("similarities"):
            return {
                "columns": of_similarities,
                "name": densities["name"],
                "queries": densities["queries"],
            }
    return None


def _name_general_text(study: Study, cells: MeasuredCells) -> str | None:
    """Return the name of the general text, or None if the study does not measure with it."""
    if not cells or not _uses_general_text(study):
        return None
    for _, _, figures in cells:
        if figures and "general_text" in figures:
            return figures["general_text"] or SHIPPED_TEXT
    return SHIPPED_TEXT


def _lacks_synonyms(study: Study, rows: Sequence[Row]) -> bool:
    """Return whether the study has rows or a column for synonyms but none were available."""
    labels = {label for system, label in study.systems.items() if f", {SUBSTITUTE}" in system}
    wants_synonyms = labels or study.facts == "perturbed"
    if not wants_synonyms or not rows:
        return False
    return not any(row.system in labels or row.values.get("substituted") for row in rows)


def _uses_general_text(study: Study) -> bool:
    """Return whether questions or passages of general knowledge are measured."""
    names = [*study.columns, *(chart.kind for chart in study.charts)]
    # Such as `Δ general hit@5`, `general similarities` and `distances`.
    return any(name.removeprefix("Δ ").startswith(("general ", "distance")) for name in names)


def _correlate(
    study: Study,
    rows: Sequence[Row],
    wanted: Correlation,
) -> dict[str, Any]:
    """Return the columns, Pearson's `r` (METHODS.md §3, Correlation), and the number of `rows`.

    `r` is None if there are fewer than three rows, or if a column is constant.
    """
    first_column, second_column = wanted.of
    labels = {study.systems[system] for system in wanted.over or study.systems}
    first = []
    second = []
    for row in rows:
        if row.system not in labels:
            continue
        x = read_number(row.values[first_column])
        y = read_number(row.values[second_column])
        if x is not None and y is not None:
            first.append(x)
            second.append(y)
    r = None
    if len(first) >= 3:
        with suppress(StatisticsError):
            r = correlation(first, second)
    return {
        "of": wanted.of,
        "r": r,
        "rows": len(first),
    }


def _render(data: Mapping[str, Any], charts: Sequence[str]) -> str:
    """Return the page of a study's JSON."""
    from markupsafe import Markup

    page = build_environment()
    page.filters |= {"shown": format_figure, "measure": metric_name}
    # Charts are safe to insert, because charts.py escapes every label.
    safe_charts = [Markup(svg) for svg in charts]
    return page.get_template("study.html.j2").render(study=data, charts=safe_charts)


def _draw(
    chart: Chart,
    study: Study,
    rows: Sequence[Row],
    cells: MeasuredCells,
) -> Iterator[str]:
    """Yield the charts of a kind as SVG, empty if there is nothing to draw."""
    measured = []
    for row in rows:
        y = read_number(row.values.get(chart.y))
        if y is not None:
            measured.append((row, y))
    match chart.kind:
        case "line":
            name = chart.x.partition(".")[2].replace("_", " ")
            if chart.x.startswith("1/"):
                name = f"1/{name}"
            yield line_chart(
                f"{chart.y} by {name}",
                _build_series(chart, measured),
                name,
                chart.y,
            )
        case "scatter":
            dots = _build_dots(chart, measured)
            yield line_chart(
                f"{chart.y} by {chart.x}",
                dots,
                chart.x,
                chart.y,
            )
        case "gap":
            yield gap_chart(f"{chart.y}, in points", _build_gaps(chart, measured))
        case kind:
            for cell, _, figures in cells:
                curves = figures and figures.get(kind)
                if curves:
                    yield from _draw_curves(
                        kind,
                        curves,
                        cell,
                        study,
                    )


def _draw_curves(
    kind: str,
    curves: Mapping[str, Any],
    cell: Cell,
    study: Study,
) -> Iterator[str]:
    """Yield the charts of a cell's distances or similarities."""
    names = {}
    for system, label in study.systems.items():
        if system in curves["systems"]:
            names[system] = _join(cell.name, label)
    if kind == "distances":
        yield distance_chart(curves, names)
        return
    for _, svg in density_charts(curves, names):
        yield svg


def _build_dots(chart: Chart, measured: Measured) -> list[Line]:
    """Return a point for each row that has both figures."""
    dots = []
    for number, (row, y) in enumerate(measured):
        x = read_number(row.values[chart.x])
        if x is not None:
            dots.append(Line(row.label, [(x, y)], number))
    return dots


def _build_gaps(chart: Chart, measured: Measured) -> list[Bar]:
    """Return a bar for the difference of each row of a training."""
    bars = []
    for row, value in measured:
        if row.training:
            gap = row.values[chart.y]
            colour = COLOURS.get(gap.get("verdict"), 0)
            bars.append(Bar(row.label, value, gap["low"], gap["high"], colour))
    return bars


def _build_series(chart: Chart, measured: Measured) -> list[Line]:
    """Return a line for each value of the setting that tells lines apart."""
    series: dict[str, list[tuple[float, float]]] = {}
    is_inverse = chart.x.startswith("1/")
    for row, y in measured:
        x = float(row.changes[chart.x.removeprefix("1/")])
        if is_inverse:
            x = 1 / x
        label = _join(row.model, str(row.changes.get(chart.by, "")))
        series.setdefault(label, []).append((x, y))
    lines = []
    for number, (label, points) in enumerate(series.items()):
        lines.append(Line(label, sorted(points), number))
    return lines
