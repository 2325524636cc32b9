"""The lab's page: what was measured on request, similarities, and what was forgotten."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, get_args
from unittest import mock

import numpy as np
import pytest
from fixtures.drawing import charts_of, shapes, signs, texts, values
from fixtures.report_example import SYSTEMS, example, section_of, with_interpolation
from lxml import html

from engine.core.figures import Difference, Interval
from engine.core.messages.report import GateOutcome
from engine.core.systems import label_of
from engine.evaluation.reporting.report import ReportData, read_report, write_report
from engine.lab.checks.forgetting import measure_general, read_bundled_set
from engine.lab.checks.measuring import LabFigures
from engine.lab.checks.page import build_data, render_lab
from engine.lab.checks.robustness import METRICS, Robustness, Row, Synonyms

pytestmark = pytest.mark.charts


def page_of(
    tmp_path: Path,
    data: ReportData | None = None,
    **parts: Any,
) -> html.HtmlElement:
    """The page of an evaluation's encoders, with these parts."""
    with mock.patch("engine.evaluation.reporting.report.write_page"):
        write_report(tmp_path, data or example())
    report = read_report(tmp_path)
    nothing = LabFigures(
        "f",
        {},
        {},
        None,
        None,
        None,
        None,
        False,
    )
    figures = dataclasses.replace(nothing, **parts)
    return html.fromstring(render_lab(build_data("x", report, figures), report))


def test_figures_are_of_the_vectors_and_interpolations_are_left_out(tmp_path) -> None:
    figures = {
        "base": {
            "alignment": 1.25,
            "uniformity": float("inf"),
            "COE": Interval(71.25, 60.5, 80.75),
        },
        "interpolated-0.5": {"alignment": 1.0},
    }
    page = page_of(tmp_path, diagnostics=figures)
    section = section_of(page, "Diagnostics")
    rows = [
        [cell.xpath("string()") for cell in row.xpath("th | td")] for row in section.xpath(".//tr")
    ]
    assert rows == [
        ["Figure", "base"],
        ["alignment", "1.250"],
        ["uniformity", "–"],
        ["COE", "71.260.5–80.8"],
    ]


def blows() -> Robustness:
    """A report's part on robustness."""

    def row(
        kind: str,
        words: int,
        value: float,
    ) -> Row:
        systems = {
            name: dict.fromkeys(METRICS, Interval(value, value - 5, value + 5.04))
            for name in SYSTEMS
        }
        loss = Difference(
            value - 60,
            value - 65,
            value - 54.96,
            0.0,
            "worse",
            0.001,
        )
        if kind == "clean":
            differences = {}
        else:
            differences = dict.fromkeys(systems, dict.fromkeys(METRICS, loss))
        return Row(
            kind, words, words, systems, differences, dict.fromkeys(differences, 7.5 * words)
        )

    kinds = [(kind, n) for kind in ("typo", "mask", "substitute", "corrupt") for n in (1, 2, 3)]
    rows = (
        row("clean", 0, 60),
        *(row(kind, n, 60 - 7 * n) for kind, n in kinds),
        row("half", 0, 33),
    )
    return Robustness(
        "judged queries",
        "judged",
        77,
        rows,
        Synonyms(),
        6.5,
    )


def test_robustness_is_shown_as_curves_and_a_table_where_it_was_measured(tmp_path) -> None:
    page = page_of(tmp_path, robustness=blows())
    section = section_of(page, "Robustness")
    charts = charts_of(section)
    assert [chart.get("aria-label") for chart in charts] == [
        f"nDCG@10 by {what} per query"
        for what in (
            "mistyped words",
            "masked words",
            "words replaced",
            "words mistyped or replaced",
        )
    ]
    for chart in charts:
        assert texts(chart, "label") == [label_of("bm25"), label_of("hybrid in use")]
        assert [[round(y) for _, y in line] for line in values(chart, "line")] == [
            [60, 53, 46, 39]
        ] * 2
        assert [len(line) for line in signs(chart)] == [4, 4]
    rows = [
        [cell.xpath("string()").split() for cell in row.xpath("th | td")]
        for row in section.xpath("(.//table)[1]/tbody/tr")
    ]
    assert len(rows) == 14
    assert "The median query has 6.5 words." in section.xpath("string(p)")
    assert (
        section.xpath("string()").count("22.5 % lost") == 8
    )  # of two systems by three words, in four ways
    assert rows[0][2] == ["60.055.0–65.0"]
    assert rows[-1][0] == ["each", "word,", "p", "=", "0.5"]
    assert "-27.0 worse-32.0 to -22.0" in section.xpath("string()")
    assert "Robustness" not in page_of(tmp_path).text_content()


GEOMETRY = {"base": {"uniformity": 2.5, "isotropy I_A": 0.125}}


