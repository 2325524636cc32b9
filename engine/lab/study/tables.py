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
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # At the start of a row these would be arguments of the command that ends the row before.
    "[": "{[}",
    "*": "{*}",
    "Δ": r"$\Delta$",
    "τ": r"$\tau$",
    "ψ": r"$\psi$",
    "λ": r"$\lambda$",
    "α": r"$\alpha$",
}
_FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\t",
    "\r",
)
"""First characters of texts that spreadsheets take for formulas."""


def format_figure(value: Any) -> str:
    """Return a value for reading: a dash for None, three digits below 10, else two."""
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
        head += [
            name,
            f"{name}, low",
            f"{name}, high",
        ]
    has_notes = any(row.get("reason") for row in study["rows"])
    if has_notes:
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
                cells += [
                    _format_cell(value),
                    "",
                    "",
                ]
        if has_notes:
            cells.append(_as_text(row.get("reason", "")))
        writer.writerow(cells)
    return text.getvalue()


def write_correlations(study: Mapping[str, Any]) -> str:
    """Return the correlations of a study, as its JSON gives them, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["first", "second", "r", "rows"])
    for row in study["correlations"]:
        names = [metric_name(column) for column in row["of"]]
        writer.writerow([*names, _format_cell(row["r"]), row["rows"]])
    return text.getvalue()


def _format_cell(value: object) -> str:
    """Return a value in a CSV file, with all digits; nothing for None."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _as_text(value)
    return str(value)


def write_latex(study: Mapping[str, Any]) -> str:
    """Return the table of a study as a LaTeX tabular, which needs the package booktabs.

    Intervals follow their values in small type. A row without figures has the reason instead.
    Correlations are a second tabular. Notes, and the reasons why cells were not trained, are
    comments.
    """
    lines = [rf"% {study['name']}, made by bmembed {study['version']}"]
    for note in study["notes"]:
        lines.append(f"% {note}")
    for cell in study["cells"]:
        if cell["reason"]:
            name = ", ".join(filter(None, (cell["model"], cell["label"])))
            lines.append(" ".join(f"% {name} not trained: {cell['reason']}".split()))
    columns = study["columns"]
    rows = []
    for row in study["rows"]:
        values = [row["values"].get(column) for column in columns]
        cells = [_escape(row["label"])]
        if row.get("reason") and columns and not any(value is not None for value in values):
            reason = _escape(f"not trained: {row['reason']}")
            cells.append(rf"\multicolumn{{{len(columns)}}}{{l}}{{{reason}}}")
        else:
            cells += map(_latex_figure, values)
        rows.append(cells)
    names = [_escape(metric_name(column)) for column in columns]
    lines += _latex_table(["", *names], rows)
    if study["correlations"]:
        rows = []
        for row in study["correlations"]:
            columns = " and ".join(metric_name(column) for column in row["of"])
            rows.append([_escape(columns), _latex_figure(row["r"]), str(row["rows"])])
        lines += ["", *_latex_table(["correlation", "$r$", "rows"], rows)]
    return "\n".join([*lines, ""])


def _latex_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a tabular whose first column is of labels."""
    return [
        r"\begin{tabular}{l" + "r" * (len(head) - 1) + "}",
        r"\toprule",
        _latex_row(head),
        r"\midrule",
        *map(_latex_row, rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]


def _latex_figure(value: Any) -> str:
    """Return a value with its interval in small type; texts are escaped."""
    if read_number(value) is None:
        return _escape(format_figure(value))
    cell = format_figure(value)
    if interval := format_interval(value):
        cell += rf" {{\tiny {interval}}}"
    return cell.replace("-", "$-$")


def _latex_row(cells: list[str]) -> str:
    """Return a line of a tabular; `cells` are escaped."""
    return " & ".join(cells) + r" \\"


def _escape(text: str) -> str:
    """Return a text with LaTeX's special characters escaped: `50 %` → `50 \\%`."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def _as_text(text: str) -> str:
    """Return a text that spreadsheets do not take for a formula: `=A1` → `'=A1`."""
    return f"'{text}" if text.startswith(_FORMULA) else text
