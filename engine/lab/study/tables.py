"""A study's table as CSV for spreadsheets and as LaTeX for papers."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from engine.core.text import metric_name
from engine.lab.study.measures import number

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


def column_name(column: str) -> str:
    """Return the readable name of a column: of several names, the first."""
    return metric_name(column.partition("|")[0])


def shown(value: Any) -> str:
    """Format a value: a dash for None, more digits for small numbers."""
    found = number(value)
    if found is None or isinstance(value, int):
        if value is None:
            return "–"
        return str(value)
    return f"{found:.{3 if abs(found) < 10 else 2}f}"


def shown_interval(value: Any) -> str:
    """Return the interval of a value in parentheses, or an empty text.

    It is empty if the value has no interval, or one without width.
    """
    if isinstance(value, Mapping):
        bounds = [value.get("low"), value.get("high")]
    else:
        bounds = [None, None]
    if None in bounds or bounds[0] == bounds[1]:
        return ""
    return f"({shown(bounds[0])} to {shown(bounds[1])})"


def write_csv(study: Mapping[str, Any]) -> str:
    """Return the table of a study, as its JSON gives it, as CSV.

    Each column becomes three: the value and both ends of its interval.
    """
    head = ["row"]
    for column in study["columns"]:
        name = column_name(column)
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
        " & ".join(["", *(_escape(column_name(column)) for column in study["columns"])]) + r" \\",
        r"\midrule",
    ]
    for row in study["rows"]:
        cells = [_escape(row["label"])]
        for column in study["columns"]:
            value = row["values"].get(column)
            interval = shown_interval(value)
            cells.append(_escape(shown(value)) + (rf" {{\tiny {interval}}}" if interval else ""))
        lines.append(" & ".join(cells) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _escape(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _as_text(text: str) -> str:
    """Return a text that spreadsheets do not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text