def test_what_an_encoder_has_forgotten_is_shown(tmp_path) -> None:
    right = np.ones(60)
    half = np.arange(60) % 2.0
    values = {"base": {"hit@1": right, "mrr@10": right}, "adapted": {"hit@1": half, "mrr@10": half}}
    distances = {"base": np.linspace(0.8, 1.2, 50), "adapted": np.linspace(0.9, 1.3, 50)}
    general = measure_general(
        read_bundled_set(),
        values,
        GEOMETRY,
        distances,
        samples=500,
    )
    page = page_of(tmp_path, general=general)
    section = section_of(page, "General knowledge")
    rows = [
        [cell.xpath("string()") for cell in row.xpath("th | td")]
        for row in section.xpath(".//tbody/tr")
    ]
    assert [row[0] for row in rows] == [
        "base",
        *["adapted (in use)"] * 2,
        "base",
        "adapted (in use)",
    ]
    assert rows[3][1:] == ["1.000", "0.820", "1.000", "1.180"]
    assert rows[0][1] == "100.0100.0–100.0"
    assert rows[2][1].startswith("-50.0 worse")
    assert section.xpath("string(p)").startswith("60 everyday questions")
    assert "uniformity 2.500, isotropy I_A 0.125" in section.xpath("string()")
    assert general is not None
    named = page_of(tmp_path, general=dataclasses.replace(general, name="wiki"))
    assert "60 questions of wiki" in named.text_content()


def similarities() -> dict[str, object]:
    """A report's part on similarities, as `densities` gives it."""
    axis = [
        0.0,
        0.25,
        0.5,
        0.75,
        1.0,
    ]

    def kinds(peak: float) -> dict[str, object]:
        return {
            kind: {"count": 60, "mean": mean, "density": [0.0, peak, 1.0, 0.5, 0.0]}
            for kind, mean in (("correct", 0.71), ("top", 0.82), ("random", 0.13))
        }

    systems = {
        "base": kinds(2.0),
        "adapted": kinds(4.0),
        "in_use": kinds(3.0),
    }
    return {
        "kind": "judged",
        "name": "judged queries",
        "queries": 60,
        "k": 5,
        "random_chunks": 20,
        "cosines": axis,
        "systems": systems,
    }


def heights(chart: html.HtmlElement) -> list[float]:
    """Of the highest place of every line."""
    return [max(y for _, y in line) for line in values(chart, "line")]


def test_similarities_before_and_after_stand_on_the_same_axes(tmp_path) -> None:
    merged = with_interpolation(example().selection)
    data = dataclasses.replace(example(), selection=merged)
    page = page_of(
        tmp_path,
        data,
        similarities=similarities(),
    )
    section = section_of(page, "Similarities")
    assert section.xpath(".//figcaption/text()") == ["Before: base", "After: in use"]
    before, after = charts_of(section)
    assert heights(before) == pytest.approx([2, 2, 2], abs=0.02)
    assert heights(after) == pytest.approx([3, 3, 3], abs=0.02)
    ticks = [texts(chart, "tick") for chart in (before, after)]
    assert ticks[0] == ticks[1]
    assert shapes(before, "grid") == shapes(after, "grid")
    assert texts(before, "label") == ["correct chunks", "best 5 chunks", "random chunks"]
    samples = [
        path.get("style") for path in before.xpath(".//g[@class='sample']/path[not(@class)]")
    ]
    assert (
        len({str(re.findall(r"dasharray: ([^;]*)", style)) for style in samples}) == 3
    )  # told apart without colours
    rows = [
        [cell.xpath("string()") for cell in row.xpath("th | td")]
        for row in section.xpath(".//tbody/tr")
    ]
    assert rows[2] == ["in use", "0.710", "0.820", "0.130"]


def test_no_difference_is_shown_without_a_verdict(tmp_path) -> None:
    right = np.ones(60)
    half = np.arange(60) % 2.0
    values = {"base": {"hit@1": right, "mrr@10": right}, "adapted": {"hit@1": half, "mrr@10": half}}
    distances = {"base": np.linspace(0.8, 1.2, 50), "adapted": np.linspace(0.9, 1.3, 50)}
    general = measure_general(
        read_bundled_set(),
        values,
        GEOMETRY,
        distances,
        samples=500,
    )
    page = page_of(
        tmp_path,
        robustness=blows(),
        general=general,
        similarities=similarities(),
    )
    signed = [
        cell
        for cell in page.xpath("//td | //li")
        if re.match(r".*[+-]\d", cell.xpath("string()"), re.DOTALL)
    ]
    assert len(signed) > 40
    verdicts = (
        "better",
        "worse",
        "no difference shown",
        *get_args(GateOutcome),
    )
    rows = [
        (cell, cell.getparent().xpath("string()") if cell.tag == "td" else "") for cell in signed
    ]
    bare = [
        cell.xpath("string()")
        for cell, row in rows
        if not any(word in cell.xpath("string()") + row for word in verdicts)
    ]
    assert not bare
