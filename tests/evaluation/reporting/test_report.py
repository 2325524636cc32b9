"""The report: complete, self-contained, escaped, and made of nothing but report.json."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixtures.drawing import corners, parsed, shapes, signs, texts, values
from fixtures.errors import fails
from lxml import html

from engine.core.errors import DamagedError
from engine.core.events import Choice, EventLog, Warned
from engine.core.figures import Difference, Interval
from engine.core.messages.report import QuerySetReport
from engine.core.records import Chunk
from engine.core.systems import label_of, weight_of
from engine.core.text import metric_name
from engine.evaluation.comparison import compare
from engine.evaluation.evidence import Evidence, Measured
from engine.evaluation.gate import Selection, decide
from engine.evaluation.general_knowledge import general_knowledge
from engine.evaluation.judgments import Judgment
from engine.evaluation.reporting.changes import hit_finder, query_changes
from engine.evaluation.reporting.page import render
from engine.evaluation.reporting.parts import gate_of, query_sets_of, tables_of
from engine.evaluation.reporting.report import ReportData, choices_made, read_report, warnings_logged, write_report
from engine.evaluation.reporting.verdict import verdict_of
from engine.evaluation.studies.forgetting import measure_general
from engine.evaluation.studies.robustness import METRICS, Robustness, Row, Synonyms
from engine.evaluation.verdicts import verdict
from engine.project.store.artifact_info import TrainingHistory

TEMPLATE = Path(__file__).resolve().parents[3] / "assets" / "report" / "report.html.j2"
SYSTEMS = ("bm25", "hybrid in use")
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&{{ 7*7 }}</title></style>]]>\ud800"


def chunk(key: int, owner: int, text: str) -> Chunk:
    return Chunk(owner, 0, 0, len(text), text, (), 1, text, "", key)


def selection_of(values: Mapping[str, np.ndarray]) -> Selection:
    """What the gate chooses by the values of each candidate, taken for those of both modes."""
    evidence = Evidence("document", {name: Measured(one, one) for name, one in values.items()})
    decision = decide([evidence], "base", ("interpolated-0.5", "adapted"), samples=500)
    return Selection(
        decision.chosen, weight_of(decision.chosen), verdict(decision, "The base encoder", "hybrid"), decision
    )


def example(text: str = "which firm was fined?") -> ReportData:
    rng = np.random.default_rng(3)
    judgments = [Judgment(f"q{row}", f"{text} {row}", "chunk", {1: 1}, {1: (0,)}, 1) for row in range(60)]
    systems = {
        name: [rng.permutation(np.arange(1, 13)) if rng.random() > share else np.arange(1, 13) for _ in judgments]
        for name, share in {"base": 0.2, "bm25": 0.4, f"adapted {text}": 0.7}.items()
    }
    found = compare(systems, judgments, lambda ids: ids, samples=500)
    before = found.values["base"]["ndcg@10"]
    chunks = {key: chunk(key, 100 + key, f"chunk {key} {text}") for key in range(1, 13)}
    titles = {100 + key: f"title {key} {text}" for key in chunks}
    hits = hit_finder({name: np.array(ids) for name, ids in systems.items()}, judgments, chunks, titles)
    changes = query_changes(found, f"adapted {text}", top=5, hits=hits)
    sets = [
        QuerySetReport(f"Judged {text}", "judged", found.table, changes, f"adapted {text}", (text,) * 60),
        QuerySetReport("Held-out generated queries", "synthetic", found.table),
    ]
    return ReportData(
        project=f"Contracts {text}",
        created="2026-11-02T10:00:00Z",
        version="0.1.0",
        selection=selection_of({"base": before, "interpolated-0.5": before + 0.1, "adapted": before + 0.2}),
        query_sets=sets,
        training=TrainingHistory(
            [(step, 3.0 - step / 500) for step in range(1_000)], [(0, 40.0), (50, 41.5), (100, float("nan"))]
        ),
        settings={"training": {"seed": 1, "note": text}},
        choices=[Choice(stage="train", setting="precision", value="bf16", reason=text)],
        sizes={"documents": 1_234, "chunks": 56_789},
        diagnostics={"base": {"alignment": 1.25, "uniformity": float("inf"), "COE": Interval(71.25, 60.5, 80.75)}},
        warnings=[text],
    )


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_report(folder, example(HOSTILE), TEMPLATE)


def test_hostile_text_stays_text(hostile):
    page = html.parse(str(hostile), html.HTMLParser(encoding="utf-8"))
    assert not page.xpath("//script | //img | //iframe | //link | //object | //@onerror | //@onload")
    assert len(page.xpath("//title[not(ancestor::*[local-name()='svg'])]")) == 1
    assert len(page.xpath("//style")) == 1
    assert "<script>alert(1)</script>" in page.xpath("string(//h1)")
    assert "{{ 7*7 }}" in page.xpath("string(//h1)")


def test_the_page_needs_nothing_from_outside(hostile):
    source = hostile.read_text(encoding="utf-8")
    for sign in ("http://", "https://", "url(", "@import", "src=", "href="):
        assert sign not in source.replace("src=x", ""), sign
    assert "default-src 'none'" in source
    assert hostile.stat().st_size < 500_000


def test_every_chart_is_well_formed_and_draws_inside_its_box(hostile):
    charts = re.findall(r"<svg.*?</svg>", hostile.read_text(encoding="utf-8"), re.DOTALL)
    assert len(charts) == 2 + 2 + 1  # bars of two sets, curves, and the changes of one set
    for chart in charts:
        root = parsed(chart)
        _, _, width, height = (float(part) for part in root.get("viewBox").split())
        drawn = [corners(path) for path in root.iter("path") if not path.get("transform")]
        places = [point for points in (*drawn, *signs(root)) for point in points]
        places += [(float(text.get("x")), float(text.get("y"))) for text in root.iter("text")]
        assert len(places) > 10
        assert all(0 <= x <= width and 0 <= y <= height for x, y in places)


def test_every_chart_can_be_scrolled_in_a_narrow_window(hostile):
    page = html.parse(str(hostile), html.HTMLParser(encoding="utf-8"))
    charts = page.xpath("//*[local-name()='svg']")
    assert charts
    assert {chart.getparent().tag for chart in charts} == {
        "figure"
    }  # which scrolls; a chart in the page itself widens it


def test_the_page_says_what_is_in_use_and_why_and_marks_synthetic_queries(tmp_path):
    data = example()
    page = html.parse(str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    verdict, found = page.xpath("string(//section[@class='verdict'])"), verdict_of(read_report(tmp_path))
    assert all(text in verdict for text in (found.sentence, found.in_use, found.to_do))
    assert page.xpath("//div[@class='bars']/b/text()") == [f"{bar.figure.value:.1f}" for bar in found.bars]
    assert page.xpath("//div[@class='bars']/i/i/@style") == [f"width: {bar.figure.value}%" for bar in found.bars]
    assert data.selection.reason in section_of(page, "How the choice was made").xpath("string()")
    flagged = [heading.xpath("string()") for heading in page.xpath("//h2[span[@class='flag']]")]
    assert flagged == ["Held-out generated queries synthetic, flatters"]


def test_the_page_shows_the_ladder_of_evidence_and_each_candidate(tmp_path):
    data = example()
    page = html.parse(str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    section = section_of(page, "How the choice was made")
    ladder, candidates = (
        [[cell.xpath("string()").strip() for cell in row.xpath("th | td")] for row in table.xpath(".//tbody/tr")]
        for table in section.xpath(".//table")
    )
    decision = data.selection.decision
    assert ladder == [["document-written queries", str(decision.queries), "20"]]
    assert [(row[0], row[-1]) for row in candidates] == [
        (label_of("interpolated-0.5"), "admitted"),
        (label_of("adapted") + " (in use)", "in use"),
    ]
    assert [row[1][:5] for row in candidates] == [f"{one.semantic.value:+.1f}" for one in decision.candidates]
    gate = gate_of(read_report(tmp_path))
    assert (gate.rung, gate.queries, gate.mode) == ("document", decision.queries, "hybrid")
    assert [(row.name, row.default, row.outcome) for row in gate.candidates] == [
        (one.name, one.default, one.outcome) for one in decision.candidates
    ]
    assert page.xpath("count(//figcaption[contains(., 'during training')]/span[@class='flag'])") == 1
    text = page.xpath("string(//body)")
    for piece in (
        "56,789",
        "bf16",
        "precision",
        "Largest gains",
        "Largest losses",
        "60 queries measured",
        "71.2",
        "60.5–80.8",
    ):
        assert piece in text


def test_the_page_is_made_from_report_json_alone(tmp_path):
    page = write_report(tmp_path, example(), TEMPLATE).read_text(encoding="utf-8")
    assert render(read_report(tmp_path), TEMPLATE) == page
    report = json.loads((tmp_path / "report.json").read_bytes())
    figures = report["query_sets"][0]["comparison"]["systems"]["base"]["ndcg@10"]
    assert f"{figures['value']:.1f} ({figures['low']:.1f}\u2013{figures['high']:.1f})" in page
    figures["value"] = 12.3
    assert "12.3" in render(report, TEMPLATE)


def test_figures_that_are_not_finite_become_null_and_a_dash(tmp_path):
    page = write_report(tmp_path, example(), TEMPLATE).read_text(encoding="utf-8")
    report = read_report(tmp_path)
    assert report["diagnostics"]["base"]["uniformity"] is None
    assert report["training"]["held_out"][2] == [100, None]
    assert "\u2013" in page
    assert "nan" not in page.lower()


def test_a_report_of_nothing_still_renders(tmp_path):
    page = write_report(tmp_path, ReportData("empty", "now", "0", None, []), TEMPLATE).read_text(encoding="utf-8")
    assert "<h1" in page
    assert "<svg" not in page


def test_a_broken_report_is_an_error(tmp_path):
    with fails(DamagedError, "report-damaged"):
        read_report(tmp_path)
    for content in (b"{", b"[]", b'{"schema": 99}', b"\xff"):
        (tmp_path / "report.json").write_bytes(content)
        with pytest.raises(DamagedError):
            read_report(tmp_path)


def test_changes_are_listed_largest_first():
    judgments = [Judgment(key, key.upper(), "chunk", {1: 1}) for key in "abcd"]
    systems = {
        "base": [[9, 8, 1], [1, 9, 8], [9, 8, 1], [9, 1, 8]],
        "new": [[1, 9, 8], [9, 1, 8], [9, 1, 8], [9, 1, 8]],
    }
    changes = query_changes(compare(systems, judgments, lambda ids: ids, samples=10), "new", "mrr@10", top=1)
    assert [(change.key, change.before, change.after) for change in changes.better] == [
        ("a", pytest.approx(100 / 3), 100.0)
    ]
    assert [(change.text, change.before, change.after) for change in changes.worse] == [("B", 100.0, 50.0)]
    assert (changes.count_better, changes.count_worse, changes.count_equal) == (2, 1, 1)
    assert changes.differences == (66.67, 16.67, 0.0, -50.0)  # of a, c, d and b: all of them, whatever `top`


def test_the_page_draws_how_each_query_changed(tmp_path):
    page = html.parse(str(write_report(tmp_path, example(), TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    (chart,) = page.xpath("//*[local-name()='svg'][contains(@aria-label, 'query by query')]")
    assert chart.get("aria-label").startswith("Change of nDCG@10 from base to adapted")
    differences = read_report(tmp_path)["query_sets"][0]["changes"]["differences"]
    gains, losses = values(chart, "bar")
    assert [len(gains), len(losses)] == [2 + 2 * len(set(differences))] * 2
    assert [max(y for _, y in gains), min(y for _, y in losses)] == pytest.approx(
        [differences[0], differences[-1]], abs=0.5
    )


def test_a_change_shows_the_first_hits_of_both():
    judgments = [
        Judgment("a", "A", "chunk", {5: 1}),
        Judgment("b", "B", "document", {20: 1}),
        Judgment("c", "C", "chunk", {}),
    ]
    rankings = {
        "base": np.array([[7, 5, 9, 8], [9, 7, 5, 8], [5, 7, 8, 9]]),
        "new": np.array([[5, -1], [8, 7], [5, 7]]),
    }
    told = {5: (10, "word " * 200), 7: (10, "seven\x1b[31m\nlines"), 8: (20, "eight"), 9: (30, "nine")}
    chunks = {key: chunk(key, *rest) for key, rest in told.items()}
    find = hit_finder(rankings, judgments, chunks, {10: "ten", 20: "twenty\u202e", 30: "thirty"})
    comparison = compare(rankings, judgments, lambda ids: np.where(ids == 8, 20, 10), samples=10)
    (first, second) = query_changes(comparison, "new", hits=find).better
    assert [(hit.rank, hit.right, hit.title) for hit in first.hits_before] == [
        (1, False, "ten"), (2, True, "ten"), (3, False, "thirty")]  # fmt: skip
    assert first.hits_before[0].excerpt == "seven�[31m lines"
    assert [(hit.rank, hit.right) for hit in first.hits_after] == [(1, True)]
    assert first.hits_after[0].excerpt == "word " * 31 + "…"
    assert [(hit.right, hit.title) for hit in second.hits_after] == [(True, "twenty�"), (False, "ten")]
    assert query_changes(comparison, "new").better[0].hits_after == ()


def test_differences_carry_the_randomisation_test_and_the_queries_that_would_tell(tmp_path):
    page = html.parse(str(write_report(tmp_path, example(), TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    (table, _) = tables_of(read_report(tmp_path)).values()
    rows = page.xpath("(//h3[starts-with(., 'Difference to base')])[1]/following-sibling::div[1]//tbody/tr")
    heads = page.xpath("(//h3[starts-with(., 'Difference to base')])[1]/following-sibling::div[1]//thead//th/text()")
    column = heads.index(metric_name("ndcg@10"))
    shown = {row.xpath("string(th)"): row.xpath(f"string(td[{column}])") for row in rows}
    assert len(shown) == len(table.differences) == 2
    for name, figures in table.differences.items():
        gap, cell = figures["ndcg@10"], shown[label_of(name)]
        assert cell.startswith(f"{gap.value:+.1f} {gap.verdict}{gap.low:+.1f} to {gap.high:+.1f}{gap.format_p}")
        assert cell.endswith(f"would need {gap.needed:,} queries" if gap.needed else gap.format_p)


def with_every_name(report: dict[str, Any]) -> dict[str, Any]:
    """A report in which the name of what is in use stands wherever it may."""
    queries, choice = report["query_sets"][0], report["selection"]
    comparison = queries["comparison"]
    for part in (comparison["systems"], comparison["differences"]):
        part |= dict.fromkeys(("in_use", "in_use_without_csls", "rrf_in_use"), part["bm25"])
    comparison["pairs"] = {"rrf_in_use − rrf_base": comparison["differences"]["bm25"]}
    systems = {"base": 1.0, "in_use": 2.0}
    return {
        **report,
        "query_sets": [{**queries, "changed_system": "in_use"}, *report["query_sets"][1:]],
        "selection": {**choice, "in_use": "interpolated-0.5", "weight": 0.5},
        "diagnostics": systems,
        "similarities": {"systems": systems},
        "robustness": {"rows": [{"systems": {"hybrid base": 1.0, "hybrid in use": 2.0}}]},
        "general": {"systems": systems, "differences": systems, "distances": {"systems": systems}},
        "sentences": {"systems": systems, "differences": systems},
    }


@pytest.mark.parametrize("schema", [1, 2])
def test_a_report_of_a_former_version_is_read_under_the_present_names(tmp_path, schema):
    write_report(tmp_path, example(), TEMPLATE)
    file = tmp_path / "report.json"
    now = with_every_name(json.loads(file.read_bytes()))
    text = json.dumps(now, ensure_ascii=False)
    for name, old in {
        "in_use_without_csls": "served_cosine",
        "in_use": "served",
        "hybrid in use": "hybrid served",
    }.items():
        text = text.replace(name, old)
    former = json.loads(text.replace("interpolated-", "merge-"))
    former["schema"], choice = schema, former["selection"]
    now["selection"]["decision"] = None  # former gates decided on other grounds
    del choice["decision"]
    choice["table"] = [{"name": "base"}]
    if schema == 2:
        choice["in_use"] = choice.pop("served")
    if schema == 1:
        choice["strength"] = choice.pop("weight")
        for part in former["query_sets"]:
            part["synthetic"] = part["comparison"].pop("synthetic")
    file.write_text(json.dumps(former))
    found = read_report(tmp_path)
    assert tables_of(found)["judged"].gap("rrf_in_use", "rrf_base")
    for part in ("selection", "fusion", "diagnostics", "similarities", "robustness", "general", "sentences"):
        assert found[part] == now[part], part
    for one, other in zip(query_sets_of(found), query_sets_of(now), strict=True):
        assert one == other


def blows() -> Robustness:
    """A report's part on robustness."""

    def row(kind: str, words: int, value: float) -> Row:
        systems = {name: dict.fromkeys(METRICS, Interval(value, value - 5, value + 5.04)) for name in SYSTEMS}
        loss = Difference(value - 60, value - 65, value - 54.96, 0.0, "worse", 0.001)
        differences = {} if kind == "clean" else dict.fromkeys(systems, dict.fromkeys(METRICS, loss))
        return Row(kind, words, words, systems, differences, dict.fromkeys(differences, 7.5 * words))

    kinds = [(kind, n) for kind in ("typo", "mask", "substitute", "corrupt") for n in (1, 2, 3)]
    rows = (row("clean", 0, 60), *(row(kind, n, 60 - 7 * n) for kind, n in kinds), row("half", 0, 33))
    return Robustness("judged queries", "judged", 77, rows, Synonyms(), 6.5)


