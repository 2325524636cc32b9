"""Parts of the report: weak hits, what is in use, what a run said."""

from __future__ import annotations

import dataclasses

import pytest
from fixtures.report_example import example, with_interpolation
from lxml import html

from engine.core.events import Choice, EventLog, Warned
from engine.core.systems import label_of
from engine.evaluation.reporting.page import render
from engine.evaluation.reporting.report import read_choices_and_warnings, read_report, write_report
from engine.evaluation.reporting.verdict import SEARCH_BY_KEYWORDS


@pytest.mark.parametrize(
    ("threshold", "pieces"),
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
def test_the_threshold_of_weak_hits_is_shown(tmp_path, threshold, pieces) -> None:
    data = dataclasses.replace(example(), threshold=threshold)
    page = html.parse(str(write_report(tmp_path, data)), html.HTMLParser(encoding="utf-8"))
    text = " ".join(
        page.xpath("string(//details[summary/h2[starts-with(., 'Weak hits')]])").split()
    )
    assert all(piece in text for piece in pieces), text
    assert ("Weak hits synthetic, flatters" in text) == (threshold.get("kind") == "synthetic")


def test_what_is_in_use_stands_once_where_it_is_the_adapted_encoder(tmp_path) -> None:
    original = example()
    part = original.query_sets[0]
    systems = part.comparison.systems
    alike = {
        **systems,
        "adapted": systems["bm25"],
        "in_use": systems["bm25"],
    }
    comparison = dataclasses.replace(part.comparison, systems=alike)
    data = dataclasses.replace(
        original, query_sets=[dataclasses.replace(part, comparison=comparison)]
    )
    page = write_report(tmp_path, data).read_text(encoding="utf-8")
    assert {choice.encoder for choice in original.selection.values()} == {"adapted"}
    assert "adapted (in use)" in page
    assert "<th>in use</th>" not in page
    merged = with_interpolation(original.selection)
    page = write_report(tmp_path, dataclasses.replace(data, selection=merged)).read_text(
        encoding="utf-8"
    )
    assert "adapted (in use)" not in page
    assert "<th>in use</th>" in page


def test_an_interpolation_stands_where_the_choice_is_explained_alone(tmp_path) -> None:
    page = write_report(tmp_path, example())
    rows = html.parse(str(page)).xpath(
        f"//th[normalize-space()='{label_of('interpolated-0.5')}']/ancestor::details/summary/h2"
    )
    assert [row.text for row in rows] == ["How the choice was made"]


def test_what_a_run_reported_is_read_from_its_log(tmp_path) -> None:
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


def test_what_is_advised_stands_with_the_verdict(tmp_path) -> None:
    data = dataclasses.replace(example(), advice="BM25 alone is better than <hybrid> search.")
    write_report(tmp_path, data)
    page = html.fromstring((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert data.advice in page.xpath("string(//section[@class='verdict'])")
    without = render({**read_report(tmp_path), "advice": ""})
    assert "BM25 alone is better" not in without


def test_commands_have_the_projects_name_and_single_queries_the_mode_that_they_are_of(
    tmp_path,
) -> None:
    data = dataclasses.replace(example(), advice=SEARCH_BY_KEYWORDS)
    page = write_report(tmp_path, data, project="our-own-folder").read_text(encoding="utf-8")
    assert "our-own-folder" in page
    assert "PROJECT" not in page
    headings = html.fromstring(page.encode()).xpath("//h3[contains(., 'uery by query')]/text()")
    assert headings
    assert all("by meaning alone" in heading for heading in headings)
