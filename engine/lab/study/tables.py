"""A study's table as CSV for spreadsheets and as LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from engine.core.text import metric_name
from engine.lab.study.measures import read_number

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "Δ": r"$\Delta$",
    "τ": r"$\tau$",
    "ψ": r"$\psi$",
    "λ": r"$\lambda$",
    "α": r"$\alpha$",
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""Prefixes of texts that spreadsheets take for formulas."""


def format_figure(value: Any) -> str:
    """Format a value: a dash for None, more digits for small numbers."""
    if value is None:
        return "–"
    number = read_number(value)
    if number is None or isinstance(value, int):
        return str(value)
    digits = 3 if abs(number) < 10 else 2
    return f"{number:.{digits}f}"


def format_interval(value: Any) -> str:
    """Return the interval of a value in parentheses, or an empty text.

    It is empty if the value has no interval, or an interval without width.
    """
    if not isinstance(value, Mapping):
        return ""
    low = value.get("low")
    high = value.get("high")
    if low is None or high is None or low == high:
        return ""
    return f"({format_figure(low)} to {format_figure(high)})"


def write_csv(study: Mapping[str, Any]) -> str:
    """Return the table of a study, as its JSON gives it, as CSV.

    Each column becomes three: the value and both ends of its interval.
    """
    head = ["row"]
    for column in study["columns"]:
        name = metric_name(column)
        head += [name, f"{name}, low", f"{name}, high"]
    noted = any(row.get("reason") for row in study["rows"])
    if noted:
        head.append("note")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    for row in study["rows"]:
        cells = [_as_text(row["label"])]
        for column in study["columns"]:
            value = row["values"].get(column)
            if isinstance(value, Mapping):
                cells += [_format_cell(value.get(part)) for part in ("value", "low", "high")]
            else:
                cells += [_format_cell(value), "", ""]
        if noted:
            cells.append(_as_text(row.get("reason", "")))
        writer.writerow(cells)
    return text.getvalue()


def _format_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return _as_text(value)
    return str(value)


def write_latex(study: Mapping[str, Any]) -> str:
    """Return the table of a study as a LaTeX tabular, which needs the package booktabs.

    Intervals follow their values in small type.
    """
    lines = [
        rf"% {study['name']}, made by bmembed {study['version']}",
        r"\begin{tabular}{l" + "r" * len(study["columns"]) + "}",
        r"\toprule",
    ]
    head = [""]
    head += [_escape(metric_name(column)) for column in study["columns"]]
    lines += [_latex_row(head), r"\midrule"]
    for row in study["rows"]:
        cells = [_escape(row["label"])]
        for column in study["columns"]:
            value = row["values"].get(column)
            cell = _escape(format_figure(value))
            if interval := format_interval(value):
                cell += rf" {{\tiny {interval}}}"
            cells.append(cell)
        lines.append(_latex_row(cells))
    lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _latex_row(cells: list[str]) -> str:
    return " & ".join(cells) + r" \\"


def _escape(text: str) -> str:
    """Return a text whose special characters LaTeX sets as they are."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _as_text(text: str) -> str:
    """Return a text that spreadsheets do not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
