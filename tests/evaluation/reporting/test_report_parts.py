"""Parts of the report: what was measured on request, similarities, what is in use, what a run
said.
"""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import numpy as np
import pytest
from fixtures.drawing import shapes, signs, texts, values
from fixtures.report_example import SYSTEMS, TEMPLATE, example, section_of, with_interpolation
from lxml import html

from engine.core.events import Choice, EventLog, Warned
from engine.core.figures import Difference, Interval
from engine.core.messages.report import GateOutcome
from engine.core.systems import label_of
from engine.evaluation.reporting.page import render
from engine.evaluation.reporting.report import read_choices_and_warnings, read_report, write_report
from engine.evaluation.reporting.verdict import HOW
from engine.evaluation.studies.forgetting import general_knowledge, measure_general
from engine.evaluation.studies.robustness import METRICS, Robustness, Row, Synonyms


def blows() -> Robustness:
    """A report's part on robustness."""

    def row(kind: str, words: int, value: float) -> Row:
        systems = {
            name: dict.fromkeys(METRICS, Interval(value, value - 5, value + 5.04))
            for name in SYSTEMS
        }
        loss = Difference(value - 60, value - 65, value - 54.96, 0.0, "worse", 0.001)
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
    return Robustness("judged queries", "judged", 77, rows, Synonyms(), 6.5)


def test_robustness_is_shown_as_curves_and_a_table_where_it_was_measured(tmp_path):
    data = dataclasses.replace(example(), robustness=blows())
    page = html.parse(
        str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8")
    )
    section = section_of(page, "Robustness")
    charts = section.xpath(".//*[local-name()='svg']")
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
    without = write_report(tmp_path, example(), TEMPLATE).read_text(encoding="utf-8")
    assert "Robustness" not in without


GEOMETRY = {"base": {"uniformity": 2.5, "isotropy I_A": 0.125}}


def test_what_an_encoder_has_forgotten_is_shown(tmp_path):
    right = np.ones(60)
    half = np.arange(60) % 2.0
    values = {"base": {"hit@1": right, "mrr@10": right}, "adapted": {"hit@1": half, "mrr@10": half}}
    distances = {"base": np.linspace(0.8, 1.2, 50), "adapted": np.linspace(0.9, 1.3, 50)}
    data = dataclasses.replace(
        example(),
        general=measure_general(general_knowledge(), values, GEOMETRY, distances, samples=500),
    )
    page = html.parse(
        str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8")
    )
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
    assert data.general is not None
    named = dataclasses.replace(data, general=dataclasses.replace(data.general, name="wiki"))
    assert "60 questions of wiki" in write_report(tmp_path, named, TEMPLATE).read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        (
            {
                "similarity": 0.3125,
                "psi": 85.0,
                "accuracy": 0.835,
                "unthresholded": 0.84,
                "hidden": 0.125,
                "queries": 77,
                "kind": "judged",
                "k": 10,
                "reason": "",
            },
            (
                "77 judged queries",
                "12.5 % are less similar",
                "than 0.312 (ψ = 85)",
                "83.5 %",
                "84.0 %",
            ),
        ),
        (
            {
                "similarity": 0.5,
                "psi": 5.0,
                "accuracy": 0.9,
                "unthresholded": 0.9,
                "hidden": 0.0,
                "queries": 54,
                "kind": "synthetic",
                "k": 10,
                "reason": "",
            },
            ("54 held-out queries",),
        ),
        (
            {"similarity": None, "reason": "queries are needed"},
            ("hides no weak hits: queries are needed.",),
        ),
    ],
)
def test_the_threshold_of_weak_hits_is_shown(tmp_path, threshold, said):
    data = dataclasses.replace(example(), threshold=threshold)
    page = html.parse(
        str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8")
    )
    text = " ".join(
        page.xpath("string(//details[summary/h2[starts-with(., 'Weak hits')]])").split()
    )
    assert all(piece in text for piece in said), text
    assert ("Weak hits synthetic, flatters" in text) == (threshold.get("kind") == "synthetic")


def similarities() -> dict[str, object]:
    """A report's part on similarities, as `densities` gives it."""
    axis = [0.0, 0.25, 0.5, 0.75, 1.0]

    def kinds(peak: float) -> dict[str, object]:
        return {
            kind: {"count": 60, "mean": mean, "density": [0.0, peak, 1.0, 0.5, 0.0]}
            for kind, mean in (("correct", 0.71), ("top", 0.82), ("random", 0.13))
        }

    systems = {"base": kinds(2.0), "adapted": kinds(4.0), "in_use": kinds(3.0)}
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


