"""What a sweep found: sweep.json holds everything, sweep.html shows it in one self-contained page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from engine.core.disk import disk_errors, write_text
from engine.core.messages.report import QUERY_SETS
from engine.evaluation.comparison import MULTIHOP
from engine.evaluation.reporting.charts import Bar, bar_chart, gap_chart
from engine.evaluation.reporting.page import pages
from engine.evaluation.reporting.report import plain
from engine.experiments.sweep.grid import Grid
from engine.project.folder import KEPT, ProjectFolder
from engine.project.stage import fingerprint
from engine.settings.load import toml_value
from engine.settings.renamed import former_scope
from engine.version import __version__

SCHEMA = 1
VERSUS = "ndcg@10"
METRICS = (VERSUS, "hit@1", "hit@4", "hit@10", "map@10", MULTIHOP)
"""Those of the page, where they were measured: the paper's tables have Hit@1, 4 and 10, and MAP@10 (multihop)."""
COLOURS = {"better": 3, "worse": 2}
Rows = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
"""Finished cells, each with its table."""


def write_sweep(project: ProjectFolder, grid: Grid, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write sweep.json and sweep.html into a folder of `reports/` named by the grid; returns what sweep.json says, with
    `folder`.

    `axes`: setting → values; `cells`: `number`, `changes`, `same_as` (the cell that trains exactly the same), `error`, and
    `figures`, null while a cell is not finished: `tables` (kind of queries → `queries`, `systems` → metric → {value, low,
    high} in percent, `against_base` → metric → {…, verdict, p_value, needed}, null without an adapter), `geometry`,
    `seconds` by stage, `steps`, `best_step`, `adapter_scope` (also as `side`, its name before 0.2),
    `reason`. Raises ResourceError when the disk is full.
    """
    data = {
        "schema": SCHEMA,
        "project": project.name,
        "version": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "axes": {name: list(values) for name, values in grid.axes.items()},
        "finished": sum(row["figures"] is not None for row in rows),
        "cells": [{**row, "figures": _with_former_keys(row["figures"])} for row in rows],
    }
    folder = project.path / "reports" / (KEPT + fingerprint(cells=[dict(cell.changes) for cell in grid.cells]))
    found: dict[str, Any] = plain(data)
    with disk_errors("The report of the sweep could not be written."):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_text(folder / "sweep.json", json.dumps(found, ensure_ascii=False, indent=1, allow_nan=False))
        write_text(folder / "sweep.html", render(found))
    return {**found, "folder": str(folder)}


def _with_former_keys(figures: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {**figures, "side": former_scope(figures["adapter_scope"])} if figures else None


def measured(found: Mapping[str, Any], kind: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """The finished cells with their tables of one kind of queries."""
    rows = [cell for cell in found["cells"] if cell["figures"]]
    return [(row, row["figures"]["tables"][kind]) for row in rows if kind in row["figures"]["tables"]]


def varied(found: Mapping[str, Any]) -> list[str]:
    """The settings in which cells differ; all of them where there is one cell."""
    return [name for name, values in found["axes"].items() if len(values) > 1] or list(found["axes"])


def label_of(cell: Mapping[str, Any], names: Sequence[str]) -> str:
    """Some of a cell's settings without their sections."""
    changes = cell["changes"]
    return ", ".join(f"{name.partition('.')[2]} {shown(changes[name])}" for name in names if name in changes)


def shown(value: Any) -> str:
    """A setting's value for reading; a dash where a cell leaves it as the project has it."""
    return "–" if value is None else value if isinstance(value, str) else toml_value(value)


def render(found: Mapping[str, Any]) -> str:
    """The HTML page of a sweep as sweep.json gives it."""
    from markupsafe import Markup

    from engine.core.text import metric_name

    names, parts = varied(found), []
    for kind, title in QUERY_SETS.items():
        rows = measured(found, kind)
        if rows:
            labels = [f"{cell['number']}: {label_of(cell, names)}" for cell, _ in rows]
            title = title.partition(" (")[0]
            drawn = {
                "Adapted − base, nDCG@10 in points": _gaps(rows, labels, title),
                "nDCG@10 in percent": _figures(rows, labels, title),
            }
            charts = {what: Markup(svg) for what, svg in drawn.items() if svg}
            metrics = [name for name in METRICS if name in rows[0][1]["systems"]["base"]]
            parts.append({"kind": kind, "title": title, "rows": rows, "charts": charts, "metrics": metrics})
    page = pages()
    page.filters |= {"shown": shown, "metric": metric_name}
    return page.get_template("sweep.html.j2").render(sweep=found, parts=parts, names=names)


def _gaps(rows: Rows, labels: Sequence[str], queries: str) -> str:
    bars = []
    for label, (_, table) in zip(labels, rows, strict=True):
        if gap := (table["against_base"] or {}).get(VERSUS):
            bars.append(Bar(label, gap["value"], gap["low"], gap["high"], COLOURS.get(gap["verdict"], 0)))
    return gap_chart(f"Adapted minus base on {queries}, nDCG@10 in points", bars)


def _figures(rows: Rows, labels: Sequence[str], queries: str) -> str:
    systems = rows[0][1]["systems"]
    cells = [(name, systems[name][VERSUS], number) for number, name in enumerate(("bm25", "base")) if name in systems]
    for label, (_, table) in zip(labels, rows, strict=True):
        if "adapted" in table["systems"]:
            cells.append((label, table["systems"]["adapted"][VERSUS], 3))
    bars = [Bar(label, cell["value"], cell["low"], cell["high"], colour) for label, cell, colour in cells]
    return bar_chart(f"nDCG@10 on {queries}, percent", bars)
