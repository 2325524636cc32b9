"""The report: complete, self-contained, escaped, and made of nothing but report.json."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from fixtures.drawing import charts_of, corners, parsed, signs, values
from fixtures.errors import fails
from fixtures.report_example import chosen_by, chunk, example, section_of
from fixtures.shown_numbers import numbers
from lxml import html

from engine.core.errors import DamagedError
from engine.core.messages.report import EVIDENCE, SEARCH_MODES
from engine.core.systems import label_of
from engine.core.text import about_count, metric_name
from engine.evaluation.comparison import compare
from engine.evaluation.gate.decision import Decision, RungResult
from engine.evaluation.judgments import Judgment
from engine.evaluation.reporting.changes import build_hit_finder, find_changes
from engine.evaluation.reporting.page import render
from engine.evaluation.reporting.report import ReportData, read_report, write_report
from engine.evaluation.reporting.verdict import (
    gates_of,
    tables_of,
    verdict_of,
)

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}</title></style>]]>\ud800"
)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder, example(HOSTILE))


@pytest.mark.charts
def test_hostile_text_stays_text(hostile) -> None:
    page = html.parse(str(hostile), html.HTMLParser(encoding="utf-8"))
    assert not page.xpath(
        "//script | //img | //iframe | //link | //object | //@onerror | //@onload"
    )
    assert len(page.xpath("//title[not(ancestor::*[local-name()='svg'])]")) == 1
    assert len(page.xpath("//style")) == 1
    assert "<script>alert(1)</script>" in page.xpath("string(//h1)")
    assert "{{ 7*7 }}" in page.xpath("string(//h1)")


@pytest.mark.charts
def test_the_page_needs_nothing_from_outside(hostile) -> None:
    source = hostile.read_text(encoding="utf-8")
    for sign in ("http://", "https://", "url(", "@import", "src=", "href="):
        assert sign not in source.replace("src=x", "").replace('<use href="#', ""), sign
    assert "default-src 'none'" in source
    assert hostile.stat().st_size < 500_000


@pytest.mark.charts
def test_every_chart_is_well_formed_and_draws_inside_its_box(hostile) -> None:
    charts = re.findall(
        r"<svg.*?</svg>",
        hostile.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert len(charts) == 2 + 2 + 1  # bars of two sets, curves, and the changes of one set
    for chart in charts:
        root = parsed(chart)
        _, _, width, height = (float(part) for part in root.get("viewBox").split())
        outlines = [corners(path) for path in root.iter("path") if not path.get("transform")]
        places = [point for points in (*outlines, *signs(root)) for point in points]
        places += [(float(text.get("x")), float(text.get("y"))) for text in root.iter("text")]
        assert len(places) > 10
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


@pytest.mark.charts
def test_every_chart_can_be_scrolled_in_a_narrow_window(hostile) -> None:
    page = html.parse(str(hostile), html.HTMLParser(encoding="utf-8"))
    charts = page.xpath("//*[local-name()='svg']")
    assert charts
    assert {chart.getparent().tag for chart in charts} == {
        "figure"
    }  # which scrolls; a chart in the page itself widens it


def test_the_page_says_what_is_in_use_and_why_and_marks_synthetic_queries(tmp_path) -> None:
    data = example()
    page = html.parse(str(write_report(tmp_path, data)), html.HTMLParser(encoding="utf-8"))
    verdict = page.xpath("string(//section[@class='verdict'])")
    expected = verdict_of(read_report(tmp_path))
    assert all(mode.sentence in verdict for mode in expected.modes)
    assert page.xpath("//section[@class='verdict']/ol/li/text()") == list(expected.to_do)
    bars = [bar for mode in expected.modes for bar in mode.bars]
    assert page.xpath("//div[@class='bars']/b/text()") == [
        f"{bar.figure.value:.1f}" for bar in bars
    ]
    assert page.xpath("//div[@class='bars']/i/i/@style") == [
        f"width: {bar.figure.value}%" for bar in bars
    ]
    section = section_of(page, "How the choice was made").xpath("string()")
    assert all(choice.reason in section for choice in data.selection.values())
    flagged = [heading.xpath("string()") for heading in page.xpath("//h2[span[@class='flag']]")]
    assert flagged == ["Held-out generated queries synthetic, flatters"]


def test_the_page_shows_the_ladder_of_evidence_and_each_candidate(tmp_path) -> None:
    data = example()
    page = html.parse(str(write_report(tmp_path, data)), html.HTMLParser(encoding="utf-8"))
    section = section_of(page, "How the choice was made")
    assert section.xpath("h3/text()") == ["Semantic search", "Hybrid search"]
    tables = [
        [
            [cell.xpath("string()").strip() for cell in row.xpath("th | td")]
            for row in table.xpath(".//tbody/tr")
        ]
        for table in section.xpath(".//table")
    ]
    semantic, hybrid = (data.selection[mode].decision for mode in ("semantic", "hybrid"))
    titles = EVIDENCE["document"]
    assert tables[0] == [[f"{titles} (decided)", str(semantic.queries), "71"]]
    assert tables[2] == [[titles, str(hybrid.queries), "71"]], "experience decided"
    assert [(row[0], row[3], row[-1]) for row in tables[1]] == [
        (label_of("interpolated-0.5"), "–", "proved"),
        (label_of("adapted") + " (in use)", "–", "proved, in use"),
    ]
    assert [row[1][:5] for row in tables[1]] == [
        f"{candidate.difference.value:+.1f}" for candidate in semantic.candidates
    ]
    # of "adapted 0.6": 2 ± 1.96, and P(z < −2.3) = 1.1 % of losing more than 0.3
    assert [row[1:] for row in tables[3]][1] == [
        "–",
        "–",
        "+2.0+0.0 to +4.0",
        "1 %",
        "expected, in use",
    ]
    assert [row[0].partition(",")[2] for row in tables[3]] == [" share 0.5", " share 0.6"]
    gates = gates_of(read_report(tmp_path))
    for mode, decision in (("semantic", semantic), ("hybrid", hybrid)):
        gate = gates[mode]
        assert (gate.rung, gate.queries, gate.mode, gate.candidates) == (
            "document",
            decision.queries,
            mode,
            decision.candidates,
        )
    assert (
        page.xpath("count(//figcaption[contains(., 'during training')][not(span)])") == 1
    )  # such queries do not flatter
    text = page.xpath("string(//body)")
    for piece in (
        "56,789",
        "bf16",
        "precision",
        "Largest gains",
        "Largest losses",
        "60 queries measured",
    ):
        assert piece in text


def undecided(before: Decision) -> Decision:
    """The same candidates, had there been too few queries to decide."""
    rows = tuple(
        replace(row, outcome="not shown", in_use=False, expectation=None)
        for row in before.candidates
    )
    ladder = (RungResult("judged", 90, 373), RungResult("document", 375, 371))
    return replace(
        before,
        chosen=before.reference,
        standing="base",
        rung=None,
        candidates=rows,
        ladder=ladder,
        judged_needed=484,
        judged_points=5.0,
    )


def test_numbers_of_queries_that_are_estimated_are_rounded_as_in_the_verdict(tmp_path) -> None:
    data = example()
    selection = {
        mode: chosen_by(undecided(choice.decision)) for mode, choice in data.selection.items()
    }
    write_report(tmp_path, replace(data, selection=selection))
    report = read_report(tmp_path)
    assert [numbers(step) for step in verdict_of(report).to_do if numbers(step)] == [[490, 5]]
    report["query_sets"][0]["comparison"]["differences"]["bm25"]["ndcg@10"]["needed"] = 9_871
    page = html.document_fromstring(render(report))
    section = section_of(page, "How the choice was made")
    assert section.xpath("(.//table)[1]/tbody/tr/td[2]/text()") == [
        "380",
        "371",
    ], "371 are enough of 375"
    assert numbers(section.xpath("string(h3[1]/following-sibling::p[2])"))[-2:] == [490, 5]
    assert any(9_900 in numbers(text) for text in page.xpath("//small[@class='wrap']/text()"))


@pytest.mark.charts
def test_the_page_is_made_from_report_json_alone(tmp_path) -> None:
    page = write_report(tmp_path, example()).read_text(encoding="utf-8")
    assert render(read_report(tmp_path)) == page
    report = json.loads((tmp_path / "report.json").read_bytes())
    figures = report["query_sets"][0]["comparison"]["systems"]["base"]["ndcg@10"]
    assert f"{figures['value']:.1f} ({figures['low']:.1f}\u2013{figures['high']:.1f})" in page
    figures["value"] = 12.3
    assert "12.3" in render(report)


def test_figures_that_are_not_finite_become_null_and_a_dash(tmp_path) -> None:
    page = write_report(tmp_path, example()).read_text(encoding="utf-8")
    report = read_report(tmp_path)
    assert report["training"]["held_out"][2] == [100, None]
    assert "\u2013" in page
    assert "nan" not in page.lower()


def test_a_report_of_nothing_still_renders(tmp_path) -> None:
    nothing = {
        mode: chosen_by(Decision(mode, "base", "base", "base", None, 0)) for mode in SEARCH_MODES
    }
    page = write_report(tmp_path, ReportData("empty", "now", "0", nothing, [])).read_text(
        encoding="utf-8"
    )
    assert "<h1" in page
    assert "<svg" not in page


def test_a_broken_report_is_an_error(tmp_path) -> None:
    with fails(DamagedError, "report-damaged"):
        read_report(tmp_path)
    for content in (b"{", b"[]", b'{"schema": 99}', b"\xff"):
        (tmp_path / "report.json").write_bytes(content)
        with pytest.raises(DamagedError):
            read_report(tmp_path)


def test_changes_are_listed_largest_first() -> None:
    judgments = [Judgment(key, key.upper(), "chunk", {1: 1}) for key in "abcd"]
    systems = {
        "base": [[9, 8, 1], [1, 9, 8], [9, 8, 1], [9, 1, 8]],
        "new": [[1, 9, 8], [9, 1, 8], [9, 1, 8], [9, 1, 8]],
    }
    changes = find_changes(
        compare(systems, judgments, lambda ids: ids, samples=10), "new", "mrr@10", top=1
    )
    assert [(change.key, change.before, change.after) for change in changes.better] == [
        ("a", pytest.approx(100 / 3), 100.0)
    ]
    assert [(change.text, change.before, change.after) for change in changes.worse] == [
        ("B", 100.0, 50.0)
    ]
    assert (changes.count_better, changes.count_worse, changes.count_equal) == (2, 1, 1)
    assert changes.differences == (
        66.67,
        16.67,
        0.0,
        -50.0,
    )  # of a, c, d and b: all of them, whatever `top`


@pytest.mark.charts
def test_the_page_draws_how_each_query_changed(tmp_path) -> None:
    page = html.parse(str(write_report(tmp_path, example())), html.HTMLParser(encoding="utf-8"))
    (chart,) = [chart for chart in charts_of(page) if "query by query" in chart.get("aria-label")]
    assert chart.get("aria-label").startswith("Change of nDCG@10 from base to adapted")
    differences = read_report(tmp_path)["query_sets"][0]["changes"]["differences"]
    gains, losses = values(chart, "bar")
    assert [len(gains), len(losses)] == [2 + 2 * len(set(differences))] * 2
    assert [max(y for _, y in gains), min(y for _, y in losses)] == pytest.approx(
        [differences[0], differences[-1]], abs=0.5
    )


def test_a_change_shows_the_first_hits_of_both() -> None:
    judgments = [
        Judgment("a", "A", "chunk", {5: 1}),
        Judgment("b", "B", "document", {20: 1}),
        Judgment("c", "C", "chunk", {}),
    ]
    rankings = {
        "base": np.array([[7, 5, 9, 8], [9, 7, 5, 8], [5, 7, 8, 9]]),
        "new": np.array([[5, -1], [8, 7], [5, 7]]),
    }
    texts = {
        5: (10, "word " * 200),
        7: (10, "seven\x1b[31m\nlines"),
        8: (20, "eight"),
        9: (30, "nine"),
    }
    chunks = {key: chunk(key, *rest) for key, rest in texts.items()}
    find = build_hit_finder(
        rankings, judgments, chunks, {10: "ten", 20: "twenty\u202e", 30: "thirty"}
    )
    comparison = compare(
        rankings,
        judgments,
        lambda ids: np.where(ids == 8, 20, 10),
        samples=10,
    )
    first, second = find_changes(comparison, "new", hits=find).better
    assert [(hit.rank, hit.right, hit.title) for hit in first.hits_before] == [
        (1, False, "ten"),
        (2, True, "ten"),
        (3, False, "thirty"),
    ]
    assert first.hits_before[0].excerpt == "seven�[31m lines"
    assert [(hit.rank, hit.right) for hit in first.hits_after] == [(1, True)]
    assert first.hits_after[0].excerpt == "word " * 31 + "…"
    assert [(hit.right, hit.title) for hit in second.hits_after] == [
        (True, "twenty�"),
        (False, "ten"),
    ]
    assert find_changes(comparison, "new").better[0].hits_after == ()


def test_differences_carry_the_randomisation_test_and_the_queries_that_would_tell(tmp_path) -> None:
    page = html.parse(str(write_report(tmp_path, example())), html.HTMLParser(encoding="utf-8"))
    table, _ = tables_of(read_report(tmp_path)).values()
    rows = page.xpath(
        "(//h3[starts-with(., 'Difference to base')])[1]/following-sibling::div[1]//tbody/tr"
    )
    heads = page.xpath(
        "(//h3[starts-with(., 'Difference to"
        " base')])[1]/following-sibling::div[1]//thead//th/text()"
    )
    column = heads.index(metric_name("ndcg@10"))
    cells = {row.xpath("string(th)"): row.xpath(f"string(td[{column}])") for row in rows}
    assert len(cells) == len(table.differences) == 2
    for name, figures in table.differences.items():
        gap = figures["ndcg@10"]
        cell = cells[label_of(name)]
        assert cell.startswith(
            f"{gap.value:+.1f} {gap.verdict}{gap.low:+.1f} to {gap.high:+.1f}{gap.p_text}"
        )
        assert cell.endswith(
            f"would need about {about_count(gap.needed)} queries" if gap.needed else gap.p_text
        )