def test_similarities_before_and_after_stand_on_the_same_axes(tmp_path):
    merged = with_interpolation(example().selection)
    data = dataclasses.replace(example(), similarities=similarities(), selection=merged)
    page = html.parse(
        str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8")
    )
    section = section_of(page, "Similarities")
    assert section.xpath(".//figcaption/text()") == ["Before: base", "After: in use"]
    before, after = section.xpath(".//*[local-name()='svg']")
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


def test_no_difference_is_shown_without_a_verdict(tmp_path):
    right = np.ones(60)
    half = np.arange(60) % 2.0
    values = {"base": {"hit@1": right, "mrr@10": right}, "adapted": {"hit@1": half, "mrr@10": half}}
    distances = {"base": np.linspace(0.8, 1.2, 50), "adapted": np.linspace(0.9, 1.3, 50)}
    data = dataclasses.replace(
        example(),
        robustness=blows(),
        general=measure_general(general_knowledge(), values, GEOMETRY, distances, samples=500),
        similarities=similarities(),
    )
    page = html.parse(
        str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8")
    )
    signed = [
        cell
        for cell in page.xpath("//td | //li")
        if re.match(r".*[+-]\d", cell.xpath("string()"), re.DOTALL)
    ]
    assert len(signed) > 40
    verdicts = ("better", "worse", "no difference shown", *get_args(GateOutcome))
    rows = [
        (cell, cell.getparent().xpath("string()") if cell.tag == "td" else "") for cell in signed
    ]
    bare = [
        cell.xpath("string()")
        for cell, row in rows
        if not any(word in cell.xpath("string()") + row for word in verdicts)
    ]
    assert not bare


def test_what_is_in_use_stands_once_where_it_is_the_adapted_encoder(tmp_path):
    found = example()
    part = found.query_sets[0]
    systems = part.comparison.systems
    alike = {**systems, "adapted": systems["bm25"], "in_use": systems["bm25"]}
    comparison = dataclasses.replace(part.comparison, systems=alike)
    data = dataclasses.replace(found, query_sets=[dataclasses.replace(part, comparison=comparison)])
    page = write_report(tmp_path, data, TEMPLATE).read_text(encoding="utf-8")
    assert {one.encoder for one in found.selection.values()} == {"adapted"}
    assert "adapted (in use)" in page
    assert "<th>in use</th>" not in page
    merged = with_interpolation(found.selection)
    page = write_report(tmp_path, dataclasses.replace(data, selection=merged), TEMPLATE).read_text(
        encoding="utf-8"
    )
    assert "adapted (in use)" not in page
    assert "<th>in use</th>" in page


def test_an_interpolation_stands_where_the_choice_is_explained_alone(tmp_path):
    found = example()
    diagnostics = {name: {"alignment": 1.0} for name in ("base", "interpolated-0.5", "adapted")}
    page = write_report(tmp_path, dataclasses.replace(found, diagnostics=diagnostics), TEMPLATE)
    rows = html.parse(str(page)).xpath(
        f"//th[normalize-space()='{label_of('interpolated-0.5')}']/ancestor::details/summary/h2"
    )
    assert [row.text for row in rows] == ["How the choice was made"]


def test_what_a_run_reported_is_read_from_its_log(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    log(Choice(stage="train", setting="precision", value="float32", reason="first"))
    log(Warned(stage="train", text="slow"))
    log(Choice(stage="train", setting="precision", value="bfloat16", reason="then"))
    log(Warned(stage="evaluate", text="slow"))
    log.close()
    choices, warnings = read_choices_and_warnings(tmp_path / "events.jsonl")
    assert choices == [Choice(stage="train", setting="precision", value="bfloat16", reason="then")]
    assert warnings == ["slow"]
    assert read_choices_and_warnings(tmp_path / "nothing.jsonl") == ([], [])


def test_what_is_advised_stands_with_the_verdict(tmp_path):
    data = dataclasses.replace(example(), advice="BM25 alone is better than <hybrid> search.")
    write_report(tmp_path, data, TEMPLATE)
    page = html.fromstring((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert data.advice in page.xpath("string(//section[@class='verdict'])")
    without = render({**read_report(tmp_path), "advice": ""}, TEMPLATE)
    assert "BM25 alone is better" not in without


def test_commands_have_the_projects_name_and_single_queries_the_mode_that_they_are_of(tmp_path):
    data = dataclasses.replace(example(), advice=HOW)
    page = write_report(tmp_path, data, TEMPLATE, project="our-own-folder").read_text(
        encoding="utf-8"
    )
    assert "our-own-folder" in page
    assert "PROJECT" not in page
    headings = html.fromstring(page.encode()).xpath("//h3[contains(., 'uery by query')]/text()")
    assert headings
    assert all("by meaning alone" in heading for heading in headings)
