"""A study's table as CSV and LaTeX, of values made by hand."""

from __future__ import annotations

import csv
import io

from engine.lab.study.tables import (
    format_interval,
    write_correlations,
    write_csv,
    write_latex,
)

STUDY = {
    "name": "bmembed-t2",
    "version": "1.0",
    "columns": ["map@10 (multihop)", "Δ hit@10", "step"],
    "rows": [
        {
            "label": "BM25",
            "values": {"map@10 (multihop)": {"value": 12.5, "low": 10.0, "high": 15.25}},
        },
        {
            "label": "CL_1 & 50 %",
            "values": {"Δ hit@10": {"value": -1.25, "low": -1.25, "high": -1.25}, "step": 500},
        },
        {"label": "=1+1", "values": {"step": "of two"}},
    ],
    "notes": [],
    "cells": [{"model": "", "label": "CL", "reason": ""}],
    "correlations": [],
}


def test_csv_has_values_and_the_ends_of_intervals() -> None:
    head, *rows = csv.reader(io.StringIO(write_csv(STUDY)))
    assert head[:4] == [
        "row",
        "MAP@10 (several passages)",
        "MAP@10 (several passages), low",
        head[3],
    ]
    assert rows == [
        ["BM25", "12.5", "10.0", "15.25", "", "", "", "", "", ""],
        ["CL_1 & 50 %", "", "", "", "-1.25", "-1.25", "-1.25", "500", "", ""],
        ["'=1+1", "", "", "", "", "", "", "of two", "", ""],
    ]


def test_latex_is_a_tabular_that_escapes_texts() -> None:
    lines = write_latex(STUDY).splitlines()
    assert lines[1:3] == [r"\begin{tabular}{lrrr}", r"\toprule"]
    assert lines[3].split(" & ")[2] == r"$\Delta$ Hit@10"
    assert lines[5] == r"BM25 & 12.50 {\tiny (10.00 to 15.25)} & – & – \\"
    assert lines[6] == r"CL\_1 \& 50 \% & – & $-$1.250 & 500 \\"
    assert lines[-2:] == [r"\bottomrule", r"\end{tabular}"]


def test_latex_says_why_a_row_has_no_figures_and_has_the_correlations() -> None:
    found = {
        **STUDY,
        "rows": [
            {"label": "[PT] <a|b>", "values": {"step": None}, "reason": "3 queries & no more"}
        ],
        "notes": ["Masking only."],
        "cells": [{"model": "mpnet", "label": "Sup.", "reason": "no\nqueries"}],
        "correlations": [
            {"of": ["accuracy@5", "ROE"], "r": -0.5, "rows": 7},
            {"of": ["accuracy@5", "COE"], "r": None, "rows": 2},
        ],
    }
    lines = write_latex(found).splitlines()
    assert lines[1:4] == [
        "% Masking only.",
        "% mpnet, Sup. not trained: no queries",
        r"\begin{tabular}{lrrr}",
    ]
    label = r"{[}PT] \textless{}a\textbar{}b\textgreater{}"
    reason = r"\multicolumn{3}{l}{not trained: 3 queries \& no more}"
    assert lines[7] == rf"{label} & {reason} \\"
    assert lines[-5:-2] == [
        r"\midrule",
        r"accuracy@5 and ROE & $-$0.500 & 7 \\",
        r"accuracy@5 and COE & – & 2 \\",
    ]
    rows = list(csv.reader(io.StringIO(write_correlations(found))))
    assert rows == [
        ["first", "second", "r", "rows"],
        ["accuracy@5", "ROE", "-0.5", "7"],
        ["accuracy@5", "COE", "", "2"],
    ]


def test_an_interval_without_a_width_is_left_empty() -> None:
    values = (
        {"value": 1.0, "low": 1.0, "high": 1.0},
        {"value": 1.0, "low": None, "high": None},
        3,
        "text",
        None,
    )
    assert [format_interval(value) for value in values] == [""] * 5
    assert format_interval({"value": 50.0, "low": 5.0, "high": 60.0}) == "(5.000 to 60.00)"