def test_robustness_is_shown_as_curves_and_a_table_where_it_was_measured(tmp_path):
    data = dataclasses.replace(example(), robustness=blows())
    page = html.parse(str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    section = section_of(page, "Robustness")
    charts = section.xpath(".//*[local-name()='svg']")
    assert [chart.get("aria-label") for chart in charts] == [
        f"nDCG@10 by {what} per query"
        for what in ("mistyped words", "masked words", "words exchanged", "words mistyped or exchanged")
    ]
    for chart in charts:
        assert texts(chart, "label") == [label_of("bm25"), label_of("hybrid in use")]
        assert [[round(y) for _, y in line] for line in values(chart, "line")] == [[60, 53, 46, 39]] * 2
        assert [len(line) for line in signs(chart)] == [4, 4]
    rows = [
        [cell.xpath("string()").split() for cell in row.xpath("th | td")]
        for row in section.xpath("(.//table)[1]/tbody/tr")
    ]
    assert len(rows) == 14
    assert "In the median, a query has 6.5 words." in section.xpath("string(p)")
    assert section.xpath("string()").count("22.5 % lost") == 8  # of two systems by three words, in four ways
    assert rows[0][2] == ["60.055.0–65.0"]
    assert rows[-1][0] == ["each", "word,", "p", "=", "0.5"]
    assert "-27.0 worse-32.0 to -22.0" in section.xpath("string()")
    without = write_report(tmp_path, example(), TEMPLATE).read_text(encoding="utf-8")
    assert "Robustness" not in without


GEOMETRY = {"base": {"uniformity": 2.5, "isotropy I_A": 0.125}}


def test_what_an_encoder_has_forgotten_is_shown(tmp_path):
    right, half = np.ones(60), np.arange(60) % 2.0
    values = {"base": {"hit@1": right, "mrr@10": right}, "adapted": {"hit@1": half, "mrr@10": half}}
    distances = {"base": np.linspace(0.8, 1.2, 50), "adapted": np.linspace(0.9, 1.3, 50)}
    data = dataclasses.replace(
        example(), general=measure_general(general_knowledge(), values, GEOMETRY, distances, samples=500)
    )
    page = html.parse(str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    section = section_of(page, "General knowledge")
    rows = [[cell.xpath("string()") for cell in row.xpath("th | td")] for row in section.xpath(".//tbody/tr")]
    assert [row[0] for row in rows] == ["base", *["adapted (in use)"] * 2, "base", "adapted (in use)"]
    assert rows[3][1:] == ["1.000", "0.820", "1.000", "1.180"]
    assert rows[0][1] == "100.0100.0–100.0"
    assert rows[2][1].startswith("-50.0 worse")
    assert section.xpath("string(p)").startswith("60 everyday questions")
    assert "uniformity 2.500, isotropy I_A 0.125" in section.xpath("string()")
    assert data.general is not None
    named = dataclasses.replace(data, general=dataclasses.replace(data.general, name="wiki"))
    assert "60 questions of wiki" in write_report(tmp_path, named, TEMPLATE).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        (
            {"similarity": 0.3125, "psi": 85.0, "accuracy": 0.835, "unthresholded": 0.84, "hidden": 0.125, "queries": 77,
             "kind": "judged", "k": 10, "reason": ""},
            ("77 judged queries, 12.5 % are less similar", "than 0.312 (ψ = 85)", "83.5 %", "84.0 %"),
        ),
        (
            {"similarity": 0.5, "psi": 5.0, "accuracy": 0.9, "unthresholded": 0.9, "hidden": 0.0, "queries": 54,
             "kind": "synthetic", "k": 10, "reason": ""},
            ("54 held-out queries",),
        ),
        ({"similarity": None, "reason": "queries are needed"}, ("hides no weak hits: queries are needed.",)),
    ],
)  # fmt: skip
def test_the_threshold_of_weak_hits_is_shown(tmp_path, threshold, said):
    data = dataclasses.replace(example(), threshold=threshold)
    page = html.parse(str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    text = " ".join(page.xpath("string(//details[summary/h2[starts-with(., 'Weak hits')]])").split())
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
    return {"kind": "judged", "name": "judged queries", "queries": 60, "k": 5, "random_chunks": 20, "cosines": axis,
            "systems": systems}  # fmt: skip


def section_of(page: html.HtmlElement, title: str) -> html.HtmlElement:
    (section,) = page.xpath(f"//details[summary/h2[starts-with(., '{title}')]]")
    return section


def heights(chart: html.HtmlElement) -> list[float]:
    """Of the highest place of every line."""
    return [max(y for _, y in line) for line in values(chart, "line")]


def test_similarities_before_and_after_stand_on_the_same_axes(tmp_path):
    merged = dataclasses.replace(example().selection, in_use="interpolated-0.5", weight=0.5)
    data = dataclasses.replace(example(), similarities=similarities(), selection=merged)
    page = html.parse(str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    section = section_of(page, "Similarities")
    assert section.xpath(".//figcaption/text()") == ["Before: base", "After: in use"]
    before, after = section.xpath(".//*[local-name()='svg']")
    assert heights(before) == pytest.approx([2, 2, 2], abs=0.02)
    assert heights(after) == pytest.approx([3, 3, 3], abs=0.02)
    ticks = [texts(chart, "tick") for chart in (before, after)]
    assert ticks[0] == ticks[1]
    assert shapes(before, "grid") == shapes(after, "grid")
    assert texts(before, "label") == ["correct chunks", "best 5 chunks", "random chunks"]
    samples = [path.get("style") for path in before.xpath(".//g[@class='sample']/path[not(@class)]")]
    assert len({str(re.findall(r"dasharray: ([^;]*)", style)) for style in samples}) == 3  # told apart without colours
    rows = [[cell.xpath("string()") for cell in row.xpath("th | td")] for row in section.xpath(".//tbody/tr")]
    assert rows[2] == ["in use", "0.710", "0.820", "0.130"]


def test_no_difference_is_shown_without_a_verdict(tmp_path):
    right, half = np.ones(60), np.arange(60) % 2.0
    values = {"base": {"hit@1": right, "mrr@10": right}, "adapted": {"hit@1": half, "mrr@10": half}}
    distances = {"base": np.linspace(0.8, 1.2, 50), "adapted": np.linspace(0.9, 1.3, 50)}
    data = dataclasses.replace(
        example(),
        robustness=blows(),
        general=measure_general(general_knowledge(), values, GEOMETRY, distances, samples=500),
        similarities=similarities(),
    )
    page = html.parse(str(write_report(tmp_path, data, TEMPLATE)), html.HTMLParser(encoding="utf-8"))
    signed = [cell for cell in page.xpath("//td | //li") if re.match(r".*[+-]\d", cell.xpath("string()"), re.DOTALL)]
    assert len(signed) > 40
    verdicts = ("better", "worse", "no difference shown")
    rows = [(cell, cell.getparent().xpath("string()") if cell.tag == "td" else "") for cell in signed]
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
    assert found.selection.in_use == "adapted"
    assert "adapted (in use)" in page
    assert "<th>in use</th>" not in page
    merged = dataclasses.replace(found.selection, in_use="interpolated-0.5", weight=0.5)
    page = write_report(tmp_path, dataclasses.replace(data, selection=merged), TEMPLATE).read_text(encoding="utf-8")
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
    assert choices_made(tmp_path / "events.jsonl") == [
        Choice(stage="train", setting="precision", value="bfloat16", reason="then")
    ]
    assert warnings_logged(tmp_path / "events.jsonl") == ["slow"]
    assert warnings_logged(tmp_path / "nothing.jsonl") == []


def test_what_is_advised_stands_with_the_verdict(tmp_path):
    data = dataclasses.replace(example(), advice="BM25 alone is better than <hybrid> search.")
    write_report(tmp_path, data, TEMPLATE)
    page = html.fromstring((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert data.advice in page.xpath("string(//section[@class='verdict'])")
    without = render({**read_report(tmp_path), "advice": ""}, TEMPLATE)
    assert "BM25 alone is better" not in without
